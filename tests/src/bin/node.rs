//! Our programs on a real node. `hack/cluster/node-test` makes the node and calls this.

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    muster_tests::node::main(muster_tests::node::Order::parse()).await
}
