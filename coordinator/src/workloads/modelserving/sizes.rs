//! The size that pods say their rank group has, when a role was scaled after they were made. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use muster_modelserving::naming;
use muster_modelserving::ranktable::{Sizes, Slot};

use crate::names::{RANK_GROUP, RANK_GROUP_SIZE};

/// The pods that say another size than their group has by now, with the right one.
pub fn outdated<'a>(
    sizes: &'a Sizes<'_>,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
) -> Vec<(String, String)> {
    let none = BTreeMap::new();
    let wrong = pods.filter_map(|pod| {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let label = |key: &str| labels.get(key).map_or("", String::as_str);
        let said = pod.metadata.annotations.as_ref()?.get(RANK_GROUP_SIZE)?;
        let slot = Slot {
            group: label(naming::GROUP),
            role: label(naming::ROLE),
            role_id: label(naming::ROLE_ID),
            index: 0,
        };
        let group = sizes.group(&slot).filter(|group| group.name == label(RANK_GROUP))?;
        let right = group.size.to_string();
        let live = pod.metadata.deletion_timestamp.is_none();
        (live && *said != right).then(|| (pod.metadata.name.clone().unwrap_or_default(), right))
    });
    wrong.collect()
}
