//! Settings of `modelserving`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use muster_ranktable::inject::Delivery;

use super::{Output, PlanOutput, delivery};

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
