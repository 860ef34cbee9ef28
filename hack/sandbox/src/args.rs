//! Settings of the program.

use std::path::PathBuf;

use clap::Parser;

/// An embedded Kubernetes API, in memory, on 127.0.0.1. It stays up until Ctrl-C and forgets everything then.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  muster-sandbox --port 8001 --kubeconfig /tmp/kc
  KUBECONFIG=/tmp/kc kubectl get namespaces
  muster-sandbox --strict        # credentials needed, RBAC enforced, HTTPS"
)]
pub struct Args {
    /// Port to listen on; 0 takes any free one
    #[arg(long, env = "MUSTER_SANDBOX_PORT", default_value_t = 0)]
    pub port: u16,

    /// Write the administrator's kubeconfig here as well
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Demand credentials and enforce RBAC
    #[arg(long)]
    pub strict: bool,

    /// Serve HTTPS; kubectl sends tokens over TLS only, so --strict implies it
    #[arg(long)]
    pub tls: bool,

    /// Serve the bare API, without controllers
    #[arg(long)]
    pub bare: bool,

    /// What to log, e.g. "info" or "muster_sandbox=debug"
    #[arg(long, env = "RUST_LOG", default_value = "warn")]
    pub log: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
