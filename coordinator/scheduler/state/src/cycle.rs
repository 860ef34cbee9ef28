//! One cycle: what is known, with what is as good as done, decided on; and what is to be done now.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_scheduler::decisions::{Action, Decision, Decisions};
use muster_scheduler::input::Pod;
use muster_scheduler::plugin::proportion::over_capacity;
use muster_scheduler::reason::{Eviction, Reason};
use muster_scheduler::snapshot::{Overlay, Snapshot};

use crate::cluster::Cluster;
use crate::nomination::Nomination;
use crate::object::{self, Name, borrowed};
use crate::orders::{Bind, Cycle, Evict};
use crate::reservation::SharedDevice;
use crate::{room, sharing};

/// A group whose nomination comes true.
#[derive(Default)]
struct Due {
    pods: Vec<Name>,
    /// Those that can go out at once; the others wait for a device that is held for them.
    binds: Vec<Bind>,
}

// === impl Cluster ===

impl Cluster {
    /// Runs a cycle: what it orders is as good as done from now on.
    pub fn cycle(&mut self, now: Timestamp) -> Cycle {
        self.in_flight.wake(now);
        self.recall();
        let due = self.keep_nominations(now);
        let binds = self.within_queues(due, now);
        let (decisions, panics) = self.decide(now);
        let mut cycle = Cycle { binds, decisions, panics, ..Cycle::default() };
        self.obey(&mut cycle, now);
        self.judge(&mut cycle, now);
        cycle
    }

    /// Bindings that are to be tried again by now.
    pub fn due(&mut self, now: Timestamp) -> Vec<Bind> {
        self.recall();
        self.in_flight.due(now)
    }

    /// Pods that were to go to a node that has vanished are decided on anew.
    fn recall(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let mut in_flight = std::mem::take(&mut self.in_flight);
        let recalled = in_flight.recall(|node| self.node(node).is_some());
        self.in_flight = in_flight;
        for pod in recalled {
            self.reservations.forget(&pod);
        }
    }

    /// When something is to be done though nothing changes.
    pub fn next(&self) -> Option<Timestamp> {
        let pauses = self.set_aside.next();
        [self.in_flight.next(), self.nominations.next(), self.reservations.next(), pauses]
            .into_iter()
            .flatten()
            .min()
    }

