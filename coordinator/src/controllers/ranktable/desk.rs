//! All groups, and the one task that looks after them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::compose::Input;
use super::entry::Entry;
use super::feed::{Change, Feed, group_of};
use super::flight::{self, Landed, Task};
use super::group::{Step, Template};
use super::member::{GroupKey, Member};
use super::record::Record;
use super::{Outlets, Settings, Sources, metrics, vouch};
use crate::watch::is_newer;
use marked::Marked;
use muster_hub::What;

mod landing;
mod marked;
mod say;

/// How long a record without pods and without owners is kept.
const ORPHANED: Duration = Duration::from_secs(60);

/// Things that are under way at once, over all groups.
const MOST_FLIGHTS: usize = 32;

/// After a look at a group comes a pause of so many times what the look took: a look sees all members, and while many of
/// them say something at once, each one's word is not worth a look of its own.
const PAUSE: u32 = 4;

/// All groups.
struct Desk {
    sources: Sources,
    settings: Settings,
    outlets: Outlets,
    entries: HashMap<GroupKey, Entry>,
    /// The member that a pod is, by namespace and name.
    by_pod: HashMap<(String, String), (GroupKey, String)>,
    /// The members on a node.
    by_node: HashMap<String, HashSet<(GroupKey, String)>>,
    marked: Marked,
    flights: JoinSet<(GroupKey, Landed)>,
    alarms: BinaryHeap<Reverse<(Instant, GroupKey)>>,
}

