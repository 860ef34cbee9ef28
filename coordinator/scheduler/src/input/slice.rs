//! Devices that drivers offer, and classes of them.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use super::{
    DeviceConfig, DeviceSelector, NodeSelector,
    meta::{Meta, or_default},
};
use muster_kube::Quantity;

/// Devices that a driver offers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// Its name.
    pub metadata: Meta,
    /// The devices.
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceSliceSpec,
}

/// Devices that a driver offers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    /// The driver.
    pub driver: String,
    /// On which node.
    pub node_name: Option<String>,
    /// Or on which nodes.
    pub node_selector: Option<NodeSelector>,
    /// Or on all.
    pub all_nodes: Option<bool>,
    /// Or each device says.
    pub per_device_node_selection: Option<bool>,
    /// Of which pool.
    #[serde(deserialize_with = "or_default")]
    pub pool: Pool,
    /// The devices.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
}

/// Slices that belong together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Slices of an earlier generation do not count.
    pub generation: i64,
    /// How many there are.
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// What is known of it.
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<String, AttributeValue>,
    /// What it has.
    #[serde(deserialize_with = "or_default")]
    pub capacity: BTreeMap<String, Capacity>,
    /// Parts of a larger device that it takes. Such devices are not given.
    #[serde(deserialize_with = "or_default")]
    pub consumes_counters: Vec<IgnoredAny>,
    /// What has to be true before it can be used. Such devices are not given.
    #[serde(deserialize_with = "or_default")]
    pub binding_conditions: Vec<IgnoredAny>,
    /// Whether several claims may have it.
    pub allow_multiple_allocations: Option<bool>,
    /// Earlier versions: the same, one level down.
    pub basic: Option<Box<Device>>,
}

/// An amount that a device has. Earlier versions wrote it without a name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Capacity {
    /// With its name.
    Named {
        /// The amount.
        value: Quantity,
    },
    /// Without.
    Bare(Quantity),
}

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttributeValue {
    /// A number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A text.
    String(String),
    /// A version.
    Version(String),
}

/// A class of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    /// Its name.
    pub metadata: Meta,
    /// Which devices.
    #[serde(deserialize_with = "or_default")]
    pub spec: DeviceClassSpec,
}

/// Which devices are of a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// All of these must hold.
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// The extended resource that it serves.
    pub extended_resource_name: Option<String>,
    /// Settings that drivers get with devices of the class.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<DeviceConfig>,
}

// === impl Capacity ===

impl Capacity {
    /// The amount.
    pub fn value(self) -> Quantity {
        match self {
            Self::Named { value } | Self::Bare(value) => value,
        }
    }
}
