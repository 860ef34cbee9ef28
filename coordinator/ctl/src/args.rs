//! Commands and their settings.

mod group;
mod live;
mod migrate;
mod modelserving;
mod ranktable;
mod simulate;
mod template;
mod trainjob;

use clap::{Parser, Subcommand, ValueEnum};
use muster_ranktable::inject::Delivery;

pub use self::group::GroupArgs;
pub use self::live::{
    ClusterArgs, DijobsArgs, EngineArgs, ExplainArgs, NodesArgs, QueuesArgs, Show, SnapshotArgs,
    SnapshotOutput, TopologyArgs,
};
pub use self::migrate::MigrateArgs;
pub use self::modelserving::{ModelservingCommand, PlanArgs, PodGroups, ServingArgs};
pub use self::ranktable::{
    CheckArgs, DiffArgs, InjectArgs, PodOutput, RanktableCommand, RenderArgs,
};
pub use self::simulate::{SimulateArgs, SimulateOutput};
pub use self::template::{EvalArgs, MissingKey, Mode, TemplateCommand};
pub use self::trainjob::{TrainjobArgs, TrainjobCommand};

/// Why does my job not run, and what would Muster do? Asked of a cluster, or tried on files.
#[derive(Debug, Parser)]
#[command(
    name = "musterctl",
    version,
    max_term_width = 100,
    after_help = "\
Ask a cluster (or a snapshot of it, with -f):
  musterctl explain trainjob/train                                        why does it not run?
  musterctl queues                                                        who has what, who waits?
  musterctl nodes                                                         devices, free and faulty ones
  musterctl topology                                                      where does a gang fit?
  musterctl dijobs -A                                                     jobs and their replicas
  musterctl snapshot --file snapshot.json                                 all that decisions depend on

Try on files:
  kubectl get pods -l muster.dev/rank-group=train -o json > pods.json
  musterctl ranktable render --template template.yaml --pods pods.json    the table they would get
  musterctl ranktable check hccl.json                                     would HCCL take it?
  musterctl ranktable diff before.json after.json                         who has another rank?
  musterctl ranktable inject --template template.yaml --pod pod.yaml      what the webhook adds
  musterctl modelserving check serving.yaml                               would it be taken?
  musterctl modelserving plan serving.yaml                                what would be made?
  musterctl trainjob render -f job.yaml -f runtime.yaml --reconcile       and for a TrainJob?
  kubectl get dijobs,pods -A -o json | musterctl dijobs -                 jobs and their replicas
  musterctl simulate -f snapshot.json                                     who runs where, who waits and why?
  musterctl group -f job.yaml                                             what is placed together?

Exit codes: 0 well, 1 something was found, 2 wrong use."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program is asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Try Go templates
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Render, check and compare rank tables
    #[command(subcommand)]
    Ranktable(RanktableCommand),
    /// Check ModelServings, and see what would be made for them
    #[command(subcommand)]
    Modelserving(ModelservingCommand),
    /// See what would be made for a TrainJob
    #[command(subcommand)]
    Trainjob(TrainjobCommand),
    /// Say why something does not run, and what would help
    Explain(ExplainArgs),
    /// Show queues: quota, limit, fair share, what they have and ask for
    Queues(QueuesArgs),
    /// Show domains of topologies, what is free there, and which gang fits
    Topology(TopologyArgs),
    /// Show nodes: devices, free and faulty ones, taints, state
    Nodes(NodesArgs),
    /// Write down what decisions depend on, for `simulate` and for -f
    Snapshot(SnapshotArgs),
    /// List DIJobs with their replicas and phases
    Dijobs(DijobsArgs),
    /// Run scheduling cycles on a cluster's objects, offline
    Simulate(SimulateArgs),
    /// Show which PodGroups the pods of workloads would become
    Group(GroupArgs),
    /// Take over annotations and tables of hccl-controller and ascend-operator
    Migrate(MigrateArgs),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One line for each
    Text,
    /// A list
    Json,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// One line for each
    Table,
    /// All of them, as documents
    Yaml,
    /// All of them, as a List
    Json,
}

fn delivery(word: &str) -> Result<Delivery, String> {
    Delivery::parse(word).ok_or_else(|| format!("use {}", Delivery::WORDS))
}

/// The text is kept as it was given.
fn time(text: &str) -> Result<String, String> {
    text.parse::<jiff::Timestamp>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
