//! A document's own fields.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The document's own fields. Objects stay text until each is read for itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Top<'a> {
    pub(super) now: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) config: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) scheduler_params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<Box<Top<'a>>>,
    #[serde(borrow)]
    pub(super) raw_objects: Option<Box<Top<'a>>>,
    #[serde(borrow)]
    pub(super) nodes: List<'a>,
    #[serde(borrow)]
    pub(super) pods: List<'a>,
    #[serde(borrow)]
    pub(super) queues: List<'a>,
    #[serde(borrow)]
    pub(super) pod_groups: List<'a>,
    #[serde(borrow)]
    pub(super) topologies: List<'a>,
    #[serde(borrow)]
    pub(super) priority_classes: List<'a>,
    #[serde(borrow)]
    pub(super) bind_requests: List<'a>,
    #[serde(borrow)]
    pub(super) config_maps: List<'a>,
    #[serde(borrow)]
    pub(super) persistent_volume_claims: List<'a>,
    #[serde(borrow)]
    pub(super) persistent_volumes: List<'a>,
    #[serde(borrow)]
    pub(super) storage_classes: List<'a>,
    #[serde(borrow, alias = "cSIDrivers", alias = "csidrivers")]
    pub(super) csi_drivers: List<'a>,
    #[serde(borrow, alias = "cSIStorageCapacities", alias = "csistoragecapacities")]
    pub(super) csi_storage_capacities: List<'a>,
    #[serde(borrow)]
    pub(super) resource_claims: List<'a>,
    #[serde(borrow)]
    pub(super) resource_slices: List<'a>,
    #[serde(borrow)]
    pub(super) device_classes: List<'a>,
    #[serde(borrow)]
    pub(super) node_resource_topologies: List<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) inventories: List<'a>,
}

/// Objects that are still text; none if there is no such list.
pub(super) type List<'a> = Option<Vec<&'a RawValue>>;
