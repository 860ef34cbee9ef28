//! The agent's program, started as on a node, with its own permissions.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use muster_agent::names;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::{Args, Stage};
use crate::world::{Seen, World, until};

/// Where its page is; nobody else is in the node's network.
const PAGE: &str = "127.0.0.1:9641";
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent.
pub struct Agent {
    child: Child,
}

// === impl Agent ===

impl Agent {
    /// Starts it; ready when this returns.
    pub async fn start(world: &World, args: &Args) -> anyhow::Result<Self> {
        let agents = world.agents()?;
        let link = agents.coordinator_with(
            &args.node,
            &world.agent_token(&args.node, Some(names::AUDIENCE)).await?,
        )?;
        let kubeconfig = world.folder().join("agent.kubeconfig");
        let text = std::fs::read_to_string(world.kubeconfig())?;
        let mut config: Value = serde_saphyr::from_str(&text).context("the kubeconfig")?;
        config["users"][0]["user"] = json!({ "token": world.agent_token(&args.node, None).await? });
        muster_sandbox::write_private(&kubeconfig, &config.to_string())?;
        let log = std::fs::File::create(world.folder().join("agent.log"))?;
        let child = Command::new(&args.agent)
            .args(["run", "--node", &args.node, "--listen", PAGE])
            .args(["--coordinator", &link.address])
            .arg("--coordinator-ca")
            .arg(&link.ca_file)
            .arg("--token-file")
            .arg(&link.token_file)
            .arg("--sysroot")
            .arg(&args.sysroot)
            .arg("--state-dir")
            .arg(agents.state_of(&args.node))
            .env_clear()
            .env("KUBECONFIG", &kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{}", args.agent.display()))?;
        let mut agent = Self { child };
        let ready = until("an agent that is ready", PATIENCE, async || {
            let (status, said) = fetch("/readyz").await?;
            Ok(if status == 200 { Seen::Yes(()) } else { Seen::NotYet(said) })
        })
        .await;
        if ready.is_err() {
            let log = std::fs::read_to_string(world.folder().join("agent.log"))?;
            let ended = agent.child.try_wait()?;
            ready.with_context(|| format!("the agent ({ended:?}) said:\n{log}"))?;
        }
        Ok(agent)
    }

    /// What it tells on one of its pages.
    pub async fn tells(&self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = fetch(path).await?;
        ensure!(status == 200, "{path}: {status} {body}");
        serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))
    }

    /// Ends it as its pod's end would.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let pid = self.child.id().context("it has ended by itself")?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        let ended = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
        let status = ended.context("it does not end within 10 s of SIGTERM")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

async fn fetch(path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(PAGE).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {PAGE}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

impl Stage<'_> {
    /// Discovery and the kubelet agree: every device is known to both.
    pub async fn sees_devices(&self) -> anyhow::Result<()> {
        let looked = until("all devices", PATIENCE, async || {
            let inventory = self.agent.tells("/v1/devices").await?;
            let devices = inventory["devices"].as_array().context("no list of devices")?;
            let count = |vendor: &str| devices.iter().filter(|one| one["vendor"] == vendor).count();
            let found = (count("ascend"), count("nvidia"));
            Ok(if found == (8, 8) { Seen::Yes(()) } else { Seen::NotYet(inventory.to_string()) })
        });
        looked.await?;
        let problems = self.agent.tells("/v1/problems").await?;
        let of_kubelet =
            |one: &&Value| ["pod-resources", "assignment"].iter().any(|area| one["area"] == *area);
        let found: Vec<&Value> =
            problems.as_array().into_iter().flatten().filter(of_kubelet).collect();
        ensure!(found.is_empty(), "{found:?}");
        Ok(())
    }
}
