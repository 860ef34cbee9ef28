//! `muster-sandbox`: the embedded Kubernetes as a program.

mod args;
mod run;

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    run::run(args::Args::parse()).await
}
