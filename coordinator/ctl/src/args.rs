//! Commands and their settings.

use std::path::PathBuf;

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use muster_ranktable::inject::Delivery;
use muster_ranktable::{Chip, Order};

/// What Muster would do, tried on files. No cluster is needed.
#[derive(Debug, Parser)]
#[command(
    name = "musterctl",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
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

Exit codes: 0 well, 1 something was found, 2 wrong use."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
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
    /// List DIJobs with their replicas and phases
    Dijobs(DijobsArgs),
    /// Run scheduling cycles on a cluster's objects, offline
    Simulate(SimulateArgs),
    /// Take over annotations and tables of hccl-controller and ascend-operator
    Migrate(MigrateArgs),
}

/// Settings of `dijobs`.
#[derive(Debug, clap::Args)]
pub struct DijobsArgs {
    /// DIJobs, and their pods if they are to be listed, as kubectl get dijobs,pods -o json prints them; - for stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// As a table, or as a list with the addresses of replicas
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Commands on templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// Print what a template makes of its data
    Eval(EvalArgs),
}

/// Commands on rank tables.
#[derive(Debug, Subcommand)]
pub enum RanktableCommand {
    /// Print the table of a group of pods
    Render(RenderArgs),
    /// Say what HCCL or MindIE would refuse; the exit code is 1 if there is something
    Check(CheckArgs),
    /// Say what differs between two tables; the exit code is 1 if something does
    Diff(DiffArgs),
    /// Print a pod as it would be created: with its volume, its mounts and the container that waits
    Inject(InjectArgs),
}

/// Settings of `template eval`.
#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    /// The template, - for stdin
    #[arg(long, value_name = "FILE")]
    pub template: PathBuf,
    /// The data as JSON
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// What the data is to the template
    #[arg(long, value_enum, default_value = "json")]
    pub mode: Mode,
    /// What a missing key of a map means
    #[arg(long, value_enum, default_value = "default")]
    pub missing_key: MissingKey,
    /// fromJson reads what is no JSON as nothing
    #[arg(long)]
    pub lenient: bool,
}

/// What data is to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Maps and lists; every number is a float
    Json,
    /// Maps and lists; integers are ints
    Typed,
    /// The structs of a table, by their Go names; other names are errors
    Seed,
    /// One text
    String,
}

/// What a missing key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissingKey {
    /// `<no value>`
    #[value(alias = "invalid")]
    Default,
    /// The zero value
    Zero,
    /// An error
    Error,
}

/// Settings of `ranktable render`.
#[derive(Debug, clap::Args)]
pub struct RenderArgs {
    /// The template's ConfigMap, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub template: PathBuf,
    /// The parser's ConfigMap; without it NAME.yaml beside the template, where the template names one
    #[arg(long, value_name = "FILE")]
    pub parser: Option<PathBuf>,
    /// A List of Pods, as kubectl get pods -o json prints it
    #[arg(long, value_name = "FILE")]
    pub pods: PathBuf,
    /// The rank group, where the pods are of several
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Another order than the template's: seed, numeric, pod or topology
    #[arg(long, value_name = "ORDER", value_parser = order)]
    pub order: Option<Order>,
    /// The table that the group had, for templates that keep ranks
    #[arg(long, value_name = "FILE")]
    pub previous: Option<PathBuf>,
    /// The time of the change, in RFC 3339; without it now
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub now: Option<String>,
    /// Refuse nothing, as the original algorithm does
    #[arg(long)]
    pub lenient: bool,
}

/// Settings of `ranktable check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The table, - for stdin
    pub file: PathBuf,
    /// The chip it is for: 910a, 910b, 310p, a3 or a5
    #[arg(long, value_name = "CHIP", value_parser = chip)]
    pub chip: Option<Chip>,
    /// The group's pods, whose addresses no server may have
    #[arg(long, value_name = "FILE")]
    pub pods: Option<PathBuf>,
    /// Warnings count too
    #[arg(long)]
    pub strict: bool,
    /// How findings are printed
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One line for each
    Text,
    /// A list
    Json,
}

/// Settings of `ranktable diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The table before
    pub before: PathBuf,
    /// The table after
    pub after: PathBuf,
    /// How differences are printed
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// Settings of `ranktable inject`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  musterctl ranktable inject --template template.yaml --pod pod.yaml

  where pod.yaml has
    metadata:
      labels: {muster.dev/rank-group: my-job}
      annotations: {muster.dev/ranktable-template: my-template}

A pod that would be refused is named on stderr with the remedy; the exit code is then 1.")]
pub struct InjectArgs {
    /// The template's ConfigMap, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub template: PathBuf,
    /// The parser's ConfigMap; without it NAME.yaml beside the template, where the template names one
    #[arg(long, value_name = "FILE")]
    pub parser: Option<PathBuf>,
    /// A Pod or a List of Pods, YAML or JSON; - for stdin
    #[arg(long, value_name = "FILE")]
    pub pod: PathBuf,
    /// How tables come to pods that do not say it themselves: agent or configmap
    #[arg(long, value_name = "DELIVERY", value_parser = delivery, default_value = "agent")]
    pub delivery: Delivery,
    /// The image that has muster-agent
    #[arg(long, value_name = "IMAGE", default_value = "muster-agent")]
    pub agent_image: String,
    /// The image that has a shell, for delivery configmap
    #[arg(long, value_name = "IMAGE", default_value = "busybox:latest")]
    pub busybox_image: String,
    /// How the pod is printed
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: PodOutput,
}

/// How pods are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodOutput {
    /// The pod, as YAML
    Yaml,
    /// The pod, as JSON
    Json,
    /// What changes, as a JSON patch; of a List, one for each pod
    Patch,
}

