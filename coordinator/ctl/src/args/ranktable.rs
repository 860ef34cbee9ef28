//! Settings of `ranktable`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use muster_ranktable::inject::Delivery;
use muster_ranktable::{Chip, Order};

use super::{Output, delivery, time};

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
    /// Another order than the template's: lexical, numeric, pod or topology
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

fn order(word: &str) -> Result<Order, String> {
    Order::parse(word).ok_or_else(|| format!("use {}", Order::WORDS))
}

fn chip(name: &str) -> Result<Chip, String> {
    Chip::parse(name).ok_or_else(|| "use 910a, 910b, 310p, a3 or a5".to_owned())
}
