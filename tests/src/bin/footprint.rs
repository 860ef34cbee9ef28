//! What an agent costs: memory, CPU, start-up. `hack/footprint` builds the release program and calls this.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    muster_tests::footprint::main(muster_tests::footprint::Args::parse())
}
