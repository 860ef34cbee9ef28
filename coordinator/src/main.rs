//! The coordinator's program.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use muster_coordinator::args::{Args, Command};
use muster_coordinator::run;

/// It gives memory back that is not needed any more: a first listing makes much that is soon forgotten.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Some(Command::Crd) => definitions(),
        None => run::main(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-coordinator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the definitions that are made of types.
fn definitions() -> anyhow::Result<()> {
    std::io::stdout().write_all(muster_api::crd::yaml()?.as_bytes())?;
    Ok(())
}
