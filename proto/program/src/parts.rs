//! A program is made of parts, each a task with a name. None should end by itself.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// The signals that end a program.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Returns when a part has ended though nobody asked it to; says which.
pub async fn failed(parts: &mut JoinSet<&'static str>) -> anyhow::Error {
    match parts.join_next().await {
        Some(Ok(part)) => anyhow::anyhow!("the part {part:?} ended by itself"),
        Some(Err(error)) => anyhow::anyhow!("a part ended: {error}"),
        None => anyhow::anyhow!("no part is left"),
    }
}

/// Waits until all parts have ended, at most so long. Whether they have.
pub async fn drain(parts: &mut JoinSet<&'static str>, limit: Duration) -> bool {
    let ending = async { while parts.join_next().await.is_some() {} };
    tokio::time::timeout(limit, ending).await.is_ok()
}

// === impl Signals ===

impl Signals {
    /// Takes them from now on.
    pub fn take() -> std::io::Result<Self> {
        let (terminate, interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt })
    }

    /// Returns when one comes.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => tracing::info!("told to stop"),
            _ = self.interrupt.recv() => tracing::info!("interrupted"),
        }
    }
}
