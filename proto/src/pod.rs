//! Which pod holds which device.

use serde::{Deserialize, Serialize};

use crate::device::Vendor;

/// A pod, so that another of the same name is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's `metadata.uid`.
    pub uid: String,
}

/// One device in the hands of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Held {
    /// Who made it.
    pub vendor: Vendor,
    /// Its id on the node, see [`Device::id`](crate::device::Device::id).
    pub id: u32,
    /// The container that holds the device.
    pub container: String,
    /// The resource, `huawei.com/Ascend910`.
    pub resource: String,
    /// The slice or replica of it that is meant, where it is not the whole device: `MIG-…`, a vNPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// The devices of one pod, by vendor and id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodDevices {
    /// The pod that holds the devices.
    pub pod: PodRef,
    /// What it holds, sorted, each once.
    pub devices: Vec<Held>,
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
