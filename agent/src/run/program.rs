//! The program around an agent: settings, signals, the end.

use std::time::Duration;

use muster_program::api_server;
use muster_program::log::LogLevel;
use muster_program::run::{self, Running};

use super::{Agent, AgentSettings};
use crate::args::RunArgs;
use crate::directories::Directories;
use crate::kubelet::device_id::ResourceNames;
use crate::link;
use crate::problem::Problems;

/// Threads for files: discovery and deliveries. They end when they have had nothing to do for a second.
const FILE_THREADS: usize = 4;

/// How long a read of a sick driver's file may keep the process after everything else has ended.
const GRACE: Duration = Duration::from_millis(200);

/// Runs until SIGTERM or Ctrl-C, or until a part fails.
pub fn main(args: RunArgs) -> anyhow::Result<()> {
    let log = LogLevel::start(&args.log, args.log_format)?;
    let settings = settings(args)?;
    // Both kube and tonic take whatever is installed.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(FILE_THREADS)
        .thread_keep_alive(Duration::from_secs(1))
        .build()?;
    run::run(runtime, GRACE, start(settings, log))
}

async fn start(settings: AgentSettings, log: LogLevel) -> anyhow::Result<Agent> {
    let client = api_server::connect().await?;
    let problems = Problems::default();
    let directories = Directories::new(&problems);
    let node = settings.node.clone();
    let agent = Agent::start(settings, client, directories, log, problems).await?;
    let address = agent.address().map(|address| address.to_string()).unwrap_or_default();
    tracing::info!(node, address, version = env!("CARGO_PKG_VERSION"), "started");
    Ok(agent)
}

fn settings(args: RunArgs) -> anyhow::Result<AgentSettings> {
    let RunArgs {
        node,
        host,
        kubelet_root,
        state_dir,
        server_id,
        coordinator,
        coordinator_ca,
        coordinator_name,
        token_file,
        listen,
        poll,
        resources,
        log: _,
        log_format: _,
    } = args;
    anyhow::ensure!(
        !node.is_empty(),
        "--node is empty; in a pod, set NODE_NAME from spec.nodeName"
    );
    anyhow::ensure!(
        kubelet_root.starts_with('/'),
        "--kubelet-root {kubelet_root}: not an absolute path"
    );
    let mut discover = host.settings()?;
    discover.tools_every = poll;
    let mut names = ResourceNames::default();
    names.0.extend(resources);
    let coordinator = coordinator.map(|address| link::LinkSettings {
        domain: coordinator_name,
        ..link::LinkSettings::new(address, coordinator_ca, token_file)
    });
    Ok(AgentSettings {
        kubelet_root,
        server_id,
        resources: names,
        coordinator,
        listen: Some(listen),
        ..AgentSettings::new(&node, discover, state_dir)
    })
}

// === impl Agent ===

impl Running for Agent {
    async fn failed(&mut self) -> anyhow::Error {
        Self::failed(self).await
    }

    async fn stop(self) {
        Self::stop(self).await;
    }
}
