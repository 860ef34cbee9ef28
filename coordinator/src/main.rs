//! The coordinator's program.

use std::process::ExitCode;

use clap::Parser;
use muster_coordinator::args::Args;
use muster_coordinator::run;

fn main() -> ExitCode {
    match run::main(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-coordinator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
