//! Which device: a node, and the name that its sharers have for it.

use muster_scheduler::input::Pod;
use sha2::{Digest, Sha256};

use super::Settings;
use crate::object::{Name, name};

/// The label that says what a pod is for.
pub const APP: &str = "app";
/// The label of a shared device: on its reservation, and on the pods that have a part of it.
pub const GROUP: &str = "runai-gpu-group";

/// A shared device: a node, and its group there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedDevice {
    /// The node.
    pub node: Box<str>,
    /// The group.
    pub group: Box<str>,
}

// === impl SharedDevice ===

impl SharedDevice {
    /// A group on a node.
    pub fn new(node: &str, group: &str) -> Self {
        Self { node: node.into(), group: group.into() }
    }

    /// The name of its reservation pod: always the same, so that there are never two.
    pub fn pod(&self) -> String {
        let digest = Sha256::digest(format!("{}/{}", self.node, self.group));
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("gpu-reservation-{hex}")
    }
}

/// The device that a reservation pod holds.
pub(crate) fn spot_of(pod: &Pod, settings: &Settings, app: &str) -> Option<SharedDevice> {
    let meta = &pod.metadata;
    let ours = meta.labels.get(APP) == Some(app) && meta.namespace == settings.namespace;
    let group = meta.labels.get(GROUP).filter(|group| !group.is_empty());
    let node = Some(pod.spec.node_name.as_str()).filter(|node| !node.is_empty());
    Some(SharedDevice::new(node?, group.filter(|_| ours)?))
}

/// The groups that a pod has a part of, as its labels say.
pub(crate) fn groups_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let ours = |label: &str| {
        label.strip_prefix(GROUP).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    pod.metadata.labels.iter().filter(move |(label, _)| ours(label)).map(|(_, group)| group)
}

/// The name of the reservation pod of a device.
pub(crate) fn pod_of(spot: &SharedDevice, settings: &Settings) -> Name {
    name(&settings.namespace, &spot.pod())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_reservation_follows_from_node_and_group() {
        let one = SharedDevice::new("node-1", "group").pod();
        assert_eq!(one, SharedDevice::new("node-1", "group").pod());
        assert_ne!(one, SharedDevice::new("node-2", "group").pod());
        assert_eq!(one.len(), "gpu-reservation-".len() + 16);
    }
}