/// Looks after all groups until it is stopped, or until this coordinator does not lead any more.
pub async fn run(sources: Sources, settings: Settings, outlets: Outlets, stop: CancellationToken) {
    let ready = async {
        sources.pods.ready().await;
        sources.records.ready().await;
        sources.templates.maps().ready().await;
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = ready => {}
    }
    let mut feed = Feed::new(&sources);
    let mut desk = Desk {
        sources,
        settings,
        outlets,
        entries: HashMap::new(),
        by_pod: HashMap::new(),
        by_node: HashMap::new(),
        marked: Marked::default(),
        flights: JoinSet::new(),
        alarms: BinaryHeap::new(),
    };
    desk.outlets.shown.clear();
    desk.take(Change::All);
    loop {
        desk.look_at_marked();
        let alarm = desk.alarms.peek().map(|Reverse((at, _))| *at);
        tokio::select! {
            () = stop.cancelled() => return,
            change = feed.next() => match change {
                Some(change) => desk.take(change),
                None => return,
            },
            Some(landed) = desk.flights.join_next() => if let Ok((key, landed)) = landed
                && !desk.land(&key, landed)
            {
                return;
            },
            () = at(alarm) => desk.ring(),
        }
        for change in feed.more() {
            desk.take(change);
        }
        while let Some(landed) = desk.flights.try_join_next() {
            if let Ok((key, landed)) = landed
                && !desk.land(&key, landed)
            {
                return;
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

// === impl Desk ===

impl Desk {
    fn take(&mut self, change: Change) {
        match change {
            Change::Pod(pod) => {
                let (namespace, name) =
                    (pod.namespace.clone().unwrap_or_default(), pod.name.clone());
                self.pod(namespace, name);
            }
            Change::Record(map) => {
                let namespace = map.namespace.clone().unwrap_or_default();
                self.record(&namespace, &map.name);
            }
            Change::Template => self.marked.extend(self.entries.keys().cloned()),
            Change::Node(changed) => self.node(&changed.node, changed.what, changed.at),
            Change::All => self.everything(),
        }
    }

    /// Something was missed.
    fn everything(&mut self) {
        let mut pods: HashSet<(String, String)> = self.by_pod.keys().cloned().collect();
        let name = |meta: &kube::core::ObjectMeta| {
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
        };
        pods.extend(self.sources.pods.all().iter().map(|pod| name(&pod.metadata)));
        for (namespace, name) in pods {
            self.pod(namespace, name);
        }
        let mut records: HashSet<(String, String)> =
            self.sources.records.all().iter().map(|record| name(&record.metadata)).collect();
        let recorded = self.entries.iter().filter(|(_, entry)| entry.group.record.is_some());
        records.extend(
            recorded.map(|(key, _)| (key.namespace.clone(), crate::names::record(&key.name))),
        );
        for (namespace, name) in records {
            self.record(&namespace, &name);
        }
        let nodes: Vec<String> = self.by_node.keys().cloned().collect();
        for node in nodes {
            self.node(&node, What::Pods, Instant::now());
        }
        self.marked.extend(self.entries.keys().cloned());
    }

    /// A pod has come, changed or gone.
    fn pod(&mut self, namespace: String, name: String) {
        let pod = self.sources.pods.named(&namespace, &name);
        let pod = pod.as_deref().and_then(|pod| Some((GroupKey::of(pod)?, pod)));
        let place = (namespace, name);
        if let Some((key, uid)) = self.by_pod.remove(&place) {
            let still = pod
                .as_ref()
                .is_some_and(|(now, pod)| *now == key && pod.metadata.uid.as_deref() == Some(&uid));
            if !still {
                self.leave(&key, &uid);
            }
        }
        let Some((key, pod)) = pod else { return };
        let mut member = Member::of(&key, pod);
        vouch::refresh(&mut member, &self.sources.hub, self.settings.truth);
        let uid = member.pod.uid.clone();
        self.by_pod.insert(place, (key.clone(), uid.clone()));
        if !member.pod.node.is_empty() {
            self.by_node
                .entry(member.pod.node.clone())
                .or_default()
                .insert((key.clone(), uid.clone()));
        }
        let records = &self.sources.records;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            let mut entry = Entry::new(key.clone());
            let known = records.named(&key.namespace, &crate::names::record(&key.name));
            entry.recorded(known.as_deref().map(Record::read), Timestamp::now());
            entry
        });
        if let Some(before) = entry.group.members.get(&uid) {
            member.remember(before);
        }
        if entry.group.members.insert(uid, member).is_none() {
            // Whatever has failed before, a pod that comes must not wait for it.
            entry.not_before = None;
        }
        entry.heard = Some(Instant::now());
        self.marked.insert(key);
    }

    fn leave(&mut self, key: &GroupKey, uid: &str) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(member) = entry.group.members.remove(uid)
            && let Some(there) = self.by_node.get_mut(&member.pod.node)
        {
            there.remove(&(key.clone(), uid.to_owned()));
            if there.is_empty() {
                self.by_node.remove(&member.pod.node);
            }
        }
        entry.handed.remove(uid);
        self.marked.insert(key.clone());
    }

    /// A record has come, changed or gone.
    fn record(&mut self, namespace: &str, name: &str) {
        let map = self.sources.records.named(namespace, name);
        let key = match map.as_deref() {
            Some(map) => group_of(map),
            None => name
                .strip_suffix("-ranktable")
                .map(|group| GroupKey { namespace: namespace.to_owned(), name: group.to_owned() }),
        };
        let Some(key) = key else { return };
        let entry = match (self.entries.get_mut(&key), &map) {
            (Some(entry), _) => entry,
            (None, Some(_)) => {
                self.entries.entry(key.clone()).or_insert_with(|| Entry::new(key.clone()))
            }
            (None, None) => return,
        };
        // What is under way may tell what is there when it lands.
        if entry.busy {
            entry.missed = true;
            return;
        }
        let newer = match (&map, &entry.group.record) {
            (Some(map), Some(known)) => {
                let version = map.metadata.resource_version.as_deref().unwrap_or_default();
                is_newer(version, &known.resource_version)
            }
            _ => true,
        };
        if newer {
            if map.is_none() {
                entry.lost(Instant::now());
            }
            entry.recorded(map.as_deref().map(Record::read), Timestamp::now());
            self.marked.insert(key);
        }
    }

    /// An agent has said something.
    fn node(&mut self, node: &str, what: What, at: Instant) {
        let Some(there) = self.by_node.get(node) else { return };
        for (key, uid) in there {
            let Some(entry) = self.entries.get_mut(key) else { continue };
            let Some(member) = entry.group.members.get_mut(uid) else { continue };
            let hub = &self.sources.hub;
            let changed = match what {
                // A thousand say so at once, and say nothing of their devices.
                What::Tables => vouch::reseat(member, hub),
                _ => vouch::refresh(member, hub, self.settings.truth),
            };
            // The hub wants nothing for pods that its agent does not have: it may have forgotten this one.
            // Or it was not there when it should have been told.
            let untold = what == What::Pods && entry.lacks(uid);
            let forgotten = (what == What::Pods && entry.handed.remove(uid)) || untold;
            if changed || forgotten {
                entry.heard = Some(at);
                self.marked.insert(key.clone());
            }
        }
    }

    /// Alarms that are due.
    fn ring(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, _))) = self.alarms.peek()
            && *at <= now
        {
            if let Some(Reverse((_, key))) = self.alarms.pop() {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.wake = None;
                }
                self.marked.insert(key);
            }
        }
    }

    fn wake(&mut self, key: &GroupKey, at: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.wake.is_none_or(|known| at < known) {
            entry.wake = Some(at);
            self.alarms.push(Reverse((at, key.clone())));
        }
    }

    /// Looks at the groups that were marked, as long as there is room for what is to be done; when something lands
    /// there is room again.
    fn look_at_marked(&mut self) {
        for _ in 0..self.marked.len() {
            if self.flights.len() >= MOST_FLIGHTS {
                return;
            }
            if let Some(key) = self.marked.pop() {
                self.look(&key);
            }
        }
    }

    /// Looks at a group, and begins what is to be done.
    fn look(&mut self, key: &GroupKey) {
        let (now, clock) = (Timestamp::now(), Instant::now());
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.busy {
            return;
        }
        let later = entry.not_before.max(entry.paused);
        if let Some(later) = later.filter(|later| *later > clock) {
            return self.wake(key, later);
        }
        let template: Template = match entry.group.template() {
            Some(name) => self.sources.templates.get(name).map_err(|problem| problem.to_string()),
            None => Err(format!(
                "the pods name no template: add the annotation {}",
                crate::names::RANKTABLE_TEMPLATE[0]
            )),
        };
        let patience = &self.settings.patience;
        let outlook = entry.group.outlook(&template, patience, now);
        let mut again = outlook.again;
        let waits = !outlook.verdict.ready && !matches!(outlook.step, Step::Compose { .. });
        match waits {
            true => drop(entry.group.lacking.get_or_insert(now)),
            false => entry.group.lacking = None,
        }
        if matches!(outlook.step, Step::Compose { .. }) {
            let since = *entry.complete.get_or_insert(entry.heard.unwrap_or(clock));
            self.outlets.metrics.took(metrics::WAIT, since.elapsed());
        }
        if entry.group.members.is_empty() {
            return self.empty(key, now);
        }
        let hub = &self.sources.hub;
        if outlook.step == Step::HandOut {
            let told = entry.hand_out(hub);
            if told > 0
                && let Some(published) = entry.published.take()
            {
                self.outlets.metrics.took(metrics::HAND_OUT, published.elapsed());
                let whole = entry.complete.map_or(published.elapsed(), |since| since.elapsed());
                self.outlets.metrics.handout.observe(whole.as_secs_f64());
            }
        }
        let standing = entry.standing(&outlook.step);
        let late = entry.is_late(patience, now);
        let delivering = standing.as_ref().is_some_and(|standing| !standing.is_complete());
        if delivering {
            let late = entry.late_at(patience).filter(|late| *late > now);
            again = [again, late].into_iter().flatten().min();
        }
        let conditions = entry.conditions(&outlook, standing.as_ref(), late, now);
        let epoch = self.outlets.writer.fence().epoch();
        let input = |entry: &Entry| {
            let template = template.clone().ok()?;
            let order = entry.group.order(&template);
            let topology = (order == muster_ranktable::Order::Topology)
                .then(|| vouch::topology(&entry.group, hub));
            let pods = entry.group.live().map(Member::seated).collect::<Option<Vec<_>>>()?;
            let record = entry.group.record.as_deref();
            let numbering = record.and_then(|record| record.numbering.clone());
            Some(Input { pods, template, changed: String::new(), numbering, order, topology })
        };
        let task = entry.task(outlook.step.clone(), &template, epoch, now, input);
        let task = task.or_else(|| {
            let mut news = entry.is_news(&outlook, &conditions);
            let settled = entry.settles_at(&outlook, delivering && !late);
            if let Some(settled) = settled.filter(|at| news && *at > now) {
                again = Some(again.map_or(settled, |again| again.min(settled)));
                news = false;
            }
            let record = entry.group.record.as_ref().filter(|_| news)?;
            let resource_version = record.resource_version.clone();
            Some(Task::Conditions { resource_version, conditions: conditions.clone() })
        });
        self.say(key, &outlook, standing.as_ref(), late, conditions);
        if let Some(task) = task {
            self.fly(key, task);
        }
        if let Some(again) = again {
            let wait = Duration::try_from(again.duration_since(now)).unwrap_or_default();
            self.wake(key, clock + wait.max(Duration::from_millis(1)));
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.paused = Some(Instant::now() + clock.elapsed() * PAUSE);
        }
    }

    /// A group without pods: its record goes with its owners, or after a while.
    fn empty(&mut self, key: &GroupKey, now: Timestamp) {
        self.outlets.shown.set(key, None);
        let Some(entry) = self.entries.get(key) else { return };
        let Some(record) = entry.group.record.clone().filter(|record| record.owners.is_empty())
        else {
            self.entries.remove(key);
            return;
        };
        let since = entry.group.lacking.unwrap_or(now);
        match since.checked_add(ORPHANED) {
            Ok(end) if end > now => {
                let wait = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                self.wake(key, Instant::now() + wait);
            }
            _ => self.fly(key, Task::Delete(record)),
        }
    }

    fn fly(&mut self, key: &GroupKey, task: Task) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.busy = true;
        let (writer, hub) = (self.outlets.writer.clone(), self.sources.hub.clone());
        let key = key.clone();
        self.flights.spawn(async move {
            let flight = std::panic::AssertUnwindSafe(flight::fly(key.clone(), task, writer, hub));
            // A defect with one group must not hold it for ever, nor hold up others.
            let landed = flight.catch_unwind().await.unwrap_or(Landed::Died);
            (key, landed)
        });
    }
}
