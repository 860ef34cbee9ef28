//! Settings: flags, and the environment for what a Deployment sets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use muster_kube::{Name, NameError, Namespace, ObjectKey};
use muster_program::duration;
use muster_program::log::LogFormat;

use crate::ranktables::DeviceSource;
use muster_dijob::server::Trust;
use muster_scheduling::{Eviction, FaultPolicy};

const EXAMPLES: &str =
    "The Kubernetes API is found as in any pod (service account), or by KUBECONFIG. Of several coordinators one
leads; the others serve webhooks and probes, and tell agents where to go.

Examples:
  muster-coordinator                          in a pod of the Deployment, all by default
  muster-coordinator --namespace dev --hub 127.0.0.1:8443 --certificate-name localhost
                                              on a desk, with KUBECONFIG set
  muster-coordinator crd | kubectl apply --server-side -f -
                                              the definitions of TrainJobs and their runtimes
  curl localhost:9640/                        who leads, which groups have their tables";

/// The coordinator of Muster: it makes the rank tables of all groups of pods, and speaks with the agents of all nodes.
#[derive(Clone, Debug, Parser)]
#[command(name = "muster-coordinator", version, max_term_width = 100, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Args {
    /// What to do instead of running.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Namespace of the coordinator: its Lease, its certificates
    #[arg(long, value_name = "NAME", default_value = "muster-system", env = "POD_NAMESPACE", value_parser = namespace)]
    pub namespace: String,
    /// What names this coordinator among others; a part of its own is added
    #[arg(long, value_name = "NAME", default_value = "muster-coordinator", env = "POD_NAME")]
    pub identity: String,
    /// How long a leader that has died stays the leader
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration::setting)]
    pub lease: Duration,
    /// How long a new leader waits before it writes: until each API server knows from its cache who leads, so that the policy
    /// muster-coordinator refuses late writes of the one before
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::setting)]
    pub takeover_margin: Duration,
    /// Where agents are served
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    pub hub: SocketAddr,
    /// Where agents reach this very coordinator: https://HOST:PORT. Without it, made of the pod's address
    #[arg(long, value_name = "URL", env = "MUSTER_HUB_ADDRESS")]
    pub hub_address: Option<String>,
    /// Connections of agents from one IPv4 address or one /64 of IPv6, at most; more than there are nodes behind one address translation
    #[arg(long, value_name = "COUNT", default_value_t = 8192, value_parser = at_least_one)]
    pub hub_connections_per_source: usize,
    /// The pod's address
    #[arg(long, value_name = "IP", env = "POD_IP", hide = true)]
    pub pod_ip: Option<std::net::IpAddr>,
    /// Where webhooks are served
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9443")]
    pub webhooks: SocketAddr,
    /// Authorities in PEM: webhooks answer only callers whose certificate one of them has signed. Without it, whoever reaches the port
    #[arg(long, value_name = "FILE")]
    pub webhook_client_ca: Option<PathBuf>,
    /// Where status page, JSON, metrics and probes are served
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9640")]
    pub listen: SocketAddr,
    /// Further names in the certificate, beside those of the Service muster-coordinator
    #[arg(long = "certificate-name", value_name = "NAME")]
    pub certificate_names: Vec<String>,
    /// Service account of the agents
    #[arg(long, value_name = "NAMESPACE:NAME", default_value = "muster-system:muster-agent", value_parser = account)]
    pub agent_account: String,
    /// Namespace of the table templates
    #[arg(long, value_name = "NAME", default_value = muster_ranktable::NAMESPACE, value_parser = namespace)]
    pub template_namespace: String,
    /// How tables reach pods that do not say it themselves
    #[arg(long, value_enum, default_value_t)]
    pub delivery: Delivery,
    /// Whose word about a pod's devices counts
    #[arg(long, value_enum, default_value_t)]
    pub device_truth: DeviceSource,
    /// Image of the init container that waits for tables which agents deliver
    #[arg(long, value_name = "IMAGE", default_value = concat!("muster-agent:", env!("CARGO_PKG_VERSION")), env = "MUSTER_AGENT_IMAGE")]
    pub agent_image: String,
    /// Image of the init container that waits for tables in ConfigMap volumes
    #[arg(long, value_name = "IMAGE", default_value = "busybox:latest")]
    pub busybox_image: String,
    /// After which a group without a table has failed; it is tried on
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration::setting)]
    pub ranktable_timeout: Duration,
    /// Where coordinators of DIJobs ask for collectors and learners; the same port for all coordinators
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    pub di_server: SocketAddr,
    /// Where pods of DIJobs find that: HOST:PORT. Without it, the Service di-server of the coordinator's namespace
    #[arg(long, value_name = "HOST:PORT")]
    pub di_server_url: Option<String>,
    /// Whose requests it takes
    #[arg(long, value_enum, default_value_t)]
    pub di_server_trust: DiServerTrust,
    /// The AggregatorConfig that aggregators are made from
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "di-system/aggregator-config", value_parser = key)]
    pub aggregator_config: String,
    /// The resource that the gpus of a DIJob's replicas are, where its template names no other device
    #[arg(long, value_name = "NAME", default_value = muster_dijob::names::GPU)]
    pub gpu_resource_name: String,
    /// Whether all pods of a DIJob get its priority class that name none, or its coordinator alone
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub propagate_priority: bool,
    /// At which ports DDP learners on several nodes listen
    #[arg(long, value_enum, default_value_t)]
    pub ddp_port_mode: DdpPortMode,
    /// The most replicas that one request of a DIJob may ask for
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub most_replicas: u32,
    /// The most pods that a DIJob may have; who asks for more is refused
    #[arg(long, value_name = "COUNT", default_value_t = muster_dijob::make::MOST_PODS as u32)]
    pub most_job_pods: u32,
    /// How long pods of a DIJob may take to end
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub delete_grace_seconds: u32,
    /// Make ModelServings of LeaderWorkerSets, as Kthena does. Not where the LeaderWorkerSet operator runs: both would make their pods
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub leader_worker_sets: bool,
    /// Which TrainJobs keep the runtime that they name from being deleted
    #[arg(long, value_enum, default_value_t)]
    pub runtime_finalizer: RuntimeFinalizer,
    /// What is switched on or off: TrainJobStatus=true lets trainers report their progress
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = Gate::parse)]
    pub feature_gates: Vec<Gate>,
    /// Where trainers report their progress, if TrainJobStatus is on
    #[arg(long, alias = "status-server", value_name = "ADDRESS", default_value = "[::]:10443")]
    pub progress_server: SocketAddr,
    /// What is refused of queues, PodGroups and pods
    #[arg(long, value_enum, default_value_t)]
    pub admission: Admission,
    /// Refuse NVIDIA_VISIBLE_DEVICES in containers that ask for devices, and set it to void in others, unless kai-config says otherwise
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub block_nvidia_visible_devices: bool,
    /// Pods that name one of these schedulers are placed here; give it more than once for several
    #[arg(long, value_name = "NAME", default_value = "muster-scheduler")]
    pub scheduler_name: Vec<String>,
    /// The scheduler of TrainJobs' pods that name none, such as muster-scheduler; empty leaves them to the cluster's default
    #[arg(long, value_name = "NAME", default_value = "")]
    pub default_scheduler: String,
    /// Actions, plugins and arguments of the scheduler, as a file in KAI's format or a SchedulingShard. Without it KAI's own
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
    /// The SchedulingShard that is obeyed while it is there, before that file. Empty: none is
    #[arg(long, value_name = "NAME", default_value = muster_scheduler_state::live::DEFAULT_SHARD, value_parser = name_or_none)]
    pub scheduler_shard: String,
    /// How pods make room for others
    #[arg(long, value_enum, default_value_t)]
    pub eviction: Eviction,
    /// What becomes of running pods whose device or node goes bad, where no annotation muster.dev/fault-policy says it
    #[arg(long, value_enum, default_value_t)]
    pub fault_policy: FaultPolicy,
    /// A fault counts for that when it has lasted this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::setting)]
    pub fault_grace: Duration,
    /// That of a node, not ready or gone, counts when it has lasted this long, and no less than --fault-grace
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::setting)]
    pub fault_node_grace: Duration,
    /// After that, pods of the group that have come since are left alone for this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::setting)]
    pub fault_cool_down: Duration,
    /// A scheduling cycle begins at least this often, also when nothing changes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::setting)]
    pub scheduling_period: Duration,
    /// The queue of pods that name none
    #[arg(long, value_name = "NAME", default_value = "default-queue", value_parser = name)]
    pub default_queue: String,
    /// Namespace of the pods that hold devices for pods that share them
    #[arg(long, value_name = "NAME", default_value = "kai-resource-reservation", value_parser = namespace)]
    pub reservation_namespace: String,
    /// Their image; it has nothing to do but to stay
    #[arg(long, value_name = "IMAGE", default_value = "busybox:latest")]
    pub reservation_image: String,
    /// The command in it, word by word: give it once for each. An empty one stands for the image's own
    #[arg(long, value_name = "WORD", default_values = ["sleep", "infinity"], allow_hyphen_values = true)]
    pub reservation_command: Vec<String>,
    /// What is logged: error, warn, info, debug, or a filter like muster_coordinator::hub=debug,info
    #[arg(long, value_name = "FILTER", default_value = "info", env = "MUSTER_LOG")]
    pub log: String,
    /// How log lines look
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// What to do instead of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Print the CustomResourceDefinitions that are made of types: kubectl apply --server-side -f -
    Crd,
}

