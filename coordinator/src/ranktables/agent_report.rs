//! What a pod holds, as its node's agent reports it.

use muster_proto::annotation::{PodRanktable, desired};
use muster_proto::device::{Health, Inventory};
use muster_proto::pod::{Held, PodDevices};
use muster_ranktable::Topology;

use super::DeviceSource;
use super::group::RankGroup;
use super::member::{Devices, Home, Member};
use muster_hub::Hub;
use muster_hub::registry::{AgentReport, TableReport};

/// Looks up what is known of a member. Whether anything has changed.
pub fn refresh(member: &mut Member, hub: &Hub, source: DeviceSource) -> bool {
    let pod = &member.pod;
    let report = hub.agent_report(&pod.node, &pod.uid).filter(|report| {
        report.pod.pod.name == pod.name && report.pod.pod.namespace == pod.namespace
    });
    let (devices, reported) = match source {
        DeviceSource::Agent => {
            let devices = report.as_ref().and_then(working_devices);
            let settled = report.as_ref().is_some_and(|report| report.inventory.settled);
            (devices.map(|devices| Devices::Reported(devices.write().into())), settled)
        }
        DeviceSource::Annotation => {
            (pod.annotation().map(|text| Devices::Annotated(text.into())), true)
        }
    };
    let changed = member.devices != devices || member.reported != reported;
    (member.devices, member.reported, member.report) = (devices, reported, report);
    refresh_table(member, hub) || changed
}

/// Looks up what is known of a member's table, when nothing else has changed. Whether it has.
pub fn refresh_table(member: &mut Member, hub: &Hub) -> bool {
    let table = match &member.home {
        Home::Agent(place) => hub.table_report(&member.pod.node, place),
        _ => TableReport { connected: true, ..TableReport::default() },
    };
    let changed = member.table != table;
    member.table = table;
    changed
}

/// What the pod holds without devices that the agent reports as faulty. None while not all is known, or when nothing is left.
pub fn working_devices(report: &AgentReport) -> Option<PodRanktable> {
    let AgentReport { pod, inventory } = report;
    let works = |held: &Held| {
        inventory
            .device(held.vendor, held.id)
            .is_none_or(|device| !matches!(device.health, Health::Faulty(_)))
    };
    let working = PodDevices {
        pod: pod.pod.clone(),
        devices: pod.devices.iter().filter(|held| works(held)).cloned().collect(),
    };
    desired(&working, inventory, inventory.server_id.as_deref()?)
}

/// What the agents of the group's nodes saw of the network.
pub fn topology(group: &RankGroup) -> Topology {
    let inventories = group.live().filter_map(|member| Some(&*member.report.as_ref()?.inventory));
    Topology::of(
        inventories
            .filter_map(|inventory: &Inventory| Some((inventory.server_id.as_deref()?, inventory))),
    )
}
