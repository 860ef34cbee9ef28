//! Pods and what they hold, on the wire.

use super::reader::{Invalid, list, maybe, name, text};
use super::{MOST_HELD, MOST_PODS, PodsChanged, inventory, v1};
use crate::pod::{Held, PodDevices, PodRef};

// === impl PodDevices ===

impl From<&PodDevices> for v1::PodDevices {
    fn from(pod: &PodDevices) -> Self {
        let PodRef { namespace, name, uid } = pod.pod.clone();
        Self { namespace, name, uid, devices: pod.devices.iter().map(v1::Held::from).collect() }
    }
}

impl TryFrom<v1::PodDevices> for PodDevices {
    type Error = Invalid;

    fn try_from(wire: v1::PodDevices) -> Result<Self, Invalid> {
        Ok(Self {
            pod: PodRef {
                namespace: name("namespace", wire.namespace)?,
                name: name("name", wire.name)?,
                uid: name("uid", wire.uid)?,
            },
            devices: list("devices", wire.devices, MOST_HELD, Held::try_from)?,
        })
    }
}

// === impl Held ===

impl From<&Held> for v1::Held {
    fn from(held: &Held) -> Self {
        let Held { vendor, id, container, resource, part } = held.clone();
        Self { vendor: inventory::vendor_number(vendor), id, container, resource, part }
    }
}

impl TryFrom<v1::Held> for Held {
    type Error = Invalid;

    fn try_from(wire: v1::Held) -> Result<Self, Invalid> {
        Ok(Self {
            vendor: inventory::vendor("vendor", wire.vendor)?,
            id: wire.id,
            container: text("container", wire.container)?,
            resource: text("resource", wire.resource)?,
            part: maybe("part", wire.part)?,
        })
    }
}

// === impl PodsChanged ===

impl From<&PodsChanged> for v1::PodsChanged {
    fn from(change: &PodsChanged) -> Self {
        Self {
            full: change.full,
            upserts: change.upserts.iter().map(v1::PodDevices::from).collect(),
            gone: change.gone.clone(),
        }
    }
}

impl TryFrom<v1::PodsChanged> for PodsChanged {
    type Error = Invalid;

    fn try_from(wire: v1::PodsChanged) -> Result<Self, Invalid> {
        let gone = |uid| name("uid", uid);
        Ok(Self {
            full: wire.full,
            upserts: list("upserts", wire.upserts, MOST_PODS, PodDevices::try_from)?,
            gone: list("gone", wire.gone, MOST_PODS, gone)?,
        })
    }
}
