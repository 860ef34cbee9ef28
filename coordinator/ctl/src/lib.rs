//! `musterctl`: what Muster would do with templates, pods, tables, ModelServings, TrainJobs, DIJobs and clusters, tried
//! on files.
//!
//! This crate reads files and prints; what it prints is decided by the pure crates beside it. Results go to stdout, errors
//! with line and column to stderr. The exit code is 0, 1 where something was found or does not work, and 2 where the
//! command was not understood or a file cannot be read.

pub mod args;
mod dijobs;
mod inject;
mod input;
mod migrate;
mod modelserving;
mod plan;
mod ranktable;
mod simulate;
mod template;
pub mod trainjob;

use std::fmt::Display;
use std::io::Write;

use args::{
    Args, Command, ModelservingCommand, RanktableCommand, TemplateCommand, TrainjobCommand,
};

/// Why a command ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command or a file that it names cannot be used.
    #[error("{0}")]
    Usage(String),
    /// What was asked for does not work.
    #[error("{0}")]
    Wrong(String),
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
            Self::Wrong(_) | Self::Output(_) => 1,
        }
    }

    fn wrong(error: impl ToString) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Says something that is no result. Without a stderr it goes unheard.
pub fn say(message: impl Display) {
    let _unheard = writeln!(std::io::stderr(), "musterctl: {message}");
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
        Command::Dijobs(args) => dijobs::list(&args, out),
        Command::Simulate(args) => simulate::simulate(&args, out),
        Command::Migrate(args) => migrate::migrate(&args, out),
    }
}
