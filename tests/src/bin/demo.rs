//! `cargo demo`: the whole system in one process, narrated.

use std::process::ExitCode;

use clap::Parser;
use muster_tests::demo::{self, Args};

/// As in `muster-sandbox`, which says why.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    demo::main(Args::parse())
}
