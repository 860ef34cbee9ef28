//! Devices that pods share: a reservation pod holds each of them whole, and the pods that share it are told which it is.
//!
//! ```text
//!   a pod gets a part of a device ──▶ is the device held? ──no──▶ make a reservation pod ──▶ the kubelet gives it a device
//!                                          │ yes                                                       │
//!                                          ▼                                                           ▼
//!   bound ◀── its variables, its labels ◀── all its devices are known ◀── written on the reservation ◀── the agent says which
//! ```
//!
//! All that counts is on the reservation pods and on the pods that share, so that the next leader goes on where this one ended. The
//! name of a reservation follows from node and group: it cannot be made twice. One that nobody uses goes, and until it has gone its
//! device is nobody's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Phase, Pod};

use crate::object::{Name, name_of};

mod labelled;
pub mod share;
mod shared_device;
mod step;
mod usage;

use labelled::Labelled;
pub use shared_device::{APP, GROUP, SharedDevice};
pub(crate) use shared_device::{groups_of, pod_of, spot_of};
pub use step::{Annotate, Make, Release, Steps};
use usage::{How, Use};

/// The annotation of a reservation that says which device it has.
pub const DEVICE: &str = "run.ai/reserve_for_gpu_index";
/// Names of devices are shorter.
const LONGEST_DEVICE: usize = 256;
/// More of a reason is not told.
const LONGEST_REASON: usize = 64;

/// How devices are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where reservation pods are.
    pub namespace: String,
    /// How long a pod waits for its devices before it is decided on anew.
    pub patience: SignedDuration,
    /// How long pods may run on a device that is not held any more.
    pub grace: SignedDuration,
}

/// All devices that are shared, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    held: BTreeMap<SharedDevice, Vec<Held>>,
    pods: HashMap<Name, SharedDevice>,
    uses: HashMap<Name, Use>,
    users: BTreeMap<SharedDevice, BTreeSet<Name>>,
    making: BTreeMap<SharedDevice, Try>,
    /// Where the kubelet does not take them.
    refused: BTreeMap<SharedDevice, Refused>,
    /// Pods whose device is not held any more, since when.
    bare: BTreeMap<SharedDevice, Timestamp>,
    /// Sharers that were told to go, and when that is tried again.
    lost: BTreeMap<Name, (String, Try)>,
    /// Pods that say which devices they share and have no node.
    labelled: BTreeMap<Name, Labelled>,
    /// Where reservations do not say their device yet.
    unmarked: BTreeSet<SharedDevice>,
    /// What has changed.
    dirty: BTreeSet<SharedDevice>,
    /// When to look at something though nothing changes.
    alarms: BTreeSet<(Timestamp, SharedDevice)>,
}

/// A reservation pod, as the watch shows it.
#[derive(Clone, Debug)]
struct Held {
    pod: Name,
    uid: String,
    /// Which device it has, as it says.
    device: Option<String>,
    /// Which device it has, as the agent says.
    found: Option<String>,
    phase: Stage,
    marking: Option<Try>,
    releasing: Option<Try>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Live,
    Going,
    /// It has failed, or ended: it holds nothing.
    Ended,
}

/// Reservations of a device that have ended before they had one.
#[derive(Clone, Debug, Default)]
struct Refused {
    count: u32,
    /// What the last one said of it.
    why: String,
    /// When the next one is made; none while that is to be reckoned.
    again: Option<Timestamp>,
}

/// A write that is being tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Try {
    tries: u32,
    /// When it is tried again; none while it is, or when the watch will show what became of it.
    again: Option<Timestamp>,
    /// Whether some try may have been done though nobody heard of it.
    unsure: bool,
    /// Whether the watch has shown what a try before this one came to.
    seen: bool,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "kai-resource-reservation".to_owned(),
            patience: SignedDuration::from_secs(40),
            grace: SignedDuration::from_secs(10),
        }
    }
}

// === impl Held ===

