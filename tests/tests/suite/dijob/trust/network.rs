//! Real requests from the address of a pod: out of a network namespace, over a pair of virtual interfaces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use muster_dijob::server::REPLICAS;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::dijob::selector;
use serde_json::Value;
use tokio::process::Command;

use super::{address, message, one, running};

/// The node's end, as some network plugins have it: the same for all pods.
const NODE: &str = "169.254.77.1";

/// A network with one pod in it; it goes when this is dropped.
struct Network {
    name: String,
}

impl Network {
    /// One whose pod has this address. None where this machine or its user cannot make any.
    async fn of(pod: IpAddr) -> Option<Self> {
        let name = format!("muster-{}", std::process::id());
        // The name of an interface has at most 15 characters.
        let link = format!("mu{}", std::process::id());
        ip(&["netns", "add", &name]).await.ok()?;
        let network = Self { name: name.clone() };
        let (pod, node) = (format!("{pod}/32"), format!("{NODE}/32"));
        let steps: [&[&str]; 8] = [
            &["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name],
            &["-n", &name, "addr", "add", &pod, "dev", "eth0"],
            &["-n", &name, "link", "set", "eth0", "up"],
            &["addr", "add", &node, "dev", &link],
            &["link", "set", &link, "up"],
            &["route", "add", &pod, "dev", &link],
            &["-n", &name, "route", "add", NODE, "dev", "eth0", "scope", "link"],
            &["-n", &name, "route", "add", "default", "via", NODE],
        ];
        for step in steps {
            if let Err(error) = ip(step).await {
                eprintln!("{error:#}");
                return None;
            }
        }
        Some(network)
    }

    /// Asks from the pod, as DI-engine does; status and answer.
    async fn ask(&self, server: SocketAddr, method: &str, body: &str) -> Result<(u16, Value)> {
        let target = format!("http://{NODE}:{}{REPLICAS}", server.port());
        let mut curl = Command::new("ip");
        curl.args(["netns", "exec", &self.name, "curl", "-s", "-m", "30", "-w", "\n%{http_code}"])
            .args(["-X", method, "--data-binary", body, &target])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = curl.output().await.context("curl")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (said, status) = text.rsplit_once('\n').context("no answer")?;
        ensure!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        Ok((status.parse()?, serde_json::from_str(said).with_context(|| said.to_owned())?))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The pair of interfaces goes with it.
        let _gone = std::process::Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

async fn ip(words: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(words).stdin(Stdio::null()).output().await.context("ip")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {why}", words.join(" "));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_the_job_needs_no_token_whichever_coordinator_it_reaches() -> Result<()> {
    let curl = Command::new("curl").arg("--version").output().await;
    if World::is_real() || curl.is_err() {
        eprintln!("left out: it needs curl, and simulated pods without a network of their own");
        return Ok(());
    }
    let choices = Choices { di_server: Ipv4Addr::UNSPECIFIED.into(), ..Choices::default() };
    World::new()
        .nodes(1)
        .coordinators(2)
        .choices(choices)
        .run(async |world| {
            running(world, "mine", "Running").await?;
            running(world, "other", "Running").await?;
            let Some(network) = Network::of(address(world, "mine-coordinator").await?).await else {
                eprintln!("left out: this user may not make a network namespace");
                return Ok(());
            };
            let mut made = 0;
            for coordinator in world.coordinators()?.iter() {
                let server = coordinator.coordinator().addresses().di_server;
                let (status, said) = network.ask(server, "POST", &one(world, "mine")).await?;
                ensure!(status == 200, "leads: {}, {said}", coordinator.leads());
                made += 1;
                let (status, said) = network.ask(server, "POST", &one(world, "other")).await?;
                ensure!(status == 401 && message(&said).starts_with("10."), "{said}");
            }
            assert_eq!(world.pods(&selector("mine")).await?.len(), 1 + made);
            assert_eq!(world.pods(&selector("other")).await?.len(), 1);
            let server = world.coordinators()?.leader().context("nobody leads")?;
            let server = server.coordinator().addresses().di_server;
            let (status, said) = network.ask(server, "DELETE", &one(world, "mine")).await?;
            ensure!(status == 200, "{said}");
            Ok(())
        })
        .await
}
