//! Settings of the demo.

use clap::Parser;

/// What the demo shows of the programs' logs.
const QUIET: &str = "warn,muster_agent=error";

/// Shows Muster on a whole cluster that lives in this one process: an API server
/// in memory, simulated Ascend and NVIDIA nodes with their agents, coordinators, a
/// JobSet that runs to completion, one whose pods get a rank table, three
/// ModelServings that get theirs, and a DI-engine job.
///
/// Nothing is installed and nothing leaves 127.0.0.1. When all tables are there
/// the cluster stays up for you to play with, until Ctrl-C; then it is gone
/// without a trace.
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo demo --",
    version,
    verbatim_doc_comment,
    after_help = "Examples:
  cargo demo                      see it, then try kubectl on its cluster
  cargo demo -- --once            run it to its end: exit code 0 or 1
  cargo demo -- --port 8001       serve on a port that you know beforehand
  cargo demo -- --log info        say on stderr what the parts do

With MUSTER_KUBECONFIG=<file> the same is shown on a real cluster, in a
namespace and with simulated nodes of its own that are taken away at the end."
)]
pub struct Args {
    /// End when all tables are there, with exit code 0; without them with 1
    #[arg(long)]
    pub once: bool,

    /// Port of the API server on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,

    /// Nodes of each of the four hardware profiles, 2 to 20
    #[arg(long, value_name = "COUNT", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=20))]
    pub nodes: u32,

    /// Be the coordinator of the demo's DIJob
    #[arg(long, hide = true)]
    pub play_coordinator: bool,

    /// What to log on stderr, e.g. "info" or "muster_sandbox=debug"
    #[arg(
        long,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = QUIET,
        hide_default_value = true
    )]
    pub log: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent_and_the_help_fits_a_terminal() {
        Args::command().debug_assert();
        let help = Args::command().term_width(80).render_long_help().to_string();
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
