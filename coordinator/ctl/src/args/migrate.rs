//! Settings of `migrate`.

use std::path::PathBuf;

use clap::ArgGroup;

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
