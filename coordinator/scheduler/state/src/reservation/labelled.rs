//! Pods that say which devices they share and have no node: their binding is on its way, or nobody finished it. A leader may die,
//! or give up, between the two writes. Then the labels are taken off again, or the pod would count as a sharer while it waits.

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Phase, Pod};

use super::shared_device::groups_of;
use super::step::Release;
use super::{Reservations, Try, share};
use crate::object::{Name, name_of};
use crate::orders::Outcome;

/// Labels that were taken off and that the watch still shows after this are taken off again.
const UNSEEN: SignedDuration = SignedDuration::from_secs(60);

/// A pod that has labels and no node.
#[derive(Clone, Debug)]
pub(super) struct Labelled {
    uid: String,
    clearing: Option<Try>,
}

// === impl Labelled ===

impl Labelled {
    fn is_being_cleared(&self) -> bool {
        self.clearing.is_some_and(|clearing| clearing.again.is_none())
    }
}

// === impl Reservations ===

impl Reservations {
    /// A pod is as it is now: whether it has labels and no node.
    pub(super) fn see_labels(&mut self, pod: &Pod, ours: bool) {
        let key = name_of(&pod.metadata);
        let stays = pod.metadata.deletion_timestamp.is_none()
            && !matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
        let waits = ours && stays && pod.spec.node_name.is_empty() && share::asks(pod).is_some();
        if !waits || groups_of(pod).next().is_none() {
            self.labelled.remove(&key);
            return;
        }
        let uid = &pod.metadata.uid;
        if self.labelled.get(&key).is_none_or(|known| known.uid != *uid) {
            self.labelled.insert(key, Labelled { uid: uid.clone(), clearing: None });
        }
    }

    /// Pods whose labels are to go now: those that nobody is about to bind.
    pub(super) fn clear(
        &mut self,
        now: Timestamp,
        is_idle: impl Fn(&Name, &str) -> bool,
    ) -> Vec<Release> {
        let mut clear = Vec::new();
        for (pod, known) in &mut self.labelled {
            if is_idle(pod, &known.uid) && Try::is_due(&mut known.clearing, now) {
                clear.push(Release { pod: pod.clone(), uid: known.uid.clone() });
            }
        }
        clear
    }

    /// Whether labels are being taken off a pod: it is not given others meanwhile.
    pub(super) fn is_being_cleared(&self, pod: &Name) -> bool {
        self.labelled.get(pod).is_some_and(Labelled::is_being_cleared)
    }

    /// What came of taking labels off a pod.
    pub(crate) fn cleared(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        let known = self.labelled.get_mut(pod).filter(|known| known.uid == uid);
        if let Some(clearing) = known.and_then(|known| known.clearing.as_mut()) {
            match outcome {
                // The watch will show it.
                Outcome::Done => clearing.again = Some(now.saturating_add(UNSEEN).unwrap_or(now)),
                Outcome::Failed(_) | Outcome::Unsure(_) | Outcome::Lost(_) => {
                    clearing.fail(now);
                }
            }
        }
        // It may have waited for that.
        let spots = self.uses.get(pod).map(|using| using.spots.clone());
        self.dirty.extend(spots.into_iter().flatten());
    }

    /// When labels are to be taken off though nothing changes.
    pub(super) fn next_clear(&self) -> Option<Timestamp> {
        self.labelled.values().filter_map(|known| known.clearing?.again).min()
    }
}
