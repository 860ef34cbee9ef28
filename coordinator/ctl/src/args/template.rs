//! Settings of `template`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Commands on templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Print what a template makes of its data
    Eval(EvalArgs),
}

/// Settings of `template eval`.
#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    /// The template, - for stdin
    #[arg(long, value_name = "FILE")]
    pub template: PathBuf,
    /// The data as JSON
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// What the data is to the template
    #[arg(long, value_enum, default_value = "json")]
    pub mode: Mode,
    /// What a missing key of a map means
    #[arg(long, value_enum, default_value = "default")]
    pub missing_key: MissingKey,
    /// fromJson reads what is no JSON as nothing
    #[arg(long)]
    pub lenient: bool,
}

/// What data is to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Maps and lists; every number is a float
    Json,
    /// Maps and lists; integers are ints
    Typed,
    /// The structs of a table, by their Go names; other names are errors
    #[value(alias = "seed")]
    Table,
    /// One text
    String,
}

/// What a missing key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissingKey {
    /// `<no value>`
    #[value(alias = "invalid")]
    Default,
    /// The zero value
    Zero,
    /// An error
    Error,
}
