//! `musterctl`: why something does not run, asked of a cluster; and what Muster would do with templates, pods, tables,
//! ModelServings, TrainJobs, DIJobs, pod groups and clusters, tried on files.
//!
//! This crate lists objects or reads files, and prints; what it prints is decided by the pure crates beside it. Results go to stdout, errors
//! with line and column to stderr. The exit code is 0, 1 where something was found or does not work, and 2 where the
//! command was not understood or a file cannot be read.

pub mod args;
mod dijobs;
mod group;
mod inject;
mod input;
mod live;
mod migrate;
mod modelserving;
mod names;
mod plan;
mod ranktable;
mod simulate;
mod template;
pub mod trainjob;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{
    Args, Command, ModelservingCommand, RanktableCommand, TemplateCommand, TrainjobCommand,
};

/// What the program is called in texts.
const NAME: &str = "musterctl";

/// Why a command ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command or a file that it names cannot be used.
    #[error("{0}")]
    Usage(String),
    /// What was asked for does not work.
    #[error("{0}")]
    Wrong(String),
    /// Whoever asks may not see what the answer depends on.
    #[error("{0}")]
    Forbidden(String),
    /// The result cannot be written.
    #[error("the result cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

// === impl Failure ===

impl Failure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Wrong(_) | Self::Forbidden(_) | Self::Output(_) => 1,
        }
    }

    fn wrong(error: impl ToString) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Writes a note to stderr; results go to stdout.
pub fn note(message: impl Display) {
    let _closed = writeln!(std::io::stderr(), "{NAME}: {message}");
}

/// The program, under the name by which people call it: `musterctl`, or `kubectl muster`.
pub fn program(name: &'static str) -> ExitCode {
    let command = called(Args::command(), name).bin_name(name);
    let args = match Args::from_arg_matches(&command.get_matches()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let ended = run(args, &mut out).and_then(|found| {
        out.flush()?;
        Ok(found)
    });
    match ended {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(error) => {
            note(&error);
            ExitCode::from(error.code())
        }
    }
}

/// A command whose help calls it by this name.
fn called(command: clap::Command, name: &'static str) -> clap::Command {
    let help = command.get_after_help().map(|help| help.to_string().replace(NAME, name));
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(|below| called(below, name))
}

/// Runs a command. Returns whether something was found that should not be there.
pub fn run(args: Args, out: &mut dyn Write) -> Result<bool, Failure> {
    match args.command {
        Command::Template(TemplateCommand::Eval(args)) => template::eval(&args, out),
        Command::Ranktable(RanktableCommand::Render(args)) => ranktable::render(&args, out),
        Command::Ranktable(RanktableCommand::Check(args)) => ranktable::check(&args, out),
        Command::Ranktable(RanktableCommand::Diff(args)) => ranktable::diff(&args, out),
        Command::Ranktable(RanktableCommand::Inject(args)) => inject::inject(&args, out),
        Command::Modelserving(ModelservingCommand::Check(args)) => modelserving::check(&args, out),
        Command::Modelserving(ModelservingCommand::Plan(args)) => plan::plan(&args, out),
        Command::Trainjob(TrainjobCommand::Render(args)) => trainjob::print(&args, out),
        Command::Explain(args) => live::explain(&args, out),
        Command::Queues(args) => live::queues(&args, out),
        Command::Topology(args) => live::topology(&args, out),
        Command::Nodes(args) => live::nodes(&args, out),
        Command::Snapshot(args) => live::snapshot(&args, out),
        Command::Dijobs(args) => dijobs::list(&args, out),
        Command::Simulate(args) => simulate::simulate(&args, out),
        Command::Group(args) => group::group_files(&args, out),
        Command::Migrate(args) => migrate::migrate(&args, out),
    }
}
