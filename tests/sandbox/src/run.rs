//! Wires the program together.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::Context;
use muster_sandbox::control::Which;
use muster_sandbox::flags::NodeGroup;
use muster_sandbox::kubelet::{KubeletOptions, NodeSpec};
use muster_sandbox::{Sandbox, write_private};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;

/// Runs until Ctrl-C.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Args { port, kubeconfig, strict, tls, nodes, schedulers, log, .. } = &args;
    let filter = tracing_subscriber::EnvFilter::try_new(log)
        .with_context(|| format!("--log {log:?} is not a filter: try \"info\""))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let mut builder = Sandbox::builder().port(*port).strict(*strict).tls(*tls || *strict);
    let mut which = Which { schedulers: schedulers.clone(), ..Which::default() };
    args.without.iter().for_each(|controller| controller.leave_out(&mut which));
    builder = builder.controllers((!args.bare).then_some(which));
    for file in &args.crds {
        for crd in definitions(file)? {
            builder = builder.crd(crd);
        }
    }
    let missing_images = args.missing_images.iter().collect();
    builder = builder.kubelet(KubeletOptions { missing_images, ..KubeletOptions::default() });
    let roots = tempfile::Builder::new().prefix("muster-nodes-").tempdir()?;
    let sandbox = builder.nodes(specs(nodes, roots.path())).start().await?;
    let path = sandbox.kubeconfig_path();
    if let Some(copy) = kubeconfig {
        write_private(copy, &std::fs::read_to_string(&path)?)
            .with_context(|| format!("writing {}", copy.display()))?;
    }
    let shown = kubeconfig.clone().unwrap_or(path);
    println!("serving     {}", sandbox.url());
    println!("kubeconfig  {}", shown.display());
    println!("try         KUBECONFIG={} kubectl get namespaces", shown.display());
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
    sandbox.stop().await;
    Ok(())
}

/// Nodes named `<profile>-<index>`, each with its files below a folder of its own.
fn specs(groups: &[NodeGroup], roots: &Path) -> Vec<NodeSpec> {
    let profiles = groups.iter().flat_map(|g| (0..g.count).map(move |at| (g.profile, at)));
    profiles
        .zip(0..)
        .map(|((profile, at), index)| {
            let name = format!("{}-{at}", profile.name());
            let root = roots.join(&name);
            NodeSpec::new(&name, profile, index, root)
        })
        .collect()
}

/// The definitions in a file of one or more YAML documents.
fn definitions(file: &Path) -> anyhow::Result<Vec<Value>> {
    let read = || -> anyhow::Result<Vec<Value>> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(file)?)?;
        let documents: Vec<Value> = documents.into_iter().filter(|one| !one.is_null()).collect();
        let other = documents.iter().find(|one| one["kind"] != "CustomResourceDefinition");
        match other {
            Some(other) => anyhow::bail!(
                "it has a {}, and may have CustomResourceDefinitions only",
                other["kind"]
            ),
            None => Ok(documents),
        }
    };
    read().with_context(|| format!("--crd {}", file.display()))
}
