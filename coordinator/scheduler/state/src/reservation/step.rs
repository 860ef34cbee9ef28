//! What is to be done about shared devices now, and what has come of it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::Toleration;

use super::{Held, How, Refused, Reservations, Settings, SharedDevice, Stage, Try};
use crate::object::{Name, shown};
use crate::orders::{Bind, Outcome};

/// The first wait after a failure; it doubles.
const FIRST: SignedDuration = SignedDuration::from_millis(500);
/// One that was made and that the watch has not shown after this is made again.
const UNSEEN: SignedDuration = SignedDuration::from_secs(60);
/// A device whose reservations have ended so often is given up.
const REFUSALS: u32 = 3;
/// The longest.
const LONGEST: SignedDuration = SignedDuration::from_secs(10);

/// A reservation pod is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Make {
    /// The device.
    pub spot: SharedDevice,
    /// The pod's name.
    pub pod: Name,
    /// What it asks for one of.
    pub resource: String,
    /// Taints that it bears: those of the pod that it is made for.
    pub tolerations: Vec<Toleration>,
}

/// A reservation pod is to say which device it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotate {
    /// The pod.
    pub pod: Name,
    /// Its identity.
    pub uid: String,
    /// The device.
    pub device: String,
}

/// A pod is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The pod.
    pub pod: Name,
    /// Its identity.
    pub uid: String,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Steps {
    /// Reservation pods that are made.
    pub make: Vec<Make>,
    /// Reservation pods that say their device.
    pub mark: Vec<Annotate>,
    /// Reservation pods that nobody needs.
    pub release: Vec<Release>,
    /// Pods whose device is not held any more.
    pub lost: Vec<Release>,
    /// Pods without a node that lose the labels of a binding that nobody finished.
    pub clear: Vec<Release>,
    /// Pods that have their devices now.
    pub binds: Vec<Bind>,
    /// Pods that have waited too long, and why.
    pub given_up: Vec<(Name, String)>,
}

/// Devices of a pod: the group that shares each, and its name.
pub(crate) type Devices = Vec<(Box<str>, String)>;

/// What a look at what has changed comes to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Devices to be held, and for which pod.
    pub make: Vec<(SharedDevice, Option<Name>)>,
    pub mark: Vec<Annotate>,
    pub release: Vec<Release>,
    pub lost: Vec<Release>,
    pub clear: Vec<Release>,
    /// Pods that have their devices, by group.
    pub ready: Vec<(Name, Devices)>,
    /// Pods that do not get theirs: why, or none if they are not to get any.
    pub ended: Vec<(Name, String, Option<String>)>,
}

// === impl Refused ===

impl Refused {
    fn message(&self, spot: &SharedDevice, settings: &Settings) -> String {
        let (pod, node) = (shown(&super::pod_of(spot, settings)), &spot.node);
        let why = if self.why.is_empty() { "no reason given" } else { self.why.as_str() };
        format!(
            "reservation pod {pod} on {node} has ended {} times before it had a device ({why}): look at the kubelet and the device plugin of {node}",
            self.count
        )
    }
}

// === impl Try ===

impl Try {
    /// When it may be tried after a failure.
    pub(super) fn fail(&mut self, now: Timestamp) -> Timestamp {
        let at = later(now, self.tries);
        self.tries = self.tries.saturating_add(1);
        self.again = Some(at);
        at
    }

    /// Whether it is to be tried now; then it is being tried.
    pub(super) fn is_due(place: &mut Option<Self>, now: Timestamp) -> bool {
        match place {
            None => {
                *place = Some(Self::default());
                true
            }
            Some(known) if known.again.is_some_and(|at| at <= now) => {
                known.again = None;
                true
            }
            Some(_) => false,
        }
    }
}

/// When something is tried again that has failed so often before.
fn later(now: Timestamp, tries: u32) -> Timestamp {
    let wait = FIRST.saturating_mul(1 << tries.min(8)).min(LONGEST);
    now.saturating_add(wait).unwrap_or(now)
}

// === impl Reservations ===

