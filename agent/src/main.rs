//! The program; see `muster-agent --help`.

use std::process::ExitCode;

use clap::Parser;
use muster_agent::args::{Args, Command};
use muster_agent::{print, run, wait};

fn main() -> ExitCode {
    let ended = match Args::parse().command {
        Command::Run(args) => run::main(*args),
        Command::Discover(args) => print::main(args),
        Command::Wait(args) => return wait::main(args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // Without a stderr the exit code has to do.
            let _unheard = writeln!(std::io::stderr(), "muster-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
