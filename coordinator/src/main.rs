//! The coordinator's program.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use muster_coordinator::args::{Args, Command};
use muster_coordinator::run;

#[cfg(target_env = "musl")]
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
