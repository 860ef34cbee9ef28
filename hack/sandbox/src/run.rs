//! Wires the program together.

use anyhow::Context;
use muster_sandbox::Sandbox;

use crate::args::Args;

/// Runs until Ctrl-C.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Args { port, kubeconfig, strict, tls, bare, log } = args;
    let filter = tracing_subscriber::EnvFilter::try_new(&log)
        .with_context(|| format!("--log {log:?} is not a filter: try \"info\""))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut builder = Sandbox::builder().port(port).strict(strict).tls(tls || strict);
    if bare {
        builder = builder.controllers(None);
    }
    let sandbox = builder.start().await?;
    let path = sandbox.kubeconfig_path();
    if let Some(copy) = &kubeconfig {
        std::fs::copy(&path, copy).with_context(|| format!("writing {}", copy.display()))?;
    }
    let shown = kubeconfig.unwrap_or(path);
    println!("serving     {}", sandbox.url());
    println!("kubeconfig  {}", shown.display());
    println!("try         KUBECONFIG={} kubectl get namespaces", shown.display());
    tokio::signal::ctrl_c().await?;
    sandbox.stop().await;
    Ok(())
}