impl Reservations {
    /// Looks at what has changed. `stands` says whether a pod may still get the devices that it waits for; `requested` whether
    /// another scheduler is about to use one; `is_idle` whether nobody is about to bind a pod.
    pub(crate) fn look(
        &mut self,
        settings: &Settings,
        now: Timestamp,
        stands: impl Fn(&Name, &str) -> bool,
        requested: impl Fn(&SharedDevice) -> bool,
        is_idle: impl Fn(&Name, &str) -> bool,
    ) -> Seen {
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, spot)) = self.alarms.pop_first() {
                self.dirty.insert(spot);
            }
        }
        let mut seen = Seen { clear: self.clear(now, is_idle), ..Seen::default() };
        while let Some(spot) = self.dirty.pop_first() {
            self.end_waiting(&spot, settings, now, &stands, &mut seen);
            self.look_at(&spot, settings, now, &requested, &mut seen);
        }
        seen
    }

    /// Pods that do not get the device that they wait for.
    fn end_waiting(
        &mut self,
        spot: &SharedDevice,
        settings: &Settings,
        now: Timestamp,
        stands: &impl Fn(&Name, &str) -> bool,
        seen: &mut Seen,
    ) {
        let gone =
            self.is_used(spot, |how| !matches!(how, How::Waiting(_))) && self.live(spot).is_none();
        for pod in self.users.get(spot).cloned().unwrap_or_default() {
            let Some(using) = self.uses.get(&pod) else { continue };
            let How::Waiting(since) = using.how else { continue };
            let until = since.saturating_add(settings.patience).unwrap_or(now);
            let why = if !stands(&pod, &using.uid) {
                None
            } else if gone {
                Some(format!("the reservation of device {} on {} is gone", spot.group, spot.node))
            } else if let Some(refused) = self.refused.get(spot).filter(|one| one.count >= REFUSALS)
            {
                Some(refused.message(spot, settings))
            } else if until <= now {
                Some(self.late(spot, settings))
            } else {
                self.alarms.insert((until, spot.clone()));
                continue;
            };
            seen.ended.push((pod.clone(), using.uid.clone(), why));
            self.forget(&pod);
        }
    }

    fn look_at(
        &mut self,
        spot: &SharedDevice,
        settings: &Settings,
        now: Timestamp,
        requested: &impl Fn(&SharedDevice) -> bool,
        seen: &mut Seen,
    ) {
        if let Some(refused) = self.refused.get_mut(spot) {
            refused.again.get_or_insert_with(|| later(now, refused.count));
        }
        let used = self.users.contains_key(spot) || requested(spot);
        for held in self.held.get_mut(spot).into_iter().flatten() {
            let Held { pod, uid, .. } = &*held;
            let (pod, uid) = (pod.clone(), uid.clone());
            // One that has ended is in the way of the next. One that was told to go may have heard it.
            let told = held.releasing.is_some();
            let unneeded =
                held.phase == Stage::Ended || (held.phase == Stage::Live && (!used || told));
            if unneeded {
                if Try::is_due(&mut held.releasing, now) {
                    seen.release.push(Release { pod, uid });
                }
                continue;
            }
            if held.phase == Stage::Live
                && held.device.is_none()
                && let Some(device) = held.found.clone()
                && Try::is_due(&mut held.marking, now)
            {
                seen.mark.push(Annotate { pod, uid, device });
            }
        }
        if let Some(device) = self.live(spot).map(|held| held.device.is_some()) {
            self.bare.remove(spot);
            // Whatever came of the last try would have been seen by now.
            if self.making.get(spot).is_some_and(|making| making.again.is_some_and(|at| at <= now))
            {
                self.making.remove(spot);
            }
            if device {
                self.ready(spot, seen);
            }
            return;
        }
        let (bound, sent) = (
            self.is_used(spot, |how| how == How::Bound),
            self.is_used(spot, |how| how == How::Sent),
        );
        if bound {
            self.lose(spot, settings, now, seen);
        } else {
            self.bare.remove(spot);
        }
        // A new reservation may get another device: not for those who were told of the old one.
        if bound || sent || self.held.contains_key(spot) {
            return;
        }
        let waiting = self.users.get(spot).and_then(|users| users.first().cloned());
        let unsure = self.making.get(spot).is_some_and(|making| making.unsure);
        if waiting.is_none() {
            self.refused.remove(spot);
        }
        if waiting.is_none() && !unsure {
            // What is being tried may still be done.
            let tried = self.making.get(spot).is_some_and(|making| making.again.is_some());
            if tried {
                self.making.remove(spot);
            }
            return;
        }
        if let Some(again) = self.refused.get(spot).and_then(|refused| refused.again)
            && again > now
        {
            self.alarms.insert((again, spot.clone()));
            return;
        }
        let mut making = self.making.get(spot).copied();
        if Try::is_due(&mut making, now) {
            seen.make.push((spot.clone(), waiting));
        }
        self.making.extend(making.map(|making| (spot.clone(), making)));
    }

    /// Pods that wait for this device, and have all of theirs now.
    fn ready(&mut self, spot: &SharedDevice, seen: &mut Seen) {
        for pod in self.users.get(spot).cloned().unwrap_or_default() {
            let Some(using) = self.uses.get(&pod) else { continue };
            if !matches!(using.how, How::Waiting(_)) || self.is_being_cleared(&pod) {
                continue;
            }
            let device =
                |spot: &SharedDevice| Some((spot.group.clone(), self.live(spot)?.device.clone()?));
            let Some(devices) = using.spots.iter().map(device).collect() else { continue };
            if let Some(using) = self.uses.get_mut(&pod) {
                using.how = How::Sent;
            }
            seen.ready.push((pod, devices));
        }
    }

    /// Pods run on a device that nothing holds any more: somebody else may get it. They go after a while.
    fn lose(&mut self, spot: &SharedDevice, settings: &Settings, now: Timestamp, seen: &mut Seen) {
        let since = *self.bare.entry(spot.clone()).or_insert(now);
        let until = since.saturating_add(settings.grace).unwrap_or(now);
        if until > now {
            self.alarms.insert((until, spot.clone()));
            return;
        }
        for pod in self.users.get(spot).into_iter().flatten() {
            let Some(using) = self.uses.get(pod) else { continue };
            if using.how != How::Bound || !using.ours {
                continue;
            }
            let known = self.lost.get(pod).filter(|(uid, _)| *uid == using.uid);
            let mut trying = known.map(|(_, trying)| *trying);
            if Try::is_due(&mut trying, now) {
                seen.lost.push(Release { pod: pod.clone(), uid: using.uid.clone() });
            }
            self.lost.extend(trying.map(|trying| (pod.clone(), (using.uid.clone(), trying))));
        }
    }

    /// The reservation of a device, if it is there to stay.
    fn live(&self, spot: &SharedDevice) -> Option<&Held> {
        let stays = |held: &&Held| held.phase == Stage::Live && held.releasing.is_none();
        let mut all = self.held.get(spot)?.iter().filter(stays);
        let first = all.next()?;
        if first.device.is_some() {
            return Some(first);
        }
        all.find(|held| held.device.is_some()).or(Some(first))
    }

    fn is_used(&self, spot: &SharedDevice, how: impl Fn(How) -> bool) -> bool {
        let users = self.users.get(spot).into_iter().flatten();
        users.filter_map(|pod| self.uses.get(pod)).any(|using| how(using.how))
    }

    /// Why a device was not there in time.
    fn late(&self, spot: &SharedDevice, settings: &Settings) -> String {
        let pod = shown(&super::pod_of(spot, settings));
        let (node, after) = (&spot.node, settings.patience.as_secs());
        match self.live(spot) {
            Some(held) => format!(
                "reservation pod {} on {node} has been given no device that the node's agent tells of after {after} s: look at that \
                 pod, and whether muster-agent runs on {node}",
                shown(&held.pod)
            ),
            None if self.held.contains_key(spot) => {
                format!("reservation pod {pod} of before has not left {node} after {after} s")
            }
            None => format!(
                "reservation pod {pod} could not be made after {after} s: see the coordinator's log, and whether namespace {} is there \
                 (deploy/coordinator/scheduler-defaults.yaml)",
                settings.namespace
            ),
        }
    }

    /// A reservation is not made after all.
    pub(crate) fn unmake(&mut self, spot: &SharedDevice) {
        self.making.remove(spot);
    }

    /// What came of making a reservation.
    pub(crate) fn made(&mut self, spot: &SharedDevice, outcome: &Outcome, now: Timestamp) {
        let Some(making) = self.making.get_mut(spot) else { return };
        // The one that was seen is of a try before.
        if making.seen && matches!(outcome, Outcome::Failed(_) | Outcome::Lost(_)) {
            self.making.remove(spot);
            self.dirty.insert(spot.clone());
            return;
        }
        match outcome {
            // The watch will show it; unless it was gone before anybody looked.
            Outcome::Done => {
                let until = now.saturating_add(UNSEEN).unwrap_or(now);
                (making.unsure, making.seen, making.again) = (true, false, Some(until));
                self.alarms.insert((until, spot.clone()));
                return;
            }
            // It may be done yet, whatever was seen of the tries before.
            Outcome::Unsure(_) => (making.unsure, making.seen) = (true, false),
            // A try before, of which nobody heard, may have been done all the same. Or one of the name is there, or is just leaving.
            Outcome::Failed(_) | Outcome::Lost(_) => {}
        }
        let at = making.fail(now);
        self.alarms.insert((at, spot.clone()));
        self.dirty.insert(spot.clone());
    }

    /// What came of writing down a reservation's device.
    pub(crate) fn marked(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        self.tried(pod, uid, outcome, now, |held| &mut held.marking);
    }

    /// What came of letting a reservation, or a pod that has lost its device, go.
    pub(crate) fn released(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        self.tried(pod, uid, outcome, now, |held| &mut held.releasing);
        let failed = matches!(outcome, Outcome::Failed(_) | Outcome::Unsure(_));
        let lost = self.lost.get_mut(pod).filter(|(known, _)| known == uid && failed);
        if let Some((_, trying)) = lost {
            let at = trying.fail(now);
            let spots: BTreeSet<SharedDevice> =
                self.uses.get(pod).into_iter().flat_map(|using| using.spots.clone()).collect();
            self.alarms.extend(spots.into_iter().map(|spot| (at, spot)));
        }
    }

    fn tried(
        &mut self,
        pod: &Name,
        uid: &str,
        outcome: &Outcome,
        now: Timestamp,
        of: impl Fn(&mut Held) -> &mut Option<Try>,
    ) {
        // What is done, and what cannot be, the watch will show.
        if !matches!(outcome, Outcome::Failed(_) | Outcome::Unsure(_)) {
            return;
        }
        let Some(spot) = self.pods.get(pod) else { return };
        let list = self.held.get_mut(spot).into_iter().flatten();
        for held in list.filter(|held| held.pod == *pod && held.uid == uid) {
            if let Some(trying) = of(held) {
                self.alarms.insert((trying.fail(now), spot.clone()));
            }
        }
    }
}
