//! Containers that run until a test lets them end.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The image whose containers run until the [`Gate`] opens, then exit 0.
pub const HOLD: &str = "sandbox.muster.dev/hold";

/// Closed at first; once open it stays so.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

// === impl Gate ===

impl Gate {
    /// Lets all containers end, also those to come.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns the exit code when the gate opens or the container is told to end.
    pub(super) async fn pass(&self, stop: CancellationToken) -> i32 {
        let mut seen = self.0.subscribe();
        tokio::select! {
            _open = seen.wait_for(|open| *open) => 0,
            () = stop.cancelled() => muster_sandbox::kubelet::names::EXIT_TERMINATED,
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}
