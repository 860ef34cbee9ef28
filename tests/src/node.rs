//! Checks our programs on a real node: the agent as a process beside a real kubelet, and containers that read what it
//! delivers.
//!
//! ```text
//!   device plugin ─▶ kubelet ─▶ pod-resources ─▶ agent ─▶ coordinator ─▶ record ─▶ kubelet ─▶ ConfigMap volume
//!                       │                          └──────────────────────────────────────▶ emptyDir
//!                       └─▶ container: its environment, its file        what is compared, and timed
//! ```
//!
//! The coordinator is in this process, with its own permissions, as in every [`World`]. `hack/cluster/node-test` makes the
//! node, and starts this in the node's network.

mod agent;
mod checks;
mod pods;
mod times;
mod training;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use muster_ranktable::inject::Injection;
use muster_sandbox::hardware::Profile;
use tokio::process::Command;

use crate::world::World;
use crate::world::coordinators::Choices;
use agent::Agent;
use checks::Checks;

/// What is to be done.
#[derive(Debug, clap::Parser)]
#[command(name = "node", about = "For a real node: its device files, and checks of our programs")]
pub enum Order {
    /// Write the files of 8 NPUs and 8 GPUs below the directory that stands for the node
    LayOut {
        /// The directory
        sysroot: PathBuf,
    },
    /// Check our programs on the node; MUSTER_KUBECONFIG names its cluster
    Check(Args),
}

/// Settings of the checks.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the Node object
    #[arg(long, default_value = "muster-node")]
    node: String,
    /// The directory that stands for the node's /: device files are written to it
    #[arg(long, value_name = "DIR")]
    sysroot: PathBuf,
    /// The agent's program
    #[arg(long, value_name = "FILE")]
    agent: PathBuf,
    /// A kubectl that reaches the cluster
    #[arg(long, value_name = "FILE")]
    kubectl: PathBuf,
    /// The image that has muster-agent
    #[arg(long, value_name = "NAME")]
    agent_image: String,
    /// The image that has a shell
    #[arg(long, value_name = "NAME")]
    busybox_image: String,
    /// A program that restarts the kubelet and returns when it is ready
    #[arg(long, value_name = "FILE")]
    restart_kubelet: PathBuf,
    /// Tables that are timed, for each way that they come
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// What every check works with.
struct Stage<'a> {
    world: &'a World,
    args: &'a Args,
    agent: &'a Agent,
}

/// Does it. Checks are printed; it fails when one does.
pub async fn main(order: Order) -> ExitCode {
    let done = match order {
        Order::LayOut { sysroot } => lay_out(&sysroot).map(|()| ExitCode::SUCCESS),
        Order::Check(args) => run(&args).await.map(|checks| checks.verdict()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the device files of the node below the directory that stands for it: those of the devices that the plugin of
/// `hack/cluster` offers.
fn lay_out(sysroot: &Path) -> anyhow::Result<()> {
    [Profile::Ascend910b8, Profile::NvidiaH1008].into_iter().try_for_each(|profile| {
        let what = || format!("device files of {profile} below {}", sysroot.display());
        profile.lay_out(sysroot, 0).with_context(what)
    })
}

async fn run(args: &Args) -> anyhow::Result<Checks> {
    ensure!(World::is_real(), "MUSTER_KUBECONFIG must name the cluster of the node");
    lay_out(&args.sysroot)?;
    let injection = Injection {
        agent_image: args.agent_image.clone(),
        busybox_image: args.busybox_image.clone(),
        ..Injection::default()
    };
    // As it is shipped: on shared cores a short lease would end for want of a turn.
    let choices = Choices { injection, lease: Duration::from_secs(15), ..Choices::default() };
    let mut checks = Checks::default();
    World::new()
        .agents()
        .choices(choices)
        .run(async |world| {
            let mut agent = Agent::start(world, args).await?;
            let stage = Stage { world, args, agent: &agent };
            stage.check_all(&mut checks).await;
            checks.add("the agent ends when it is told to", agent.stop().await);
            Ok(())
        })
        .await?;
    Ok(checks)
}

impl Stage<'_> {
    async fn check_all(&self, checks: &mut Checks) {
        let name = "the agent sees 8 NPUs and 8 GPUs, and the kubelet offers all of them";
        self.check(checks, name, self.sees_devices()).await;
        let name = "a GPU pod's annotation has the devices that its container was given";
        self.check(checks, name, self.annotates_gpus()).await;
        let name = "two pods of a group wait for their table, and their containers read it";
        self.check(checks, name, self.delivers()).await;
        let name = "a TrainJob runs to its end: its pods are made by the real JobSet controller and its containers see their ranks";
        self.check(checks, name, self.trains()).await;
        let name =
            "after a restart of the kubelet the plugin registers again, and a new pod gets a table";
        self.check(checks, name, self.survives_a_restart()).await;
        self.measure(checks).await;
    }

    /// One check. When it fails, the next one finds the node empty all the same.
    async fn check(
        &self,
        checks: &mut Checks,
        name: &str,
        outcome: impl Future<Output = anyhow::Result<()>>,
    ) {
        let outcome = outcome.await;
        let failed = outcome.is_err();
        checks.add(name, outcome);
        if failed && let Err(error) = self.clear().await {
            println!("pods of a check that failed are left: {error:#}");
        }
    }

    /// Runs kubectl in the world's namespace; what it prints.
    async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let done = Command::new(&self.args.kubectl)
            .arg("--kubeconfig")
            .arg(self.world.kubeconfig())
            .args(["--namespace", self.world.namespace()])
            .args(args)
            .output()
            .await
            .with_context(|| format!("{}", self.args.kubectl.display()))?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "kubectl {}: {said}", args.join(" "));
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    async fn survives_a_restart(&self) -> anyhow::Result<()> {
        let done = Command::new(&self.args.restart_kubelet).output().await?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "{}: {said}", self.args.restart_kubelet.display());
        self.until_all_devices_are_free().await?;
        self.delivers_to("again", 1, 8).await
    }
}
