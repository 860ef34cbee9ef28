//! Measures one agent, as a process of its own, on a simulated node of eight devices.
//!
//! ```text
//!   this process: API server (TLS), kubelet, hub (TLS) ◀──▶ muster-agent, a child process
//! ```
//!
//! Prints each figure beside its limit. The figures are the program's: what the vendors' tools use while they run is
//! not counted.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use muster_agent::names;
use muster_proto::delivery::{Delivery, Place};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::World;
use crate::world::{HOLD, Seen};

pub(crate) mod process;
pub(crate) mod table;

use process::Usage;

/// Ranks of the large table.
const RANKS: usize = 100_000;

/// Arguments of the program.
#[derive(Debug, clap::Parser)]
#[command(name = "footprint", about = "What an agent costs: memory, CPU, start-up")]
pub struct Args {
    /// The program to measure, built for release
    #[arg(long, default_value = "target/agent/muster-agent")]
    agent: PathBuf,
    /// How long it is watched while it has nothing to do, in seconds
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// How often it is started to see how long that takes
    #[arg(long, default_value_t = 10)]
    starts: usize,
}

/// Figures beside their limits.
#[derive(Debug, Default)]
struct Report {
    missed: Vec<String>,
}

/// Measures and prints; fails when a limit is missed.
pub fn main(args: Args) -> ExitCode {
    let run = || -> anyhow::Result<Report> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(measure(args))
    };
    match run() {
        Ok(report) if report.missed.is_empty() => ExitCode::SUCCESS,
        Ok(report) => {
            eprintln!("over the limit: {}", report.missed.join(", "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("footprint: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: Args) -> anyhow::Result<Report> {
    let Args { agent, idle, starts } = args;
    let size = std::fs::metadata(&agent).with_context(|| {
        format!("{}: build it with cargo build --profile agent -p muster-agent", agent.display())
    })?;
    let mut report = Report::default();
    report.line("size of the program", size.len() as f64 / 1e6, 12.0, "MB");
    let mut result = Ok(());
    World::new()
        .nodes(1)
        .strict(true)
        .agents()
        .run(async |world| {
            result = on(world, &agent, idle, starts, &mut report).await;
            Ok(())
        })
        .await?;
    result.map(|()| report)
}

async fn on(
    world: &mut World,
    agent: &std::path::Path,
    idle: u64,
    starts: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let node = world.agents()?.iter().next().context("no agent")?.0.clone();
    world.agents_mut()?.end(&node).await?;
    let mut times = Vec::new();
    for _ in 0..starts.max(1) {
        let (mut child, time) = start(world, agent, &node).await?;
        times.push(time);
        stop(&mut child).await?;
    }
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1e3;
    report.line("start to first inventory (median)", median, 200.0, "ms");

    let (mut child, _) = start(world, agent, &node).await?;
    let pid = child.id().context("the agent has ended")?;
    let pod = waiting_pod(world, &node).await?;
    world.until("the agent's stream", async || linked(world, &node)).await?;
    let before = Usage::of(pid)?;
    eprintln!("watching the idle agent for {idle} s");
    tokio::time::sleep(Duration::from_secs(idle)).await;
    let after = Usage::of(pid)?;
    report.line("memory, idle", after.resident / 1048576.0, 15.0, "MiB");
    let cpu = (after.cpu - before.cpu) / idle.max(1) as f64 * 100.0;
    report.line("CPU, idle (% of a core)", cpu, 0.5, "%");

    let bytes = table::of(RANKS);
    let hub = world.hub()?.clone();
    let blob = hub.pack(bytes.as_bytes())?;
    let place = Place { pod_uid: pod, volume: "ranktable".into(), file: "ranktable.json".into() };
    let mut peak = 0.0_f64;
    for generation in 1..=5 {
        let order = Delivery {
            place: place.clone(),
            generation,
            digest: blob.digest(),
            mode: 0o644,
            group: None,
        };
        hub.deliver(&node, order, blob.clone())?;
        world
            .until("the large table", async || {
                peak = peak.max(Usage::of(pid)?.resident);
                let tables = hub.tables(&node);
                let there = |tables: &muster_hub::registry::Tables| {
                    tables
                        .delivered
                        .iter()
                        .any(|one| one.place == place && one.generation == generation)
                };
                Ok(match tables.as_ref().is_some_and(there) {
                    true => Seen::Yes(()),
                    false => Seen::NotYet(format!("{tables:?}")),
                })
            })
            .await?;
    }
    peak = peak.max(Usage::of(pid)?.peak);
    let what =
        format!("memory at most, {RANKS} ranks ({} MB) written 5 times", bytes.len() / 1_000_000);
    report.line(&what, peak / 1048576.0, 25.0, "MiB");
    let began = Instant::now();
    stop(&mut child).await?;
    report.line("SIGTERM to its end", began.elapsed().as_secs_f64() * 1e3, 2000.0, "ms");
    Ok(())
}

/// Starts the program; returns when it has told of its first inventory.
async fn start(
    world: &World,
    agent: &std::path::Path,
    node: &str,
) -> anyhow::Result<(Child, Duration)> {
    let agents = world.agents()?;
    let settings = agents.coordinator(world, node).await?;
    let root = &world
        .kubelets()
        .and_then(|nodes| nodes.node(node))
        .context("no node")?
        .spec()
        .root
        .clone();
    let token = world.agent_token(node, None).await?;
    let sandbox = world.sandbox().context("this needs the sandbox, not a real cluster")?;
    let kubeconfig = world.folder().join("agent.kubeconfig");
    muster_sandbox::write_private(&kubeconfig, &sandbox.kubeconfig(&token))?;
    let began = Instant::now();
    let mut child = Command::new(agent)
        .arg("run")
        .args(["--node", node, "--log", "info", "--log-format", "json", "--listen", "127.0.0.1:0"])
        .args(["--coordinator", &settings.address])
        .arg("--coordinator-ca")
        .arg(&settings.ca_file)
        .arg("--token-file")
        .arg(&settings.token_file)
        .arg("--sysroot")
        .arg(root)
        .arg("--state-dir")
        .arg(agents.state_of(node))
        .env_clear()
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{}", agent.display()))?;
    let mut lines = BufReader::new(child.stderr.take().context("no stderr")?).lines();
    let mut said = Vec::new();
    let first = tokio::time::timeout(Duration::from_secs(30), async {
        while let Some(line) = lines.next_line().await? {
            let found = line.contains("inventory changed");
            said.push(line);
            if found {
                return Ok(began.elapsed());
            }
        }
        anyhow::bail!("the agent ended: {}", said.join("\n"))
    });
    let time = first.await.context("no inventory after 30 s")??;
    // The pipe must not fill up.
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            tracing::debug!("{line}");
        }
    });
    Ok((child, time))
}

async fn stop(child: &mut Child) -> anyhow::Result<()> {
    let pid = child.id().context("the agent has ended by itself")?;
    process::terminate(pid)?;
    let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    let status = ended.context("the agent does not end within 10 s of SIGTERM")??;
    ensure!(status.success(), "the agent ended with {status}");
    Ok(())
}

fn linked(world: &World, node: &str) -> anyhow::Result<Seen<()>> {
    let pods = world.hub()?.pods();
    let known = pods.get(node).is_some_and(|pods| !pods.is_empty());
    Ok(if known { Seen::Yes(()) } else { Seen::NotYet("no pods at the hub".to_owned()) })
}

/// A pod that holds all devices and has a volume for a table; its uid.
async fn waiting_pod(world: &World, node: &str) -> anyhow::Result<String> {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "holder", "labels": { names::RANK_GROUP: "g" } },
        "spec": {
            "nodeName": node, "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": HOLD,
                "resources": { "limits": { "huawei.com/Ascend910": "8" } } }],
            "volumes": [{ "name": "ranktable", "emptyDir": {} }],
        },
    });
    let made = world.create_object(pod).await?;
    Ok(made["metadata"]["uid"].as_str().context("no uid")?.to_owned())
}

// === impl Report ===

impl Report {
    fn line(&mut self, what: &str, figure: f64, limit: f64, unit: &str) {
        let verdict = if figure <= limit { "" } else { "  OVER" };
        println!("{what:<58} {figure:>9.2} {unit:<4} limit {limit:>7.1} {unit}{verdict}");
        if figure > limit {
            self.missed.push(what.to_owned());
        }
    }
}
