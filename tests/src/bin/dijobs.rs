//! How long many callers of the DI server wait. `hack/bench/dijob/run` builds and calls this.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    muster_tests::dijobs::main(muster_tests::dijobs::Args::parse())
}
