//! Settings of `simulate`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::time;

/// Settings of `simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file holds lists of Kubernetes objects (nodes, pods, queues, podGroups, topologies, ...), or is a snapshot of
KAI Scheduler (also the .zip), or a file that has one of these under `input`. Its own configuration counts, unless
--config names another: KAI's configuration file, or a SchedulingShard.

Example:
  curl -s localhost:8081/get-snapshot > snapshot.zip
  musterctl simulate -f snapshot.zip

With --cycles the pods that were bound run in the next cycle, a second later, and those that were evicted wait.")]
pub struct SimulateArgs {
    /// The cluster, JSON or .zip, - for stdin
    #[arg(short, long, value_name = "SNAPSHOT")]
    pub file: PathBuf,
    /// The scheduler's configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How many cycles
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub cycles: u32,
    /// The clock, in RFC 3339; without it that of the file, or now
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub now: Option<String>,
    /// How decisions are printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SimulateOutput,
}

/// How decisions are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulateOutput {
    /// For people
    Table,
    /// For programs
    Json,
}