impl Held {
    fn is_unmarked(&self) -> bool {
        self.phase == Stage::Live && self.device.is_none() && self.found.is_none()
    }
}

// === impl Reservations ===

impl Reservations {
    /// A reservation pod is there, or is another.
    pub(crate) fn put(&mut self, pod: &Pod, spot: SharedDevice) {
        let key = name_of(&pod.metadata);
        if self.pods.get(&key).is_some_and(|known| *known != spot) {
            self.remove(&key);
        }
        let phase = match pod.status.phase {
            Phase::Succeeded | Phase::Failed => Stage::Ended,
            _ if pod.metadata.deletion_timestamp.is_some() => Stage::Going,
            _ => Stage::Live,
        };
        let text = pod.metadata.annotations.get(DEVICE);
        let device = text.filter(|text| is_device(text)).map(ToOwned::to_owned);
        if device.is_some() {
            self.refused.remove(&spot);
        }
        let list = self.held.entry(spot.clone()).or_default();
        let at = list.iter().position(|held| held.pod == key && held.uid == pod.metadata.uid);
        let known = at.and_then(|at| list.get_mut(at));
        let ended = |held: &Held| held.phase == Stage::Ended;
        if phase == Stage::Ended && device.is_none() && !known.as_deref().is_some_and(ended) {
            let refused = self.refused.entry(spot.clone()).or_default();
            refused.count = refused.count.saturating_add(1);
            (refused.why, refused.again) =
                (pod.status.reason.chars().take(LONGEST_REASON).collect(), None);
        }
        match known {
            Some(held) => {
                held.marking = held.marking.filter(|_| device.is_none());
                (held.device, held.phase) = (device, phase);
            }
            None => {
                list.retain(|held| held.pod != key);
                let uid = pod.metadata.uid.clone();
                list.push(Held {
                    pod: key.clone(),
                    uid,
                    device,
                    found: None,
                    phase,
                    marking: None,
                    releasing: None,
                });
            }
        }
        if self.has_unmarked(&spot) {
            self.unmarked.insert(spot.clone());
        } else {
            self.unmarked.remove(&spot);
        }
        match self.making.get_mut(&spot) {
            // It may be of a try before: the one that is under way may still be done when this one has gone.
            Some(making) if making.again.is_none() && making.tries > 0 => {
                (making.unsure, making.seen) = (false, true);
            }
            _ => drop(self.making.remove(&spot)),
        }
        self.pods.insert(key, spot.clone());
        self.touch(&spot);
    }

    /// A pod is gone, whatever it was.
    pub(crate) fn remove(&mut self, pod: &Name) {
        if let Some(spot) = self.pods.remove(pod) {
            if let Some(list) = self.held.get_mut(&spot) {
                list.retain(|held| held.pod != *pod);
                if list.is_empty() {
                    self.held.remove(&spot);
                }
            }
            if !self.has_unmarked(&spot) {
                self.unmarked.remove(&spot);
            }
            self.dirty.insert(spot);
        }
        self.lost.remove(pod);
        self.labelled.remove(pod);
        self.forget(pod);
    }

    fn touch(&mut self, spot: &SharedDevice) {
        self.dirty.insert(spot.clone());
    }

    /// Reservations that do not say their device yet: node, name and identity.
    pub fn unmarked(&self) -> impl Iterator<Item = (&str, &Name, &str)> {
        self.unmarked.iter().flat_map(|spot| {
            let list = self.held.get(spot).into_iter().flatten().filter(|held| held.is_unmarked());
            list.map(|held| (&*spot.node, &held.pod, held.uid.as_str()))
        })
    }

    fn has_unmarked(&self, spot: &SharedDevice) -> bool {
        self.held.get(spot).into_iter().flatten().any(Held::is_unmarked)
    }

