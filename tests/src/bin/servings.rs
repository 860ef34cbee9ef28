//! How fast many ModelServings get their tables. `hack/bench/modelserving/run` builds and calls this.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    muster_tests::servings::main(muster_tests::servings::Args::parse())
}
