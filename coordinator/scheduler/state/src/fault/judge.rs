//! What is to be done about pods that are affected by a fault.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Dialect, Phase, Pod, PodGroup};
use muster_scheduler::reason::Eviction;

use super::{
    ACTION, AGAIN, Bad, FEW, Group, Known, Note, Noted, Policy, Restart, SETTLED, Trouble,
};
use crate::cluster::Cluster;
use crate::names::FAULT_POLICY;
use crate::object::{self, Kind, Name, name_of, shown};
use crate::orders::{Cycle, Evict};

/// Pods that a message names.
const NAMED: usize = 3;

/// A pod that runs.
struct Member {
    pod: Name,
    uid: String,
    /// When it got its node; when it was made, if nobody says that.
    came: Option<Timestamp>,
    /// The policy that it names.
    says: Option<String>,
}

/// A pod that stands on something bad.
struct Struck {
    pod: Member,
    since: Timestamp,
    bad: Bad,
    what: String,
}

// === impl Cluster ===

impl Cluster {
    /// Orders what is to be done about faults.
    pub(crate) fn judge(&mut self, cycle: &mut Cycle, now: Timestamp) {
        let care = self.settings.faults;
        let is_cooling = |known: &Known| known.restart.is_cooling(now, care.cool_down);
        self.faults.restarts.retain(|_, known| known.restart.is_recent(now, care.cool_down));
        let faulted = self.faulted(now);
        let cooling = self.faults.restarts.iter().filter(|(_, known)| is_cooling(known));
        let groups: BTreeSet<Group> =
            faulted.keys().chain(cooling.map(|(group, _)| group)).cloned().collect();
        let members = self.members(&groups);
        self.meet(members.values().flatten(), now);
        let outage = self.outage();
        let mut troubles = BTreeMap::new();
        for group in groups {
            let faulted = faulted.get(&group).map(Vec::as_slice).unwrap_or_default();
            let members = members.get(&group).map(Vec::as_slice).unwrap_or_default();
            let Some(object) = self.pod_group(group.0, &group.1) else { continue };
            let (policy, uid) =
                (self.policy(object, faulted, members), object.metadata.uid.clone());
            let last = self.faults.restarts.get(&group).copied();
            let known = last.filter(is_cooling);
            let trouble = trouble(faulted, &policy, known.as_ref(), care.cool_down, outage);
            if let Some(trouble) = &trouble {
                troubles.insert(group.clone(), trouble.clone());
            }
            let Ok(policy @ (Policy::Evict | Policy::Gang)) = policy else { continue };
            match (known, trouble) {
                (Some(Known { noted: Noted::Done, restart }), _) => {
                    let lasting = |one: &&Struck| self.is_lasting(one, now);
                    let pods: Vec<&Member> = match policy {
                        Policy::Gang => members.iter().collect(),
                        _ if outage.is_some() => Vec::new(),
                        _ => faulted.iter().filter(lasting).map(|one| &one.pod).collect(),
                    };
                    self.end(cycle, &group, &restart, policy, &pods, now);
                }
                // Nobody has gone yet for one that could not be written.
                (None | Some(Known { noted: Noted::Again(_), .. }), Some(why))
                    // One that is still on its way would be written over the next.
                    if last.is_none_or(|last| last.noted != Noted::OnItsWay)
                        && outage.is_none()
                        && known.is_none_or(|known| known.may_begin(now))
                        && faulted.iter().any(|one| {
                            self.is_lasting(one, now) && self.is_settled(&one.pod, now)
                        }) =>
                {
                    let settled = members.iter().filter(|one| self.is_settled(one, now));
                    let newest = settled.filter_map(|one| one.came).max();
                    let up_to = newest.unwrap_or(Timestamp::MIN);
                    let count = last.map_or(1, |last| last.next());
                    let restart = Restart { at: now, up_to, count };
                    self.begin(cycle, Note { group, uid, restart, policy, why });
                }
                _ => {}
            }
        }
        self.faults.troubles = troubles;
    }

