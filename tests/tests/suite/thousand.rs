//! A thousand agents in one process, one hub.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_agent::discover;
use muster_agent::host::Host;
use muster_agent::names;
use muster_agent::run::AgentSettings;
use muster_hub::Hub;
use muster_proto::device::{Health, Vendor};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;

const AGENTS: u32 = 1000;
const DEVICES: u32 = 8;
/// Faults that are timed.
const FAULTS: usize = 100;

/// A node with device files and their configuration and nothing else: a thousand whole ones would be half a million files.
fn lay_out(root: &Path, index: u32) -> Result<()> {
    for folder in ["dev", "etc", "usr/local/Ascend/driver"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let mut conf = String::new();
    for id in 0..DEVICES {
        fs::write(root.join(format!("dev/davinci{id}")), "")?;
        writeln!(conf, "address_{id}=10.{}.{}.{}", index / 250, index % 250, id + 1)?;
    }
    fs::write(root.join("dev/davinci_manager"), "")?;
    fs::write(root.join("etc/hccn.conf"), conf)?;
    fs::write(root.join("usr/local/Ascend/driver/version.info"), "Version=25.2.0\n")?;
    Ok(())
}

fn is_faulty(hub: &Hub, node: &str, id: u32) -> bool {
    let inventory = hub.inventory(node);
    let device = inventory.as_ref().and_then(|inventory| inventory.device(Vendor::Ascend, id));
    device.is_some_and(|device| matches!(device.health, Health::Faulty(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_agents_report_and_a_fault_is_known_at_the_hub_at_once() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a thousand agents are too much to ask of a cluster that others use");
        return Ok(());
    }
    World::new()
        .bare_nodes_of(Profile::Ascend910b8, AGENTS)
        .agents()
        .run(async |world| {
            let nodes: Vec<String> = {
                let kubelets = world.kubelets().context("no nodes")?;
                kubelets.nodes().map(|node| node.spec().name.clone()).collect()
            };
            let mut tokens = Vec::new();
            for (node, index) in nodes.iter().zip(0..) {
                lay_out(&world.folder().join(node), index)?;
                tokens.push(world.agent_token(node, Some(names::AUDIENCE)).await?);
            }
            let hub = world.hub()?.clone();
            let (client, folder) = (world.client(), world.folder().to_owned());
            let start = Instant::now();
            let agents = world.agents_mut()?;
            for (node, token) in nodes.iter().zip(&tokens) {
                let discover = discover::DiscoverySettings {
                    tools: None,
                    ..discover::DiscoverySettings::new(Host::at(folder.join(node)))
                };
                let coordinator = Some(agents.coordinator_with(node, token)?);
                let state = agents.state_of(node);
                let settings = AgentSettings { coordinator, ..AgentSettings::new(node, discover, state) };
                agents.add_with(client.clone(), settings).await?;
            }
            world
                .until("all inventories at the hub", async || {
                    let inventories = hub.inventories();
                    let whole = |devices: usize| devices == DEVICES as usize;
                    let there = inventories
                        .values()
                        .filter(|inventory| inventory.settled && whole(inventory.devices.len()))
                        .count();
                    Ok(match there == AGENTS as usize {
                        true => Seen::Yes(()),
                        false => Seen::NotYet(format!("{there} of {AGENTS}")),
                    })
                })
                .await?;
            let arrived = start.elapsed();
            let addresses: std::collections::BTreeSet<_> = hub
                .inventories()
                .values()
                .flat_map(|inventory| inventory.devices.iter().filter_map(|device| device.ip).collect::<Vec<_>>())
                .collect();
            assert_eq!(addresses.len(), (AGENTS * DEVICES) as usize, "every device has its own address");

            let mut changes = hub.subscribe();
            let mut times = Vec::new();
            for fault in 0..FAULTS {
                let node = &nodes[fault * 7919 % nodes.len()];
                let id = fault as u32 % DEVICES;
                let began = Instant::now();
                fs::remove_file(folder.join(node).join(format!("dev/davinci{id}")))?;
                tokio::time::timeout(Duration::from_secs(60), async {
                    while !is_faulty(&hub, node, id) {
                        // A subscriber that is behind looks again at once.
                        let _behind = changes.recv().await;
                    }
                })
                .await
                .with_context(|| format!("the hub does not know that NPU {id} of {node} is gone"))?;
                times.push(began.elapsed());
            }
            times.sort();
            eprintln!(
                "{AGENTS} agents: all inventories at the hub {arrived:.1?} after the first started; a device's fault is \
                 known at the hub after p50 {:.0?}, p99 {:.0?}, max {:.0?} ({FAULTS} faults; debug build, one process)",
                times[FAULTS / 2],
                times[FAULTS * 99 / 100],
                times[FAULTS - 1],
            );
            Ok(())
        })
        .await
}
