//! How fast many TrainJobs become JobSets. `hack/bench/trainjob/run` builds and calls this.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    muster_tests::trainjobs::main(muster_tests::trainjobs::Args::parse())
}