    /// Pods of ours that stand on something bad, by group.
    fn faulted(&mut self, now: Timestamp) -> BTreeMap<Group, Vec<Struck>> {
        let ours = &self.settings.config.params.scheduler_name;
        let faults = &self.faults;
        if faults.hits.is_empty() && faults.bad.is_empty() {
            self.faults.since.clear();
            return BTreeMap::new();
        }
        let (mut all, mut since) = (BTreeMap::<Group, Vec<Struck>>::new(), faults.since.clone());
        let (mut seen, mut used) = (BTreeSet::new(), BTreeSet::new());
        // A shared device is its reservation's: to the agent, nobody else holds it.
        let shared: BTreeMap<(&str, &Name), &String> = faults
            .hits
            .iter()
            .flat_map(|(node, pods)| {
                let users = self.reservations.users_of(node, pods);
                users.map(|(user, what)| ((node.as_str(), user), what))
            })
            .collect();
        for pod in self.input.pods.iter().filter(|pod| runs(pod)) {
            let (node, uid) = (pod.spec.node_name.as_str(), &pod.metadata.uid);
            let bad = faults.bad.get(node).copied();
            used.extend(bad.map(|_| node));
            let hit = faults.hits.get(node).and_then(|pods| pods.get(uid));
            let by_share = || shared.get(&(node, &name_of(&pod.metadata))).copied();
            let hit = hit.or_else(|| if shared.is_empty() { None } else { by_share() });
            let (bad, what) = match (hit, bad) {
                (Some(what), _) => (Bad::DeviceFaulty, what.clone()),
                (None, Some(bad)) => (bad, bad.to_string()),
                (None, None) => continue,
            };
            let Some((dialect, group)) = pod.group().filter(|_| pod.spec.scheduler_name == *ours)
            else {
                continue;
            };
            let group = (dialect, object::name(&pod.metadata.namespace, group));
            seen.insert(uid.clone());
            let one = Struck {
                pod: Member::of(pod),
                since: *since.entry(uid.clone()).or_insert(now),
                bad,
                what: format!("{what} (node {node})"),
            };
            all.entry(group).or_default().push(one);
        }
        since.retain(|uid, _| seen.contains(uid));
        let there: BTreeSet<String> = used.into_iter().map(str::to_owned).collect();
        self.faults.since = since;
        let nodes: BTreeSet<String> =
            self.faults.bad.keys().filter(|node| self.node(node).is_some()).cloned().collect();
        let used = there.iter().map(String::as_str).collect();
        self.faults.forget(|node| nodes.contains(node), &used);
        for list in all.values_mut() {
            list.sort_by(|a, b| (a.bad, &a.pod.pod).cmp(&(b.bad, &b.pod.pod)));
        }
        all
    }

    fn is_lasting(&self, faulted: &Struck, now: Timestamp) -> bool {
        let care = &self.settings.faults;
        let grace = match faulted.bad {
            Bad::DeviceFaulty => care.grace,
            Bad::NodeNotReady | Bad::NodeGone => care.grace.max(care.node_grace),
        };
        now.duration_since(faulted.since) >= grace
    }

    /// How many nodes are bad, and of how many, if that is most of them.
    fn outage(&self) -> Option<(usize, usize)> {
        let bad = self.faults.bad.len();
        let gone = self.faults.bad.keys().filter(|node| self.node(node).is_none()).count();
        let all = self.input.nodes.len() + gone;
        (bad > FEW && bad * 2 > all).then_some((bad, all))
    }

    fn is_settled(&self, pod: &Member, now: Timestamp) -> bool {
        let met = self.faults.met.get(&pod.uid);
        met.is_some_and(|met| now.duration_since(*met) >= SETTLED)
    }

