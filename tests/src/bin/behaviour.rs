//! Runs the behaviour table on a server, or on two of them to compare.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use muster_sandbox::Sandbox;
use muster_tests::behaviour::{self, CaseOutcome, Table, Target};

/// The behaviour table of the Kubernetes API.
#[derive(Parser)]
struct Args {
    /// Where the table lies.
    #[arg(long, global = true)]
    table: Option<PathBuf>,
    /// Only cases whose area, name or file contains this.
    #[arg(long, global = true, default_value = "")]
    filter: String,
    /// Seconds for which a step that waits for something is repeated.
    #[arg(long, global = true, default_value_t = 60.0)]
    patience: f64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the cases.
    List,
    /// Run the cases on one server and check what they expect.
    Run {
        /// The server; the embedded sandbox if there is none.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Print every answer.
        #[arg(long)]
        show: bool,
    },
    /// Run the cases on a real server and on the sandbox, and show where their answers differ.
    Compare {
        /// The real server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// A sandbox that runs already; otherwise one is started.
        #[arg(long)]
        sandbox_url: Option<String>,
        /// Another real server in place of the sandbox, or the same one, to see what differs from run to run.
        #[arg(long, conflicts_with = "sandbox_url")]
        other: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    // Refusals are what the table is about: the client need not report them.
    let filter = tracing_subscriber::EnvFilter::new("warn,kube_client=off");
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
    let Args { table, filter, patience, command } = Args::parse();
    let patience = Duration::from_secs_f64(patience);
    let tables = Table::load_all(&table.unwrap_or_else(behaviour::directory))?;
    let failed = match command {
        Command::List => {
            list(&tables, &filter);
            0
        }
        Command::Run { kubeconfig, show } => {
            let (target, _sandbox) = match kubeconfig {
                Some(path) => (real(path).await?, None),
                None => sandbox(None).await?,
            };
            let each = |outcome: &CaseOutcome| {
                report(outcome);
                if show {
                    print_transcript(outcome);
                }
            };
            let outcomes = target.patience(patience).run(&tables, &filter, each).await;
            summary(outcomes.iter().map(|outcome| outcome.failures.is_empty()))
        }
        Command::Compare { kubeconfig, sandbox_url, other } => {
            let (target, _sandbox) = match other {
                Some(path) => (real(path).await?, None),
                None => sandbox(sandbox_url).await?,
            };
            let real = real(kubeconfig).await?.patience(patience);
            let real = real.run(&tables, &filter, |_| eprint!(".")).await;
            let ours = target.patience(patience).run(&tables, &filter, |_| eprint!(".")).await;
            eprintln!();
            summary(real.iter().zip(&ours).map(|(real, ours)| compare(real, ours)))
        }
    };
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn real(kubeconfig: PathBuf) -> anyhow::Result<Target> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Target::new(config).await
}

async fn sandbox(url: Option<String>) -> anyhow::Result<(Target, Option<Sandbox>)> {
    let Some(url) = url else {
        let (target, sandbox) = behaviour::sandbox().await?;
        return Ok((target, Some(sandbox)));
    };
    Ok((Target::new(Config::new(url.parse()?)).await?, None))
}

fn list(tables: &[Table], filter: &str) {
    let mut count = 0;
    for table in tables {
        for case in &table.cases {
            if table.area.contains(filter) || case.name.contains(filter) {
                println!("{:12} {}", table.area, case.name);
                count += 1;
            }
        }
    }
    println!("{count} cases");
}

fn report(outcome: &CaseOutcome) {
    let (area, name) = (&outcome.area, &outcome.name);
    if outcome.failures.is_empty() {
        println!("ok {:5.1} s  {area}: {name}", outcome.took.as_secs_f32());
        return;
    }
    println!("FAIL  {area}: {name}");
    outcome.failures.iter().for_each(|failure| println!("        {failure}"));
}

/// Prints how one case differs; true if it does not.
fn compare(real: &CaseOutcome, ours: &CaseOutcome) -> bool {
    let difference = behaviour::difference(&real.transcript, &ours.transcript);
    if real.failures.is_empty() && ours.failures.is_empty() && difference.is_none() {
        println!("ok    {}: {}", real.area, real.name);
        return true;
    }
    println!("DIFF  {}: {}", real.area, real.name);
    for (server, outcome) in [("real", real), ("sandbox", ours)] {
        outcome.failures.iter().for_each(|failure| println!("        {server}: {failure}"));
    }
    println!("{}", difference.unwrap_or_default());
    false
}

/// Prints the last line and returns how many failed.
fn summary(results: impl Iterator<Item = bool>) -> usize {
    let (passed, failed): (Vec<bool>, Vec<bool>) = results.partition(|passed| *passed);
    if passed.is_empty() && failed.is_empty() {
        eprintln!("no case matches: `behaviour list` shows them all");
        println!("0 passed, 0 failed");
        return 1;
    }
    println!("{} passed, {} failed", passed.len(), failed.len());
    failed.len()
}

fn print_transcript(outcome: &CaseOutcome) {
    println!("=== {}: {}", outcome.area, outcome.name);
    for entry in &outcome.transcript.entries {
        println!("--- {}\n{:#}", entry.title, entry.answer);
    }
}
