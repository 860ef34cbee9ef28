//! Settings: flags, and the environment for what a DaemonSet sets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use muster_program::duration;
use muster_program::log::LogFormat;

use crate::discover::net::ServerIdSource;
use crate::kubelet::device_id::ResourceName;
use crate::wait::WaitArgs;

/// The agent that Muster runs on every node: it finds Ascend and NVIDIA devices, tells each pod what it holds, and
/// delivers rank tables into pods.
#[derive(Debug, Parser)]
#[command(name = "muster-agent", version, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The agent's programs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run on a node until told to stop
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Print what is on this machine, or in a copy of its files
    #[command(after_help = DISCOVER_EXAMPLES)]
    Discover(DiscoverArgs),
    /// Wait until a rank table is in a file (what a pod's init container does)
    Wait(WaitArgs),
}

const RUN_EXAMPLES: &str =
    "The Kubernetes API is found as in any pod (service account), or by KUBECONFIG.

Examples:
  muster-agent run --node $(hostname)        annotate pods of this node; no coordinator
  muster-agent run --node n7 --sysroot /host --coordinator https://muster-hub.muster-system:8443
                                             in a container that has the node's / at /host
  curl localhost:9641/                       what it sees and does";

const DISCOVER_EXAMPLES: &str = "Examples:
  muster-agent discover                      devices and topology of this machine
  muster-agent discover -o json | jq '.devices[].ip'
  muster-agent discover --sysroot ./node-7 --no-tools
                                             the same from files that somebody sent you

--sysroot runs the vendors' tools below that directory, if they belong to root or to you. Use --no-tools for
files that you do not trust.";

/// Settings of discovery that `run` and `discover` share.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// Directory in which the node's files are
    #[arg(long, value_name = "DIR", default_value = "/", env = "MUSTER_SYSROOT")]
    pub sysroot: PathBuf,
    /// Read files only; run none of npu-smi, hccn_tool, nvidia-smi
    #[arg(long)]
    pub no_tools: bool,
    /// How long one call of a tool may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::setting)]
    pub tool_timeout: Duration,
}

/// Settings of `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Name of this node's Node object
    #[arg(long, env = "NODE_NAME")]
    pub node: String,
    /// Settings of discovery.
    #[command(flatten)]
    pub host: HostArgs,
    /// The kubelet's directory, below the sysroot
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub kubelet_root: String,
    /// Directory for what must survive a restart
    #[arg(long, value_name = "DIR", default_value = "/var/lib/muster-agent")]
    pub state_dir: PathBuf,
    /// Which address names this server in rank tables: internal-ip (of the Node object), interface=NAME, cidr=NET, or
    /// an address
    #[arg(long, value_name = "WHICH", default_value = "internal-ip")]
    pub server_id: ServerIdSource,
    /// The coordinator, https://HOST:PORT; without it pods are annotated, and no tables come
    #[arg(long, value_name = "URL", env = "MUSTER_COORDINATOR", value_parser = coordinator)]
    pub coordinator: Option<String>,
    /// Certificates that the coordinator's must come from (PEM); read again at each connect
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/muster/ca.crt")]
    pub coordinator_ca: PathBuf,
    /// Name in the coordinator's certificate, where it is not the host of the URL
    #[arg(long, value_name = "NAME")]
    pub coordinator_name: Option<String>,
    /// Token for the coordinator (audience muster-coordinator); read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/muster/token")]
    pub token_file: PathBuf,
    /// Address and port of the status page, metrics and probes; 0.0.0.0:9641 opens them to the network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9641")]
    pub listen: SocketAddr,
    /// How often tools are asked for health and links
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::setting)]
    pub poll: Duration,
    /// More extended resources whose devices are NPUs or GPUs, beside those of the vendors' plugins:
    /// ascend:NAME or nvidia:NAME; a NAME may end in *
    #[arg(long = "resource", value_name = "NAME")]
    pub resources: Vec<ResourceName>,
    /// What is logged: error, warn, info, debug, or a filter like muster_agent::link=debug,info
    #[arg(long, value_name = "FILTER", default_value = "info", env = "MUSTER_LOG")]
    pub log: String,
    /// How log lines look
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Settings of `discover`.
#[derive(Clone, Debug, clap::Args)]
pub struct DiscoverArgs {
    /// Settings of discovery.
    #[command(flatten)]
    pub host: HostArgs,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How an inventory is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Devices and topology as tables
    #[default]
    Table,
    /// Everything
    Json,
}

/// The address of a coordinator: `https://host:port`.
fn coordinator(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").unwrap_or_default();
    match host.is_empty() || host.starts_with(['/', ':']) || host.contains(char::is_whitespace) {
        true => Err("the coordinator is reached over TLS: https://HOST:PORT".to_owned()),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