/// How tables reach pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Delivery {
    /// The agent writes them: milliseconds, any size
    #[default]
    Agent,
    /// The kubelet shows the ConfigMap: seconds, up to 1 MiB
    Configmap,
}

/// At which ports DDP learners on several nodes listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DdpPortMode {
    /// As the DI orchestrator has it
    #[default]
    Reference,
    /// So that stock DI-engine, which adds the rank, listens where it is looked for
    RankShifted,
}

/// Whose requests the DI server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DiServerTrust {
    /// Those from the address of a pod of the job, and those with the token of a user that may
    #[default]
    PodsAndTokens,
    /// Everybody's, as with the DI orchestrator
    Anyone,
}

/// Which TrainJobs keep the runtime that they name from being deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuntimeFinalizer {
    /// All that name it, also those that have ended
    #[default]
    Referenced,
    /// Those that are neither complete nor failed
    Unfinished,
    /// None, as in Trainer 2.3: finalizers that are there are removed
    Off,
}

/// What is switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Whether trainers report their progress.
    TrainJobStatus(bool),
}

/// What is refused of queues, PodGroups and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Admission {
    /// Also what could never be placed: unknown queues, too large groups, groups of other namespaces
    #[default]
    Strict,
    /// What KAI refuses, and no more
    Kai,
}

