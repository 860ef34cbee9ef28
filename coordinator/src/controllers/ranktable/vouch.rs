//! What a pod holds, by the word of its node's agent.

use std::sync::Arc;

use muster_proto::annotation::desired;
use muster_proto::device::{Health, Inventory};
use muster_proto::pod::{Held, PodDevices};
use muster_ranktable::Topology;

use super::Truth;
use super::group::Group;
use super::member::{Home, Member, MemberSeat};
use muster_hub::Hub;
use muster_hub::registry::Vouched;

/// Looks up what is known of a member. Whether anything has changed.
pub fn refresh(member: &mut Member, hub: &Hub, truth: Truth) -> bool {
    let (devices, reported) = match truth {
        Truth::Agent => {
            let (node, pod) = (&member.pod.node, &member.pod);
            let vouched = hub.vouched(node, &pod.uid).filter(|vouched| {
                vouched.pod.pod.name == pod.name && vouched.pod.pod.namespace == pod.namespace
            });
            let settled = vouched.as_ref().is_some_and(|vouched| vouched.inventory.settled);
            (vouched.as_ref().and_then(text), settled)
        }
        Truth::Annotation => (member.annotated(), true),
    };
    let changed = member.devices != devices || member.reported != reported;
    (member.devices, member.reported) = (devices, reported);
    reseat(member, hub) || changed
}

/// Looks up what is known of a member's table, when nothing else has changed. Whether it has.
pub fn reseat(member: &mut Member, hub: &Hub) -> bool {
    let seat = match &member.home {
        Home::Agent(place) => {
            let seat = hub.known(&member.pod.node, place);
            MemberSeat { linked: seat.linked, delivered: seat.delivered, refused: seat.refused }
        }
        _ => MemberSeat { linked: true, ..MemberSeat::default() },
    };
    let changed = member.seat != seat;
    member.seat = seat;
    changed
}

/// The annotation that the agent writes, without devices that it reports as faulty. None while not all is known, or when
/// nothing is left.
fn text(vouched: &Vouched) -> Option<Arc<str>> {
    let Vouched { pod, inventory } = vouched;
    let works = |held: &Held| {
        inventory
            .device(held.vendor, held.id)
            .is_none_or(|device| !matches!(device.health, Health::Faulty(_)))
    };
    let working = PodDevices {
        pod: pod.pod.clone(),
        devices: pod.devices.iter().filter(|held| works(held)).cloned().collect(),
    };
    let table = desired(&working, inventory, inventory.server_id.as_deref()?)?;
    Some(table.write().into())
}

/// What the agents of the group's nodes saw of the network.
pub fn topology(group: &Group, hub: &Hub) -> Topology {
    let seen: Vec<Arc<Inventory>> = group
        .live()
        .filter_map(|member| hub.vouched(&member.pod.node, &member.pod.uid))
        .map(|vouched| vouched.inventory)
        .collect();
    Topology::of(
        seen.iter().filter_map(|inventory| Some((inventory.server_id.as_deref()?, &**inventory))),
    )
}
