//! Settings of the program.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use muster_sandbox::control::Which;
use muster_sandbox::hardware::Profile;

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

/// A controller by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    /// Garbage collection.
    Gc,
    /// Namespaces: their content, service accounts and authorities.
    Namespace,
    /// Jobs.
    Job,
    /// JobSets, and what JobSet's webhooks do.
    Jobset,
    /// EndpointSlices.
    Service,
    /// The default scheduler.
    Scheduler,
    /// PodDisruptionBudgets.
    Disruption,
    /// Pods of lost nodes.
    Pods,
    /// Taints of nodes.
    Nodes,
}

/// Some nodes of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGroup {
    /// Their hardware.
    pub profile: Profile,
    /// How many.
    pub count: u32,
}

// === impl Controller ===

impl Controller {
    /// Leaves it out.
    pub fn leave_out(self, which: &mut Which) {
        match self {
            Self::Gc => which.gc = false,
            Self::Namespace => which.namespace = false,
            Self::Job => which.job = false,
            Self::Jobset => which.jobset = false,
            Self::Service => which.service = false,
            Self::Scheduler => which.scheduler = false,
            Self::Disruption => which.disruption = false,
            Self::Pods => which.pods = false,
            Self::Nodes => which.nodes = false,
        }
    }
}

// === impl NodeGroup ===

impl FromStr for NodeGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once('=').unwrap_or((text, "1"));
        let profile = name.parse::<Profile>().map_err(|error| error.to_string())?;
        match count.parse() {
            Ok(count @ 1..=5000) => Ok(Self { profile, count }),
            _ => Err(format!("{count:?} is not a number of nodes: give 1 to 5000")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_group_of_nodes_is_a_profile_and_perhaps_a_count() {
        let group = |text: &str| text.parse::<NodeGroup>();
        assert_eq!(group("cpu").map(|g| g.count), Ok(1));
        assert_eq!(group("ascend-910b-8=3").map(|g| g.count), Ok(3));
        for wrong in ["", "cpu=", "cpu=0", "cpu=many", "abacus=2"] {
            assert!(group(wrong).is_err(), "{wrong}");
        }
    }
}