    fn meet<'a>(&mut self, pods: impl Iterator<Item = &'a Member>, now: Timestamp) {
        let mut before = std::mem::take(&mut self.faults.met);
        let met = |pod: &Member| (pod.uid.clone(), before.remove(&pod.uid).unwrap_or(now));
        self.faults.met = pods.map(met).collect();
    }

    /// What its pods say, else the group, else its queue or one above that, else what holds for all. Words that mean nothing
    /// are told, and nobody is evicted for them.
    fn policy(
        &self,
        group: &PodGroup,
        faulted: &[Struck],
        members: &[Member],
    ) -> Result<Policy, String> {
        let meta = &group.metadata;
        let read = |what: String, text: &str| {
            text.parse::<Policy>()
                .map_err(|why| format!("annotation {FAULT_POLICY} of {what}: {why}"))
        };
        let mut pods = faulted.iter().map(|one| &one.pod).chain(members);
        if let Some((pod, text)) = pods.find_map(|one| Some((&one.pod, one.says.as_deref()?))) {
            return read(format!("pod {}", shown(pod)), text);
        }
        if let Some(text) = meta.annotations.get(FAULT_POLICY) {
            return read(format!("pod group {}", shown(&name_of(meta))), text);
        }
        let (mut queue, mut seen) = (queue_of(group), BTreeSet::new());
        while let Some(known) = self.queue(queue).filter(|_| seen.insert(queue)) {
            if let Some(text) = known.metadata.annotations.get(FAULT_POLICY) {
                return read(format!("queue {queue}"), text);
            }
            queue = &known.spec.parent_queue;
        }
        Ok(self.settings.faults.policy)
    }

    /// Pods with a node of these groups.
    fn members(&self, groups: &BTreeSet<Group>) -> BTreeMap<Group, Vec<Member>> {
        let mut all: BTreeMap<Group, Vec<Member>> = BTreeMap::new();
        if groups.is_empty() {
            return all;
        }
        let names: BTreeMap<(Dialect, &str, &str), &Group> =
            groups.iter().map(|group| ((group.0, &*group.1.0, &*group.1.1), group)).collect();
        for pod in self.input.pods.iter().filter(|pod| runs(pod)) {
            let Some((dialect, group)) = pod.group() else { continue };
            let key = (dialect, pod.metadata.namespace.as_str(), group);
            if let Some(group) = names.get(&key) {
                all.entry((*group).clone()).or_default().push(Member::of(pod));
            }
        }
        all
    }

    fn begin(&mut self, cycle: &mut Cycle, note: Note) {
        let known = Known { restart: note.restart, noted: Noted::OnItsWay };
        self.faults.restarts.insert(note.group.clone(), known);
        cycle.notes.push(note);
    }

    /// Pods go that a restart is about and that are still there.
    fn end(
        &mut self,
        cycle: &mut Cycle,
        group: &Group,
        restart: &Restart,
        policy: Policy,
        pods: &[&Member],
        now: Timestamp,
    ) {
        let going: BTreeSet<Name> = cycle.evictions.iter().map(|one| one.pod.clone()).collect();
        let again = now.saturating_add(AGAIN).unwrap_or(now);
        for Member { pod, uid, came, .. } in pods {
            let asked = self.faults.asked.get(pod);
            let waits = asked.is_some_and(|(of, again)| of == uid && *again > now);
            if waits || going.contains(pod) || !restart.covers(*came) {
                continue;
            }
            self.faults.asked.insert(pod.clone(), (uid.clone(), again));
            let why = Eviction {
                action: ACTION,
                beneficiary: None,
                lawful: format!("fault policy {} of {}", policy.word(), shown(&group.1)),
                freed: Default::default(),
                moved: false,
            };
            cycle.evictions.push(Evict { pod: pod.clone(), uid: uid.clone(), why });
        }
    }

    fn queue(&self, name: &str) -> Option<&muster_scheduler::input::Queue> {
        self.others.get(&self.input.queues, &(Kind::Queue, object::name("", name)))
    }
}

/// Whether a pod has a node, and stays.
fn runs(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && !matches!(pod.status.phase, Phase::Succeeded | Phase::Failed)
}

// === impl Known ===

impl Known {
    /// Whether it is to be written anew.
    fn may_begin(&self, now: Timestamp) -> bool {
        matches!(self.noted, Noted::Again(at) if at <= now)
    }

    /// Which one in a row the next is. One that could not be written is none.
    fn next(&self) -> u32 {
        let count = self.restart.count;
        if self.noted == Noted::Done { count.saturating_add(1) } else { count }
    }
}

// === impl Member ===

impl Member {
    fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            pod: name_of(meta),
            uid: meta.uid.clone(),
            came: pod.status.scheduled.max(meta.creation_timestamp),
            says: meta.annotations.get(FAULT_POLICY).map(str::to_owned),
        }
    }
}

fn queue_of(group: &PodGroup) -> &str {
    match group.spec.queue.as_str() {
        "" => group.metadata.labels.get("kai.scheduler/queue").unwrap_or_default(),
        named => named,
    }
}

/// What is said of pods that are affected by a fault; they are sorted.
fn trouble(
    faulted: &[Struck],
    policy: &Result<Policy, String>,
    known: Option<&Known>,
    cool_down: SignedDuration,
    outage: Option<(usize, usize)>,
) -> Option<Trouble> {
    let first = faulted.first()?;
    let named =
        faulted.iter().take(NAMED).map(|one| format!("pod {}: {}", one.pod.pod.1, one.what));
    let named: Vec<String> = named.collect();
    let more = match faulted.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} pods more"),
    };
    let mut then = match policy {
        Ok(Policy::None) => "the fault policy is none: nothing is done".to_owned(),
        Ok(Policy::Evict) => "the fault policy is evict: these pods are replaced".to_owned(),
        Ok(Policy::Gang) => "the fault policy is gang: all pods are replaced".to_owned(),
        Err(why) => format!("{why}; nothing is done"),
    };
    let came_since = |one: &Struck| known.is_some_and(|known| !known.restart.covers(one.pod.came));
    if let Some(known) = known.filter(|_| faulted.iter().any(came_since))
        && let Ok(until) = known.restart.at.checked_add(known.restart.rest(cool_down))
    {
        let Restart { at, count, .. } = known.restart;
        then.push_str(&format!("; those that came since {at} stay until {until}"));
        if count > 1 {
            then.push_str(&format!(" (restart {count} in a row)"));
        }
    }
    if let Some((bad, all)) = outage.filter(|_| !matches!(policy, Ok(Policy::None) | Err(_))) {
        then.push_str(&format!("; not now: {bad} of {all} nodes are not ready or gone"));
    }
    Some(Trouble { bad: first.bad, message: format!("{}{more}. {then}", named.join("; ")) })
}
