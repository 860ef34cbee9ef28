//! `cargo demo`: the whole system in one process, narrated.

use std::process::ExitCode;

use clap::Parser;
use muster_tests::demo::{self, Args};

/// As in `muster-sandbox`, which says why.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Both `cargo demo --once` and `cargo demo -- --once` are natural; the alias has a `--` of its own.
    let given = std::env::args_os().enumerate();
    let kept = given.filter(|(at, argument)| *at != 1 || argument != "--");
    demo::main(Args::parse_from(kept.map(|(_, argument)| argument)))
}
