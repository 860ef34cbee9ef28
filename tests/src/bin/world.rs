//! `muster-world`: a sandbox with Muster installed on it, by its real programs.

use clap::Parser;
use muster_tests::installed::{self, Args};

/// As in `muster-sandbox`, which says why.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    installed::run(Args::parse()).await
}
