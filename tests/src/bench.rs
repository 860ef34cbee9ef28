//! How a benchmark of the whole system runs: agents apart from all else, and an exit code that says whether its limits
//! are met.

use std::process::ExitCode;

use tokio::runtime::{Builder, Handle};

/// Tables that all agents together write at once: many on one machine must not be hundreds of threads.
const AGENTS_WRITE: usize = 4;

/// Runs it; what it measures is done with a runtime of the agents' own.
pub fn run(name: &str, measure: impl AsyncFnOnce(&Handle) -> anyhow::Result<bool>) -> ExitCode {
    // A thousand programs in one: each takes new memory when a table comes, and a huge page is two mebibytes to clear.
    let _as_it_is = nix::sys::prctl::set_thp_disable(true);
    let run = || -> anyhow::Result<bool> {
        let runtime = two().build()?;
        let agents = two().max_blocking_threads(AGENTS_WRITE).build()?;
        let met = runtime.block_on(measure(agents.handle()));
        agents.shutdown_background();
        met
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn two() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder
}