/// Commands on ModelServings.
#[derive(Debug, Subcommand)]
pub enum ModelservingCommand {
    /// Say what the API server and the webhook would refuse; the exit code is 1 if there is something
    Check(ServingArgs),
    /// Print what the controller would create in a cluster that has nothing of it yet
    Plan(PlanArgs),
}

/// Settings of `modelserving check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both shapes are known, workload.serving.volcano.sh/v1alpha1 and workload.kthena.io/v1alpha1. A file may hold
several documents and a List; objects of other kinds are passed over. What needs the object that is there
already, such as a gang policy that may not change, is not checked.")]
pub struct ServingArgs {
    /// Files, YAML or JSON, - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How findings are printed
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// Settings of `modelserving plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  musterctl modelserving plan serving.yaml --templates deploy/templates

  KIND                NAME              ROLE       RANK GROUP      SIZE
  ControllerRevision  pd-7679fd9bcd     -          -               -
  Pod                 pd-0-prefill-0-0  prefill-0  pd-0-prefill-0  2
  Pod                 pd-0-prefill-0-1  prefill-0  pd-0-prefill-0  2
  Service             pd-0-prefill-0-0  prefill-0  -               -

Pods with the same rank group share a table, which is in the ConfigMap RANK-GROUP-ranktable; SIZE is how many
they are. With -o yaml all of each object is printed. Owners have no uid: only a cluster knows it.
What `modelserving check` finds is printed instead, as there; the exit code is then 1.")]
pub struct PlanArgs {
    /// ModelServings of either shape, YAML or JSON, - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// ConfigMaps of rank table templates and their parsers: a file or a folder, may be given more than once
    #[arg(long, value_name = "DIR_OR_FILE")]
    pub templates: Vec<PathBuf>,
    /// What the cluster knows of PodGroups
    #[arg(long, value_enum, default_value = "absent")]
    pub pod_groups: PodGroups,
    /// How tables come to pods that do not say it themselves: agent or configmap
    #[arg(long, value_name = "DELIVERY", value_parser = delivery, default_value = "agent")]
    pub delivery: Delivery,
    /// How objects are printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: PlanOutput,
}

/// What a cluster knows of PodGroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodGroups {
    /// Nothing
    Absent,
    /// PodGroups without subGroupPolicy
    Plain,
    /// PodGroups with subGroupPolicy
    SubGroups,
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

/// Commands on TrainJobs.
#[derive(Debug, Subcommand)]
pub enum TrainjobCommand {
    /// Print what admission says to a TrainJob and what the controller would make of it, as JSON
    Render(TrainjobArgs),
}

/// Settings of `trainjob render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The files hold one TrainJob, its TrainingRuntime or ClusterTrainingRuntime, and whatever else the cluster is to
have: a JobSet or a PodGroup that is there already, Secrets, ConfigMaps, PriorityClasses. The document has
  objects    what would be applied; keys are masked, scripts of Flux are reduced to what is filled in
  warnings, errors    of the schema, the runtime's webhook, the job's webhook, and the build
  snapshot   how the runtime would be kept for the job
  status     what the JobSet that is there says
  reconcile  with --reconcile: status, events and errors after one pass
The exit code is 0 also if the document names errors.")]
pub struct TrainjobArgs {
    /// Files, YAML or JSON, - for stdin; may be given more than once
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Also play one pass of the controller
    #[arg(long)]
    pub reconcile: bool,
    /// ConfigMaps of rank table templates and their parsers: a file or a folder, may be given more than once
    #[arg(long, value_name = "DIR_OR_FILE")]
    pub templates: Vec<PathBuf>,
}

/// Settings of `simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file holds lists of Kubernetes objects (nodes, pods, queues, podGroups, topologies, ...), or is a snapshot of
KAI Scheduler (also the .zip), or a file that has one of these under `input`. Its own configuration counts, unless
--config names another: KAI's configuration file, or a SchedulingShard.

Example:
  curl -s localhost:8081/get-snapshot > snapshot.zip
  musterctl simulate -f snapshot.zip

With --cycles the pods that were bound run in the next cycle, a second later, and those that were evicted wait.")]
pub struct SimulateArgs {
    /// The cluster, JSON or .zip, - for stdin
    #[arg(short, long, value_name = "SNAPSHOT")]
    pub file: PathBuf,
    /// The scheduler's configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How many cycles
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub cycles: u32,
    /// The clock, in RFC 3339; without it that of the file, or now
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub now: Option<String>,
    /// How decisions are printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SimulateOutput,
}

/// How decisions are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulateOutput {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Settings of `migrate`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub struct MigrateArgs {
    /// A List of Pods with the device plugin's annotations: prints ours, as patches
    #[arg(long, value_name = "FILE", group = "what")]
    pub pods: Option<PathBuf>,
    /// A table (hccl.json), or the ConfigMap that holds it: prints it as version 1.0 or 1.2
    #[arg(long, value_name = "FILE", group = "what")]
    pub table: Option<PathBuf>,
    /// With --table: print what each pod's annotation would be
    #[arg(long, requires = "table")]
    pub annotations: bool,
}

fn order(word: &str) -> Result<Order, String> {
    Order::parse(word).ok_or_else(|| format!("use {}", Order::WORDS))
}

fn delivery(word: &str) -> Result<Delivery, String> {
    Delivery::parse(word).ok_or_else(|| format!("use {}", Delivery::WORDS))
}

fn chip(name: &str) -> Result<Chip, String> {
    Chip::parse(name).ok_or_else(|| "use 910a, 910b, 310p, a3 or a5".to_owned())
}

/// The text is kept as it was given.
fn time(text: &str) -> Result<String, String> {
    text.parse::<jiff::Timestamp>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}
