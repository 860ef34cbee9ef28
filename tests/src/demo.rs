//! The demo: the [`World`] that the tests use, narrated.
//!
//! ```text
//!   start (sandbox, nodes, coordinators, agents) ──▶ JobSet ──▶ pods run ──▶ devices read ──▶ pods end
//!         ──▶ JobSet with a rank group ──▶ record ──▶ files ──▶ pods run ──▶ deleted
//!         ──▶ TrainJobs: torch, MPI ──▶ JobSets ──▶ processes that check what they got ──▶ complete ──▶ deleted
//!         ──▶ ModelServings: a role on two nodes, prefill and decode, a vLLM group ──▶ tables
//!         ──▶ DIJob ──▶ its coordinator asks for replicas ──▶ succeeded
//!         ──▶ two queues ──▶ a gang takes back what is its queue's own ──▶ one that cannot run says why ──▶ stay up
//! ```

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::World;
use muster_sandbox::hardware::Profile;
use narrator::Narrator;

mod agents;
mod args;
mod dijob;
mod narrator;
mod ranktable;
mod scheduling;
mod serving;
mod stopwatch;
mod story;
mod table;
mod training;

pub use args::Args;

/// The hardware that is shown.
const PROFILES: [Profile; 4] =
    [Profile::Ascend910b8, Profile::AscendA316, Profile::Ascend310p, Profile::NvidiaH1008];

/// Exit code of a program that Ctrl-C ended before its time.
const INTERRUPTED: u8 = 130;

/// How the demo ended.
enum End {
    Done,
    Interrupted,
}

/// Ctrl-C, and the polite kill.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// Runs the demo and says how it went.
pub fn main(args: Args) -> ExitCode {
    if args.play_coordinator {
        return dijob::play();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = runtime.block_on(run(args));
    runtime.shutdown_timeout(Duration::from_millis(500));
    match ended {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    // Without a stderr the exit code has to do.
    let _unheard = writeln!(std::io::stderr(), "\nthe demo failed: {error:#}");
    ExitCode::FAILURE
}

async fn run(args: Args) -> anyhow::Result<End> {
    let Args { once, port, nodes, log, play_coordinator: _ } = args;
    let filter = tracing_subscriber::EnvFilter::try_new(&log)
        .with_context(|| format!("--log {log:?} is not a filter: try \"info\""))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging: {error}"))?;
    let mut signals = Signals::listen()?;
    let mut narrator = Narrator::new();
    let world = {
        let mut opening = std::pin::pin!(story::open(&mut narrator, port, nodes));
        tokio::select! {
            world = &mut opening => world?,
            () = signals.come() => {
                // A sandbox ends when it is dropped. A real cluster has to be tidied up.
                if World::is_real() {
                    opening.await?.stop().await;
                }
                return Ok(End::Interrupted);
            }
        }
    };
    let ended = tokio::select! {
        told = story::run(&mut narrator, &world) => told.map(|()| End::Done),
        () = signals.come() => Ok(End::Interrupted),
    };
    if !once && matches!(ended, Ok(End::Done)) {
        narrator.step("the cluster stays up for you; Ctrl-C ends it");
        signals.come().await;
        narrator.plain("");
    }
    close(&mut narrator, world, &mut signals).await;
    ended
}

/// Stops everything; a second Ctrl-C does not wait for it.
async fn close(narrator: &mut Narrator, world: World, signals: &mut Signals) {
    narrator.step("stopping nodes, controllers and server");
    tokio::select! {
        () = world.stop() => narrator.step("everything is stopped, nothing is left behind"),
        () = signals.come() => {}
    }
}

// === impl Signals ===

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
