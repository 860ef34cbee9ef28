//! One table of Kubernetes behaviour, run on any API server.
//!
//! The table is data: `tests/behaviour/*.yaml`, described in the README beside it. The same cases run on the
//! sandbox and on a real kube-apiserver; each answer is checked against what the case expects, and the whole
//! answers of two servers are compared, so that the sandbox cannot drift away from the real thing.
//!
//! ```text
//! case.rs        the table as data             names.rs       ${ns}, ${rand}, captured values
//! runner.rs      namespaces, steps, retries    exchange.rs    requests, answers, watches
//! expect.rs      does the answer do?           hooks.rs       webhooks over TLS for admission cases
//! transcript.rs  answers made comparable       difference.rs  two transcripts, line by line
//! ```

mod case;
mod difference;
pub mod exchange;
mod expect;
mod hooks;
mod names;
mod runner;
mod transcript;

use std::path::PathBuf;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use muster_sandbox::Sandbox;

pub use self::{
    case::{Case, Table},
    difference::difference,
    runner::{CaseOutcome, Target},
    transcript::Transcript,
};

/// A fresh sandbox that demands rights as a real server does, and the target to run cases on it. The sandbox ends
/// when it is dropped.
pub async fn sandbox() -> anyhow::Result<(Target, Sandbox)> {
    let sandbox = Sandbox::builder().strict(true).start().await?;
    let kubeconfig = Kubeconfig::read_from(sandbox.kubeconfig_path())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok((Target::new(config).await?, sandbox))
}

/// Where the table lies in the source tree.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("behaviour")
}
