//! Settings of `trainjob`.

use std::path::PathBuf;

use clap::Subcommand;

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
