//! How fast a table reaches every node. `hack/bench/delivery/run` builds and calls this.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    muster_tests::delivery::main(muster_tests::delivery::Args::parse())
}
