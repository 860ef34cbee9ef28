//! Settings of the program.

use std::path::PathBuf;

use clap::Parser;
use muster_sandbox::flags::{Controller, NodeGroup};

/// An embedded Kubernetes API, in memory, on 127.0.0.1. It stays up until Ctrl-C and forgets everything then.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  muster-sandbox --port 8001 --kubeconfig /tmp/kc
  KUBECONFIG=/tmp/kc kubectl get namespaces
  muster-sandbox --node ascend-910b-8=2 --node nvidia-h100-8
  muster-sandbox --strict        # credentials needed, RBAC enforced, HTTPS"
)]
pub struct Args {
    /// Port to listen on; 0 takes any free one
    #[arg(long, env = "MUSTER_SANDBOX_PORT", default_value_t = 0)]
    pub port: u16,

    /// Write the administrator's kubeconfig here as well
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Demand credentials and enforce RBAC
    #[arg(long)]
    pub strict: bool,

    /// Serve HTTPS; kubectl sends tokens over TLS only, so --strict implies it
    #[arg(long)]
    pub tls: bool,

    /// Simulated nodes, as PROFILE or PROFILE=COUNT; may be given several times.
    /// Profiles: ascend-910a-8, ascend-910b-8, ascend-a3-16, ascend-310p, nvidia-h100-8, cpu
    #[arg(long = "node", value_name = "PROFILE[=COUNT]")]
    pub nodes: Vec<NodeGroup>,

    /// Another scheduler's name, such as volcano, whose pods get nodes here too; may be given several times
    #[arg(long = "scheduler", value_name = "NAME")]
    pub schedulers: Vec<String>,

    /// A controller to leave out, as job or jobset, with its admission; may be given several times
    #[arg(long, value_name = "CONTROLLER", conflicts_with = "bare")]
    pub without: Vec<Controller>,

    /// Serve the bare API, without controllers
    #[arg(long)]
    pub bare: bool,

    /// A file of CustomResourceDefinitions to begin with, in place of ours where we have them (JobSet's); may be given several times
    #[arg(long = "crd", value_name = "FILE")]
    pub crds: Vec<PathBuf>,

    /// Name of an image that does not exist, so that its containers do not start; * stands for any text; may be given several times
    #[arg(long = "missing-image", value_name = "PATTERN")]
    pub missing_images: Vec<String>,

    /// What to log, e.g. "info" or "muster_sandbox=debug"
    #[arg(long, env = "RUST_LOG", default_value = "warn")]
    pub log: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
