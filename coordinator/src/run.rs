//! `muster-coordinator`: all parts, wired.

use crate::args::Args;

/// Runs until SIGTERM or Ctrl-C, or until a part fails.
pub fn main(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("not wired yet")
}
