//! Settings: flags, and the environment for what a Deployment sets.

use clap::Parser;

/// The coordinator of Muster: it watches jobs, makes rank tables, and speaks with the agents of all nodes.
#[derive(Debug, Parser)]
#[command(name = "muster-coordinator", version, max_term_width = 100)]
pub struct Args {}
