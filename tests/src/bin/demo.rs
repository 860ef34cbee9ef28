//! `cargo demo`: the whole system in one process, narrated.

use std::process::ExitCode;

use clap::Parser;
use muster_tests::demo::{self, Args};

fn main() -> ExitCode {
    demo::main(Args::parse())
}
