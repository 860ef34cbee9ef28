//! How fast the scheduler places pods. `hack/bench/scheduling/run` builds and calls this.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    muster_tests::placements::main(muster_tests::placements::Args::parse())
}
