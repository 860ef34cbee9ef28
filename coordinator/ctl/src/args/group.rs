//! Settings of `group`.

use std::path::PathBuf;

use super::PlanOutput;

/// Settings of `group`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  musterctl group -f train.yaml

  GROUP / PART            NEEDS    PODS  QUEUE     PRIORITY  ACTION
  pg-train-UID            2 parts  7     research  train     created
    launcher              1 part
      launcher-replica-0  1 pod    1
    workers               2 parts
      workers-replica-0   3 pods   3
      workers-replica-1   3 pods   3

NEEDS is what must be placed at once, PODS how many pods there are. With -o yaml all of each PodGroup is
printed. A file may hold workloads, their pods, what owns them and PodGroups that are there already, as
kubectl get -o yaml prints them. Where there are no pods of a workload, they are made up from its template.
Uids that only a cluster knows are printed as UID; every priority class is taken to exist.
A pod that cannot be grouped is named on stderr with the remedy; the exit code is then 1.")]
pub struct GroupArgs {
    /// Workloads, YAML or JSON, - for stdin; may be given more than once
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Whose pods are grouped. Pods that name no scheduler are shown as if they named this one
    #[arg(long, value_name = "NAME", default_value = "muster-scheduler")]
    pub scheduler: String,
    /// The queue of what names none
    #[arg(long, value_name = "QUEUE", default_value = "default-queue")]
    pub default_queue: String,
    /// How groups are printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: PlanOutput,
}