// === impl DiServerTrust ===

impl From<DiServerTrust> for Trust {
    fn from(trust: DiServerTrust) -> Self {
        match trust {
            DiServerTrust::PodsAndTokens => Self::PodsAndTokens,
            DiServerTrust::Anyone => Self::Anyone,
        }
    }
}

// === impl Gate ===

impl Gate {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it has the form NAME=BOOL")?;
        let on =
            value.trim().parse().map_err(|_| format!("{value:?} is neither true nor false"))?;
        match name.trim() {
            "TrainJobStatus" => Ok(Self::TrainJobStatus(on)),
            other => Err(format!("there is no gate {other:?}; there is TrainJobStatus")),
        }
    }
}

fn namespace(text: &str) -> Result<String, NameError> {
    Namespace::parse(text).map(String::from)
}

fn name(text: &str) -> Result<String, NameError> {
    Name::parse(text).map(String::from)
}

fn name_or_none(text: &str) -> Result<String, NameError> {
    if text.is_empty() { Ok(String::new()) } else { name(text) }
}

fn key(text: &str) -> Result<String, NameError> {
    text.parse::<ObjectKey>().map(|key| key.to_string())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("{text:?} is no count")),
    }
}

fn account(text: &str) -> Result<String, String> {
    let (of, called) = text.split_once(':').ok_or("it has the form NAMESPACE:NAME")?;
    let account = namespace(of).and_then(|of| Ok(format!("{of}:{}", name(called)?)));
    account.map_err(|error| error.to_string())
}

// === impl Args ===

impl Args {
    /// Whether trainers report their progress; of several words the last counts.
    pub fn train_job_status(&self) -> bool {
        self.feature_gates.last().is_some_and(|Gate::TrainJobStatus(on)| *on)
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

    #[test]
    fn names_that_cannot_be_are_refused_and_named() {
        let long = "a".repeat(300);
        let flags = ["namespace", "template-namespace", "reservation-namespace", "default-queue"];
        for flag in
            flags.into_iter().chain(["scheduler-shard", "agent-account", "aggregator-config"])
        {
            for odd in ["a/../b", "a?b", "Team", "..", long.as_str(), "a b"] {
                let words = ["muster-coordinator".to_owned(), format!("--{flag}={odd}")];
                let error = Args::try_parse_from(words).unwrap_err().to_string();
                assert!(error.contains(flag) && error.contains(odd), "{error}");
            }
        }
        assert!(Args::try_parse_from(["muster-coordinator", "--scheduler-shard="]).is_ok());
    }

    #[test]
    fn gates_are_read_as_kubernetes_writes_them_and_unknown_ones_are_refused() {
        let read = |words: &[&str]| {
            let words = ["muster-coordinator"].iter().chain(words);
            Args::try_parse_from(words).map(|args| args.train_job_status())
        };
        assert!(!read(&[]).unwrap(), "off by default");
        assert!(read(&["--feature-gates", "TrainJobStatus=true"]).unwrap());
        assert!(!read(&["--feature-gates=TrainJobStatus=true,TrainJobStatus=false"]).unwrap());
        for (odd, word) in [
            ("Other=true", "no gate"),
            ("TrainJobStatus", "NAME=BOOL"),
            ("TrainJobStatus=on", "neither"),
        ] {
            let error = read(&["--feature-gates", odd]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