    /// An agent says which device a reservation has.
    pub(crate) fn found(&mut self, pod: &Name, uid: &str, device: &str) {
        let Some(spot) = self.pods.get(pod).filter(|_| is_device(device)).cloned() else { return };
        let list = self.held.get_mut(&spot).into_iter().flatten();
        for held in list.filter(|held| held.pod == *pod && held.uid == uid) {
            held.found = Some(device.to_owned());
        }
        if !self.has_unmarked(&spot) {
            self.unmarked.remove(&spot);
        }
        self.dirty.insert(spot);
    }

    /// Reservation pods whose device nobody has a part of, and that may hold one all the same.
    pub(crate) fn lone(&self) -> impl Iterator<Item = (&SharedDevice, &Name)> {
        let unused = self.held.iter().filter(|(spot, _)| !self.users.contains_key(*spot));
        unused.flat_map(|(spot, list)| {
            let holding = list.iter().filter(|held| held.phase != Stage::Ended);
            holding.map(move |held| (spot, &held.pod))
        })
    }

    /// Reservations that may come into being although nobody needs them any more.
    pub(crate) fn phantoms(&self) -> impl Iterator<Item = &SharedDevice> {
        let holds = |held: &Held| held.phase != Stage::Ended;
        let is_held =
            move |spot: &&SharedDevice| self.held.get(*spot).into_iter().flatten().any(holds);
        let unused = self.making.keys().filter(|spot| !self.users.contains_key(*spot));
        unused.filter(move |spot| !is_held(spot))
    }

    /// How many devices of each node pods are to share that nothing holds yet, with those that are promised.
    pub(crate) fn unheld(
        &self,
        promised: impl Iterator<Item = SharedDevice>,
    ) -> BTreeMap<Box<str>, i128> {
        let spots: BTreeSet<SharedDevice> = self.users.keys().cloned().chain(promised).collect();
        let mut counts: BTreeMap<Box<str>, i128> = BTreeMap::new();
        let holds = |held: &Held| held.phase != Stage::Ended;
        let is_held = |spot: &SharedDevice| self.held.get(spot).into_iter().flatten().any(holds);
        for spot in spots.into_iter().filter(|spot| !is_held(spot)) {
            *counts.entry(spot.node).or_default() += 1;
        }
        counts
    }

    /// Devices of a node that a reservation of these identities holds, and which that is.
    pub(crate) fn spots_of<'a, T>(
        &'a self,
        node: &'a str,
        held: &'a BTreeMap<String, T>,
    ) -> impl Iterator<Item = (&'a SharedDevice, &'a T)> {
        let here = self.held.range(SharedDevice::new(node, "")..);
        let here = here.take_while(move |(spot, _)| &*spot.node == node);
        here.filter_map(|(spot, list)| {
            Some((spot, list.iter().find_map(|one| held.get(&one.uid))?))
        })
    }

    /// The names of all reservation pods, also of those that have ended.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.pods.keys()
    }

    /// Reservation pods that there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// When there is something to do though nothing changes.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        alarm.into_iter().chain(self.next_clear()).min()
    }
}

/// Whether a text may be the name of a device: a uuid, or a number.
fn is_device(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    !text.is_empty() && text.len() < LONGEST_DEVICE && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::name;

    #[test]
    fn a_reservation_that_has_ended_holds_nothing() {
        let (spot, mut known) = (SharedDevice::new("n", "group"), Reservations::default());
        let mut pod = Pod::default();
        pod.metadata.name = spot.pod();
        known.put(&pod, spot.clone());
        known.wait(&name("team", "a"), "uid", vec![spot.clone()], Timestamp::UNIX_EPOCH);
        assert!(known.unheld(std::iter::empty()).is_empty());
        pod.status.phase = Phase::Failed;
        known.put(&pod, spot);
        assert_eq!(known.unheld(std::iter::empty()), BTreeMap::from([("n".into(), 1)]));
    }

    #[test]
    fn names_of_devices_are_plain_and_short() {
        assert!(is_device("GPU-11111111-2222-3333-4444-555555555555") && is_device("3"));
        assert!(!is_device("") && !is_device("0,1") && !is_device(&"a".repeat(300)));
    }
}
