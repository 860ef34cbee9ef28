//! What the agents of the demo have to show.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_proto::annotation::{KEY, PodRanktable};

use super::narrator::Narrator;
use super::story::{node_of, wait};
use crate::World;
use crate::world::Seen;
use crate::world::jobset::selector;

/// Waits until every agent has told the hub what its node has.
pub(super) async fn show(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let agents = world.agents()?;
    let hub = world.hub()?;
    let count = agents.iter().count();
    let devices = wait(narrator, "the agents", async || {
        let inventories = hub.inventories();
        let settled = inventories.values().filter(|inventory| inventory.settled);
        let (there, devices) = settled
            .fold((0, 0), |(nodes, all), inventory| (nodes + 1, all + inventory.devices.len()));
        Ok(match there == count {
            true => Seen::Yes(devices),
            false => Seen::NotYet(format!("{there} of {count} have reported")),
        })
    })
    .await?;
    narrator
        .step(&format!("{count} agents have found {devices} devices and told the hub, over TLS"));
    // The first has a port without a link, which is worth a look.
    let interesting =
        agents.iter().find(|(node, _)| node.contains("910b")).or(agents.iter().next());
    if let Some(address) = interesting.and_then(|(_, agent)| agent.address()) {
        narrator.more(&format!("one of their status pages: http://{address}/"));
    }
    Ok(())
}

/// Waits until every pod carries what it holds, and shows one.
pub(super) async fn show_annotations(
    narrator: &mut Narrator,
    world: &World,
    jobset: &str,
) -> anyhow::Result<()> {
    let pods: Vec<Pod> = wait(narrator, "the annotations", async || {
        let pods = world.pods(&selector(jobset)).await?;
        let there = pods.iter().filter(|pod| pod.annotations().contains_key(KEY)).count();
        Ok(match there == pods.len() {
            true => Seen::Yes(pods),
            false => Seen::NotYet(format!("{there} of {} pods", pods.len())),
        })
    })
    .await?;
    narrator.step(&format!("each pod's agent has written what the pod holds: annotation {KEY}"));
    for pod in &pods {
        let table = PodRanktable::parse(&pod.annotations()[KEY])
            .with_context(|| format!("pod {}", pod.name_any()))?;
        ensure!(!table.devices.is_empty(), "pod {} is said to hold nothing", pod.name_any());
    }
    let npu = pods.iter().find(|pod| node_of(pod).starts_with("ascend"));
    if let Some(pod) = npu.or(pods.first()) {
        let table = PodRanktable::parse(&pod.annotations()[KEY])?;
        let first: Vec<String> = table
            .devices
            .iter()
            .take(3)
            .map(|device| format!("{} at {}", device.device_id, device.device_ip))
            .collect();
        let more = table.devices.len().saturating_sub(first.len());
        narrator.more(&format!(
            "{}: server_id {}\ndevices {}, and {more} more",
            table.pod_name,
            table.server_id,
            first.join(", ")
        ));
    }
    Ok(())
}
