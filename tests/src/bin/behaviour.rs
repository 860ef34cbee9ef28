//! Runs the behaviour table on a server, or on two of them to compare.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use muster_tests::behaviour::{self, Outcome, Table, Target};

/// The behaviour table of the Kubernetes API.
#[derive(Parser)]
struct Args {
    /// Where the table lies.
    #[arg(long, global = true)]
    table: Option<PathBuf>,
    /// Only cases whose area, name or file contains this.
    #[arg(long, global = true, default_value = "")]
    filter: String,
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
    let Args { table, filter, command } = Args::parse();
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
            let outcomes = target.run(&tables, &filter).await;
            if show {
                outcomes.iter().for_each(print_transcript);
            }
            report(&outcomes)
        }
        Command::Compare { kubeconfig, sandbox_url, other } => {
            let (target, _sandbox) = match other {
                Some(path) => (real(path).await?, None),
                None => sandbox(sandbox_url).await?,
            };
            let real = real(kubeconfig).await?.run(&tables, &filter).await;
            let ours = target.run(&tables, &filter).await;
            compare(&real, &ours)
        }
    };
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn real(kubeconfig: PathBuf) -> anyhow::Result<Target> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Target::new(config).await
}

async fn sandbox(url: Option<String>) -> anyhow::Result<(Target, Option<()>)> {
    let url = url.ok_or_else(|| anyhow::anyhow!("give --sandbox-url"))?;
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

fn report(outcomes: &[Outcome]) -> usize {
    let mut failed = 0;
    for outcome in outcomes {
        if outcome.failures.is_empty() {
            println!("ok    {}: {}", outcome.area, outcome.name);
            continue;
        }
        failed += 1;
        println!("FAIL  {}: {}", outcome.area, outcome.name);
        outcome.failures.iter().for_each(|failure| println!("        {failure}"));
    }
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    failed
}

fn compare(real: &[Outcome], ours: &[Outcome]) -> usize {
    let mut failed = 0;
    for (real, ours) in real.iter().zip(ours) {
        let difference = behaviour::difference(&real.transcript, &ours.transcript);
        if real.failures.is_empty() && ours.failures.is_empty() && difference.is_none() {
            println!("ok    {}: {}", real.area, real.name);
            continue;
        }
        failed += 1;
        println!("DIFF  {}: {}", real.area, real.name);
        for (server, outcome) in [("real", real), ("sandbox", ours)] {
            outcome.failures.iter().for_each(|failure| println!("        {server}: {failure}"));
        }
        println!("{}", difference.unwrap_or_default());
    }
    println!("{} passed, {failed} failed", real.len() - failed);
    failed
}

fn print_transcript(outcome: &Outcome) {
    println!("=== {}: {}", outcome.area, outcome.name);
    for entry in &outcome.transcript.entries {
        println!("--- {}\n{:#}", entry.title, entry.answer);
    }
}
