//! Settings of the program.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use muster_sandbox::flags::{Controller, NodeGroup};

/// More nodes of a profile would be more processes than a machine has room for.
const MOST_NODES: u32 = 200;

/// An embedded Kubernetes with Muster installed on it as docs/coordinator.md says: the manifests of deploy/, and
/// muster-agent and muster-coordinator as processes with their own permissions and your flags. It stays up until Ctrl-C,
/// SIGTERM or the end of its input, and forgets everything then.
#[derive(Debug, Parser)]
#[command(
    name = "muster-world",
    version,
    max_term_width = 100,
    after_help = "Examples:
  muster-world --node nvidia-h100-8=4 --node cpu --kubeconfig /tmp/kc
  muster-world --node ascend-910b-8=2 --coordinators 2 --logs /tmp/logs --runtimes
  muster-world --node nvidia-h100-8 --coordinator-flag=--admission=kai --coordinator-flag=--scheduler-name=kai-scheduler
  muster-world --without jobset --apply-first jobset-crd.yaml --stop-with-stdin"
)]
pub struct Args {
    /// Simulated nodes, as PROFILE or PROFILE=COUNT; may be given several times.
    /// Profiles: ascend-910a-8, ascend-910b-8, ascend-a3-16, ascend-310p, nvidia-h100-8, cpu
    #[arg(long = "node", value_name = "PROFILE[=COUNT]", value_parser = nodes)]
    pub nodes: Vec<NodeGroup>,

    /// Port of the API server on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,

    /// Write the administrator's kubeconfig here as well
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// How many coordinators run; one leads
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub coordinators: u8,

    /// A flag of muster-coordinator, such as --coordinator-flag=--lease=5s; may be given several times
    #[arg(long = "coordinator-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub coordinator_flags: Vec<String>,

    /// A flag of muster-agent run; may be given several times
    #[arg(long = "agent-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub agent_flags: Vec<String>,

    /// Do without agents
    #[arg(long)]
    pub no_agents: bool,

    /// Where muster-agent and muster-coordinator are; by default beside this program
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,

    /// Where the manifests are
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"))]
    pub deploy: PathBuf,

    /// A manifest of deploy/ that is left out, by the name of its file; may be given several times
    #[arg(long = "skip", value_name = "FILE NAME")]
    pub skipped: Vec<String>,

    /// Apply the runtimes of deploy/runtimes, too
    #[arg(long)]
    pub runtimes: bool,

    /// A file or directory of manifests that is applied before the coordinators start; may be given several times
    #[arg(long, value_name = "PATH")]
    pub apply_first: Vec<PathBuf>,

    /// A file or directory of manifests that is applied when everything runs; may be given several times
    #[arg(long, value_name = "PATH")]
    pub apply: Vec<PathBuf>,

    /// A controller of the sandbox that does not run, as job or jobset; may be given several times. Without jobset there is no
    /// definition of JobSets either
    #[arg(long, value_enum, value_name = "NAME")]
    pub without: Vec<Controller>,

    /// Another scheduler's name, such as volcano, whose pods get nodes from the sandbox; may be given several times
    #[arg(long = "scheduler", value_name = "NAME")]
    pub schedulers: Vec<String>,

    /// Name of an image that does not exist, so that its containers do not start; * stands for any text; may be given several
    /// times
    #[arg(long = "missing-image", value_name = "PATTERN")]
    pub missing_images: Vec<String>,

    /// When a pod of this namespace with this label is deleted, all coordinators are killed and started again
    #[arg(long, value_name = "NAMESPACE/LABEL=VALUE")]
    pub killed_with: Option<Deleted>,

    /// Directory for the logs of agents and coordinators; by default they go with the program
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,

    /// A file that is written when everything is ready
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// End when the standard input ends
    #[arg(long)]
    pub stop_with_stdin: bool,

    /// What the sandbox logs, e.g. "info" or "muster_sandbox=debug"
    #[arg(long, env = "RUST_LOG", default_value = "warn")]
    pub log: String,
}

/// Pods whose deletion is a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The namespace of the deleted pods.
    pub namespace: String,
    /// The label that they have, as a selector.
    pub label: String,
}

/// As many nodes as there may be agents: each is a process.
fn nodes(text: &str) -> Result<NodeGroup, String> {
    match text.parse::<NodeGroup>()? {
        group if group.count <= MOST_NODES => Ok(group),
        group => Err(format!("{} nodes are too many: give 1 to {MOST_NODES}", group.count)),
    }
}

// === impl Deleted ===

impl FromStr for Deleted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, label)) if !namespace.is_empty() && label.contains('=') => {
                Ok(Self { namespace: namespace.to_owned(), label: label.to_owned() })
            }
            _ => Err("it has the form NAMESPACE/LABEL=VALUE".to_owned()),
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
    fn flags_of_the_programs_are_passed_on_with_their_dashes() {
        let args = Args::try_parse_from([
            "muster-world",
            "--coordinator-flag=--admission=kai",
            "--coordinator-flag",
            "--lease=5s",
        ]);
        assert_eq!(args.unwrap().coordinator_flags, ["--admission=kai", "--lease=5s"]);
    }

    #[test]
    fn a_group_of_nodes_has_room_on_one_machine() {
        let count = |text: &str| nodes(text).map(|group| group.count);
        assert_eq!((count("cpu"), count("cpu=200")), (Ok(1), Ok(200)));
        assert!(count("cpu=201").is_err() && count("cpu=0").is_err() && count("abacus").is_err());
    }

    #[test]
    fn a_pod_whose_deletion_is_a_signal_has_a_namespace_and_a_label() {
        let deleted: Deleted = "kthena-system/example.com/app=x".parse().unwrap();
        let (namespace, label) = ("kthena-system".to_owned(), "example.com/app=x".to_owned());
        assert_eq!(deleted, Deleted { namespace, label });
        for wrong in ["", "a=b", "/a=b", "ns/a"] {
            assert!(wrong.parse::<Deleted>().is_err(), "{wrong}");
        }
    }
}
