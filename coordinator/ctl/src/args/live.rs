//! Settings of what asks a cluster, or a snapshot of one.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use muster_kube::{NameError, Namespace};

use super::time;

/// Which cluster, and how its answer is printed.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// The kubeconfig; without it KUBECONFIG, ~/.kube/config, or the pod's own service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; without it the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of what is named; without it the context's
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,
    /// What is named may be in any namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// How long one request to the API server may take, like 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    pub request_timeout: Duration,
}

/// How the engine is run.
#[derive(Debug, clap::Args)]
pub struct EngineArgs {
    /// Ask no cluster but a file, as `snapshot` writes it; - for stdin
    #[arg(short, long, value_name = "SNAPSHOT", conflicts_with_all = ["kubeconfig", "context"])]
    pub file: Option<PathBuf>,
    /// Schedulers whose pods are ours, the coordinator's own first; without it the file's, or muster-scheduler
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scheduler_name: Vec<String>,
    /// The scheduler's configuration, YAML or JSON: KAI's, or a SchedulingShard
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The clock, in RFC 3339; without it that of the file, or now
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub now: Option<String>,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// For people, at most 100 columns wide
    #[value(alias = "text")]
    Table,
    /// For people, with all columns, as wide as it takes
    Wide,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

/// Settings of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  musterctl explain train                       whatever is called train in this namespace
  musterctl explain trainjob/train -n team-a    a kind: pod, podgroup, job, jobset, trainjob, modelserving, dijob, ...
  musterctl explain pod train-node-0-1-x7k2p -o json
  musterctl explain train -f snapshot.json      the same without a cluster

Two sources are told apart: what the coordinator recorded in the PodGroup's status, and what its engine says of the
cluster's objects as they are now. Exit codes: 0 it runs, or is placed in the next cycle; 1 it cannot run now; 2 wrong
use, or nothing of that name.")]
pub struct ExplainArgs {
    /// What: NAME, KIND/NAME, or KIND NAME
    #[arg(required = true, num_args = 1..=2, value_name = "NAME")]
    pub what: Vec<String>,
    /// How long the search for pods that could make room may take, like 30s; 0s leaves it out
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = patience)]
    pub search_timeout: Duration,
    /// How it is printed; wide lists all pods
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Show,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How the engine is run.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Settings of `queues`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Numbers are accelerators: whole devices, parts and slices by their share; `-` is without end. With -o wide there are
CPUs and memory too. FAIR is what a queue should have while all ask for what they ask for now, USED what its pods
have, ASKED what they have and wait for, WAIT how many groups of it wait.")]
pub struct QueuesArgs {
    /// Only this queue and those below it
    #[arg(value_name = "QUEUE")]
    pub name: Option<String>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Show,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How the engine is run.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Settings of `topology`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
GANG is how many pods of one device each fit into the domain now, all with devices of one kind, on nodes that take
pods. Taints count for nothing here, and such a pod asks for nothing beside its device. Super-pods are listed where
nodes have the label muster.dev/super-pod or the file has inventories.")]
pub struct TopologyArgs {
    /// Only this topology
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// How it is printed; wide lists nodes too
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Show,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How the engine is run.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Settings of `nodes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
FREE is what no pod has; pods that end still have theirs. FAULTY are devices that the device plugin has withdrawn, or that the
node's agent calls faulty where the file has inventories.")]
pub struct NodesArgs {
    /// Only these nodes
    #[arg(value_name = "NODE")]
    pub names: Vec<String>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Show,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How the engine is run.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Settings of `snapshot`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  musterctl snapshot --file snapshot.json
  musterctl simulate -f snapshot.json

The file holds what decisions depend on: nodes, pods, queues, pod groups, topologies, classes, claims, and the names of
what owns pods. Secrets are never read, of ConfigMaps only names. Left out are the values of environment variables,
commands and arguments, managed fields, and what kubectl apply remembers. Labels and annotations are in it.")]
pub struct SnapshotArgs {
    /// Where it is written, readable by you alone; without it stdout
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "json")]
    pub output: SnapshotOutput,
    /// Schedulers whose pods are ours, the coordinator's own first
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "muster-scheduler")]
    pub scheduler_name: Vec<String>,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How a snapshot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SnapshotOutput {
    /// As `simulate` reads it
    Json,
}

/// Settings of `dijobs`.
#[derive(Debug, clap::Args)]
pub struct DijobsArgs {
    /// DIJobs, and their pods if they are to be listed, as kubectl get dijobs,pods -o json prints them; - for stdin.
    /// Without files the cluster is asked
    #[arg(value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub files: Vec<PathBuf>,
    /// As a table, or as a list with the addresses of replicas
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: Show,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

fn namespace(text: &str) -> Result<String, NameError> {
    Namespace::parse(text).map(String::from)
}

/// A time in which something can be done.
fn span(text: &str) -> Result<Duration, String> {
    patience(text).and_then(|span| match span.is_zero() {
        true => Err("use 1s to 24h".to_owned()),
        false => Ok(span),
    })
}

/// Seconds, or a number with s, m or h.
fn patience(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.get(number.len()..).unwrap_or("s")),
        None => (text, "s"),
    };
    let factor = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let seconds: u64 = number.parse().map_err(|_| "write it like 30s or 2m".to_owned())?;
    match seconds.checked_mul(factor) {
        Some(seconds @ 0..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err("use at most 24h".to_owned()),
    }
}
