//! Who has a part of which devices.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_scheduler::input::{Phase, Pod};

use super::shared_device::groups_of;
use super::{Reservations, SharedDevice, share};
use crate::object::{Name, name_of};

/// A pod that has a part of devices.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub uid: String,
    pub spots: Vec<SharedDevice>,
    pub how: How,
    /// Whether it is a pod of our scheduler.
    pub ours: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It waits for its devices since then.
    Waiting(Timestamp),
    /// Its binding is on its way.
    Sent,
    /// It is there.
    Bound,
}

// === impl Reservations ===

impl Reservations {
    /// A pod that shares devices is as it is now. `is_in_flight`: its binding is on its way.
    pub(crate) fn see(&mut self, pod: &Pod, is_in_flight: bool, ours: bool) {
        let key = name_of(&pod.metadata);
        let ended = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
        let node = &pod.spec.node_name;
        self.see_labels(pod, ours);
        let known = self.uses.get(&key).filter(|known| known.uid == pod.metadata.uid);
        if node.is_empty() || ended || share::asks(pod).is_none() {
            let flying = known.filter(|known| known.how != How::Bound && is_in_flight && !ended);
            match flying.map(|known| known.spots.clone()) {
                // Perhaps it does not want them any more.
                Some(spots) => self.dirty.extend(spots),
                None => self.forget(&key),
            }
            return;
        }
        let spots: Vec<SharedDevice> =
            groups_of(pod).map(|group| SharedDevice::new(node, group)).collect();
        if known.is_some_and(|known| known.how == How::Bound && known.spots == spots) {
            return;
        }
        self.forget(&key);
        if !spots.is_empty() {
            let uid = pod.metadata.uid.clone();
            self.enter(key, Use { uid, spots, how: How::Bound, ours });
        }
    }

    /// A pod is to get a part of these devices as soon as they are held.
    pub(crate) fn wait(&mut self, pod: &Name, uid: &str, spots: Vec<SharedDevice>, now: Timestamp) {
        self.forget(pod);
        let using = Use { uid: uid.to_owned(), spots, how: How::Waiting(now), ours: true };
        self.enter(pod.clone(), using);
    }

    /// A pod has no part of any device any more.
    pub(crate) fn forget(&mut self, pod: &Name) {
        let Some(gone) = self.uses.remove(pod) else { return };
        for spot in gone.spots {
            if let Some(users) = self.users.get_mut(&spot) {
                users.remove(pod);
                if users.is_empty() {
                    self.users.remove(&spot);
                }
            }
            self.dirty.insert(spot);
        }
    }

    fn enter(&mut self, pod: Name, using: Use) {
        for spot in &using.spots {
            self.users.entry(spot.clone()).or_default().insert(pod.clone());
            self.dirty.insert(spot.clone());
        }
        self.uses.insert(pod, using);
    }

    /// A node is gone: who waits for its devices is looked at.
    pub(crate) fn lose_node(&mut self, node: &str) {
        let on = self.users.keys().filter(|spot| &*spot.node == node).cloned();
        self.dirty.extend(on.collect::<Vec<_>>());
    }

    /// Pods that have a part of a device which a reservation of these identities holds, and which that is.
    pub(crate) fn users_of<'a, T>(
        &'a self,
        node: &'a str,
        held: &'a BTreeMap<String, T>,
    ) -> impl Iterator<Item = (&'a Name, &'a T)> {
        self.spots_of(node, held).flat_map(move |(spot, of)| {
            let users = self.users.get(spot).into_iter().flatten();
            users.map(move |user| (user, of))
        })
    }
}
