//! The pods with devices of one node, and what names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::delivery::{Digest, Place};
use muster_proto::link::{MOST_PODS, PodsChanged, pods_digest};
use muster_proto::pod::PodDevices;

/// The pods of a node. A copy is cheap, so that the next ones are made and named where nobody waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Pods {
    by_uid: Arc<BTreeMap<String, Arc<PodDevices>>>,
    digest: Digest,
}

// === impl Pods ===

impl Pods {
    /// The pods after a change; none if there are too many. Takes milliseconds per megabyte.
    pub fn after(before: Option<&Self>, change: PodsChanged) -> Option<Self> {
        let PodsChanged { full, upserts, gone } = change;
        let mut by_uid = match before {
            Some(before) if !full => (*before.by_uid).clone(),
            _ => BTreeMap::new(),
        };
        for uid in &gone {
            by_uid.remove(uid);
        }
        by_uid.extend(upserts.into_iter().map(|pod| (pod.pod.uid.clone(), Arc::new(pod))));
        if by_uid.len() > MOST_PODS {
            return None;
        }
        let digest = pods_digest(by_uid.values().map(|pod| &**pod));
        Some(Self { by_uid: Arc::new(by_uid), digest })
    }

    /// What names them.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether the pod of this place is one of them.
    pub fn hold(&self, place: &Place) -> bool {
        self.by_uid.contains_key(&place.pod_uid)
    }

    /// One of them.
    pub fn get(&self, uid: &str) -> Option<&Arc<PodDevices>> {
        self.by_uid.get(uid)
    }

    /// All, by uid.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PodDevices>> {
        self.by_uid.values()
    }
}