    /// The cluster as decisions see it: with what is as good as done.
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        self.snapshot_without(&BTreeSet::new(), now)
    }

    /// What was ordered and the watch has not shown yet.
    pub(crate) fn overlay(&self) -> Overlay<'_> {
        let places = self.in_flight.places().chain(self.nominations.places());
        Overlay {
            reserved: self.reserved(),
            leaving: self.nominations.leaving().map(borrowed).collect(),
            held_out: self.in_flight.resting().map(|(pod, _)| borrowed(pod)).collect(),
            unread: BTreeSet::new(),
            in_flight: places.map(|(pod, place)| (borrowed(pod), place)).collect(),
        }
    }

    /// Drops nominations that do not stand any more. Those whose last pod has left, with room on their nodes, are as
    /// good as bound from now on.
    fn keep_nominations(&mut self, now: Timestamp) -> Vec<Due> {
        if self.nominations.is_empty() {
            return Vec::new();
        }
        let mut nominations = std::mem::take(&mut self.nominations);
        nominations.fall(now, |nomination| self.stands(nomination));
        let has_left =
            |pod: &Name, uid: &str| self.pod(pod).is_none_or(|pod| pod.metadata.uid != uid);
        let due = nominations.due(has_left, |nomination| self.is_held_back(nomination));
        self.nominations = nominations;
        let mut groups = Vec::new();
        for nomination in due {
            if !self.has_room(&nomination) {
                continue;
            }
            let mut group = Due::default();
            for (pod, place) in nomination.places {
                group.pods.push(pod.clone());
                let bind = Bind {
                    pod,
                    uid: place.uid,
                    node: place.node,
                    gpu_groups: place.gpu_groups,
                    share: None,
                    annotations: place.annotations,
                    attempt: 0,
                };
                self.in_flight.begin(bind.clone());
                group.binds.extend(self.hold_for(bind, now));
            }
            groups.push(group);
        }
        groups
    }

    /// Calls back those groups that their queues have no room for any more: they are decided on anew. The bindings of
    /// the others.
    fn within_queues(&mut self, groups: Vec<Due>, now: Timestamp) -> Vec<Bind> {
        if groups.is_empty() {
            return Vec::new();
        }
        let names = |group: &Due| group.pods.iter().map(object::shown).collect();
        let names: Vec<Vec<String>> = groups.iter().map(names).collect();
        let refused = over_capacity(&self.snapshot(now), &self.settings.config, &names);
        let mut binds = Vec::new();
        for (group, refusal) in groups.into_iter().zip(refused) {
            if refusal.is_none() {
                binds.extend(group.binds);
                continue;
            }
            for pod in &group.pods {
                self.in_flight.end(pod);
                self.reservations.forget(pod);
            }
        }
        binds
    }

    /// Whether the group and its nodes are still as they were.
    fn stands(&self, nomination: &Nomination) -> bool {
        nomination.places.iter().all(|(name, place)| {
            let pod = self.pod(name).filter(|pod| pod.metadata.uid == place.uid);
            let waits = pod.is_some_and(|pod| {
                pod.spec.node_name.is_empty() && pod.metadata.deletion_timestamp.is_none()
            });
            waits && self.node(&place.node).is_some_and(|node| !node.spec.unschedulable)
        })
    }

    /// Whether what has left is really room: somebody else may have taken it.
    fn has_room(&self, nomination: &Nomination) -> bool {
        let places = nomination.places.values();
        let promised = places.flat_map(|place| {
            place.gpu_groups.iter().map(|group| SharedDevice::new(&place.node, group))
        });
        let unheld = self.reservations.unheld(promised);
        room::fits(&self.input, &self.in_flight, nomination, &unheld)
            && room::parts_fit(&self.input, &self.in_flight, nomination)
    }

    /// Notes what was decided, as done.
    fn obey(&mut self, cycle: &mut Cycle, now: Timestamp) {
        for (group, marks) in &cycle.decisions.marks {
            self.mark(&object::read(group), marks);
        }
        let postponed = self.postponed(&cycle.decisions);
        let mut untold = Vec::new();
        for decision in &cycle.decisions.decisions {
            let pod = object::read(&decision.pod);
            let Some(known) = self.pods.get(&self.input.pods, &pod) else { continue };
            let uid = known.metadata.uid.clone();
            match decision.action {
                // The rest of a group waits with it.
                Action::Bind if self.is_nominated(known) => {}
                Action::Bind => match sharing::obstacle(known, decision) {
                    Some(why) => untold.extend(group_of(known).map(|group| (group, why))),
                    None => {
                        let bind = bind(pod, uid, decision);
                        self.in_flight.begin(bind.clone());
                        cycle.binds.extend(self.hold_for(bind, now));
                    }
                },
                // What is on its way cannot be called back; what was promised can.
                Action::Evict if known.spec.node_name.is_empty() => self.nominations.lost(&pod),
                Action::Evict => {
                    let why = decision.eviction.clone();
                    let waits = |why: &Eviction| {
                        why.beneficiary.as_ref().is_some_and(|group| postponed.contains(group))
                    };
                    if let Some(why) = why.filter(|why| !waits(why)) {
                        cycle.evictions.push(Evict { pod, uid, why });
                    }
                }
                Action::Pipeline => {}
            }
        }
        for why in cycle.decisions.reasons.values_mut() {
            if why.reason == Reason::MissingDeviceClaim {
                why.message = sharing::UNCLAIMED.to_owned();
            }
        }
        untold.extend(self.given_up());
        for (group, why) in untold {
            cycle.decisions.reasons.insert(group, why);
        }
        let (list, pods) = (&self.input.pods, &self.pods);
        let group_of = |pod: &Name| group_of(pods.get(list, pod)?);
        let uid_of = |pod: &Name| Some(pods.get(list, pod)?.metadata.uid.clone());
        self.nominations.make(
            &cycle.decisions,
            &postponed,
            group_of,
            uid_of,
            self.settings.nomination,
            now,
        );
    }

    fn is_nominated(&self, pod: &Pod) -> bool {
        group_of(pod).is_some_and(|group| self.nominations.of(&group).is_some())
    }

    /// Groups for whom a pod would have to go that is still on its way: they are looked at again when it has arrived.
    fn postponed(&self, decisions: &Decisions) -> BTreeSet<String> {
        let on_its_way = |decision: &&Decision| {
            let pod = object::read(&decision.pod);
            self.pod(&pod).is_some_and(|known| known.spec.node_name.is_empty())
        };
        let evictions = decisions.decisions.iter().filter(|one| one.action == Action::Evict);
        let beneficiary = |one: &Decision| one.eviction.as_ref()?.beneficiary.clone();
        evictions.filter(on_its_way).filter_map(beneficiary).collect()
    }
}

/// The group of a pod, as decisions write it.
pub(crate) fn group_of(pod: &Pod) -> Option<String> {
    let (_, group) = pod.group()?;
    Some(format!("{}/{group}", pod.metadata.namespace))
}

fn bind(pod: Name, uid: String, decision: &Decision) -> Bind {
    Bind {
        pod,
        uid,
        node: decision.node.clone(),
        gpu_groups: decision.gpu_groups.clone(),
        share: None,
        annotations: decision.annotations.clone(),
        attempt: 0,
    }
}
