//! The life of a program: signals, the parts that run until one comes, and the end.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::parts::Signals;

/// What has been started and must be stopped.
pub trait Running: Sized {
    /// Returns when a part has ended by itself; the error says which.
    fn failed(&mut self) -> impl Future<Output = anyhow::Error>;

    /// Ends all parts.
    fn stop(self) -> impl Future<Output = ()>;
}

/// Starts a program and waits for SIGTERM, Ctrl-C or a part that fails; then stops it. Threads that hang, such as one
/// that reads a sick driver's file, get `grace` to end and are left behind.
pub fn run<R: Running>(
    runtime: Runtime,
    grace: Duration,
    start: impl Future<Output = anyhow::Result<R>>,
) -> anyhow::Result<()> {
    let ended = runtime.block_on(until_signal(start));
    runtime.shutdown_timeout(grace);
    ended
}

async fn until_signal<R: Running>(
    start: impl Future<Output = anyhow::Result<R>>,
) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let mut running = start.await?;
    let failed = tokio::select! {
        () = signals.received() => None,
        error = running.failed() => Some(error),
    };
    running.stop().await;
    match failed {
        Some(error) => Err(error),
        None => {
            tracing::info!("stopped");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Broken(Arc<AtomicBool>);

    impl Running for Broken {
        async fn failed(&mut self) -> anyhow::Error {
            anyhow::anyhow!("the part ended")
        }

        async fn stop(self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_part_that_fails_stops_the_others_and_ends_the_program_with_its_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let start = {
            let stopped = stopped.clone();
            async { Ok(Broken(stopped)) }
        };
        let ended = run(runtime, Duration::from_millis(10), start);
        assert_eq!(ended.unwrap_err().to_string(), "the part ended");
        assert!(stopped.load(Ordering::Relaxed));
    }

    #[test]
    fn a_program_that_cannot_start_says_why() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let start = async { anyhow::Result::<Broken>::Err(anyhow::anyhow!("no API")) };
        let ended = run(runtime, Duration::from_millis(10), start);
        assert_eq!(ended.unwrap_err().to_string(), "no API");
    }
}
