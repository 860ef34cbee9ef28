//! The controller of rank groups: it brings what it reads into the machine, and carries out what the machine wants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use muster_proto::delivery::Delivery;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::agent_report;
use super::error::GroupError;
use super::events as event;
use super::group::{RankGroup, Template};
use super::index::{Changes, Index};
use super::machine::{Effect, Surroundings, Transition};
use super::member::{GroupKey, Member};
use super::phase::{Moment, Phase};
use super::record::{Record, group_of};
use super::table_check::TableCheck;
use super::task::{self, Task, TaskResult};
use super::{Caches, Metrics, Settings, Shown};
use muster_hub::blob::Blob;
use muster_hub::{Hub, What};
use muster_runtime::events::EventKind;
use muster_runtime::reflector::is_newer;
use muster_runtime::{Context, Reconciler, Requeue, Wake, WatchSource};

/// After a reconcile comes a pause of so many times what it took: it looks at all members, and while many of them change at once,
/// each change is not worth a reconcile of its own.
const PAUSE: u32 = 4;

/// No reconcile is due sooner.
const SOON: Duration = Duration::from_millis(1);

/// Reconciles rank groups.
pub struct Controller {
    caches: Caches,
    settings: Settings,
    metrics: Metrics,
    shown: Shown,
    index: Arc<Mutex<Index>>,
}

/// A group, and when it is reconciled.
#[derive(Debug, Default)]
pub struct GroupState {
    group: Option<RankGroup>,
    /// The uid of each of its pods, by name.
    uids: HashMap<String, String>,
    /// It was reconciled a moment ago: not before this.
    paused_until: Option<Instant>,
    /// Whether it was reconciled, and nothing is to be done before something changes or it is due.
    idle: bool,
    /// When it is reconciled even if nothing changes.
    due: Option<Instant>,
}

/// What was carried out.
#[derive(Default)]
struct Carried {
    /// A task that is to be run next.
    task: Option<Task>,
    /// Whether the group is to be forgotten.
    forget: bool,
}

// === impl Controller ===

impl Reconciler for Controller {
    type Key = GroupKey;
    type State = GroupState;
    type Error = GroupError;

    const NAME: &'static str = "ranktable";
    const PARALLEL: usize = 32;

    fn watches(&self) -> Vec<WatchSource<GroupKey>> {
        self.shown.clear();
        let (index, pods) = (self.index.clone(), self.caches.pods.clone());
        let of_pods = WatchSource::objects(&self.caches.pods, move |pod| {
            let name = (pod.namespace.unwrap_or_default(), pod.name);
            let found = pods.named(&name.0, &name.1);
            let group = found.as_deref().and_then(GroupKey::of);
            let spec = found.as_deref().and_then(|pod| pod.spec.as_ref());
            let node = spec.and_then(|spec| spec.node_name.clone());
            Wake::Keys(index.lock().pod(name, group, node, Instant::now()))
        });
        let (index, records) = (self.index.clone(), self.caches.records.clone());
        let of_records = WatchSource::objects(&self.caches.records, move |map| {
            let namespace = map.namespace.unwrap_or_default();
            let key = match records.named(&namespace, &map.name) {
                Some(map) => group_of(&map),
                None => map
                    .name
                    .strip_suffix("-ranktable")
                    .map(|group| GroupKey { namespace, name: group.to_owned() }),
            };
            let keys: Vec<GroupKey> = key.into_iter().collect();
            keys.iter().for_each(|key| index.lock().record(key, Instant::now()));
            Wake::Keys(keys)
        });
        let index = self.index.clone();
        let of_templates = WatchSource::objects(self.caches.templates.maps(), move |_| {
            Wake::Keys(index.lock().all())
        });
        let index = self.index.clone();
        let of_agents =
            WatchSource::changes("Agents", self.caches.hub.subscribe(), move |changed| {
                Wake::Keys(index.lock().agent(&changed.node, changed.what, changed.at))
            });
        vec![of_pods, of_records, of_templates, of_agents]
    }

    fn keys(&self) -> Vec<GroupKey> {
        let (mut index, now) = (self.index.lock(), Instant::now());
        let pods = self.caches.pods.all();
        let gone = index.pods();
        for (namespace, name) in gone {
            if self.caches.pods.named(&namespace, &name).is_none() {
                index.pod((namespace, name), None, None, now);
            }
        }
        for pod in &pods {
            let name = |text: &Option<String>| text.clone().unwrap_or_default();
            let name = (name(&pod.metadata.namespace), name(&pod.metadata.name));
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            for key in index.pod(name.clone(), GroupKey::of(pod), node, now) {
                index.missed(&key, &name.1);
            }
        }
        for record in self.caches.records.all() {
            if let Some(key) = group_of(&record) {
                index.record(&key, now);
            }
        }
        index.changed()
    }

    async fn reconcile(
        &self,
        key: &GroupKey,
        state: &mut GroupState,
        context: &Context,
    ) -> Result<Requeue, GroupError> {
        let clock = context.now();
        if let Some(until) = state.paused_until.filter(|until| *until > clock) {
            return Ok(Requeue::After(until - clock));
        }
        if state.group.is_none() {
            self.begin(key, state, moment(context));
        }
        loop {
            let begun = moment(context);
            let news = self.take_changes(key, state, begun);
            let Some(group) = state.group.as_mut() else { return Ok(Requeue::Gone) };
            if !news && state.idle && state.due.is_none_or(|due| due > begun.clock) {
                return Ok(Requeue::after(state.due.map(|due| due - begun.clock)));
            }
            if let Some(until) = group.held_until.filter(|until| *until > begun.clock) {
                state.due = Some(until);
                return Ok(Requeue::After(until - begun.clock));
            }
            let transition = self.step(group, context, begun);
            let again = transition.again;
            let carried = self.carry_out(group, transition, context);
            if carried.forget {
                *state = GroupState::default();
                return Ok(Requeue::Gone);
            }
            state.idle = carried.task.is_none();
            let Some(task) = carried.task else {
                let now = context.now();
                state.paused_until = Some(now + (now - begun.clock) * PAUSE);
                state.due = again.map(|again| {
                    let wait = Duration::try_from(again.duration_since(begun.time));
                    begun.clock + wait.unwrap_or_default().max(SOON)
                });
                return Ok(Requeue::after(state.due.map(|due| due.saturating_duration_since(now))));
            };
            self.run(group, task, context).await?;
        }
    }
}

impl Controller {
    /// Of what is known of the cluster, and what it counts and shows.
    pub fn new(caches: Caches, settings: Settings, metrics: Metrics, shown: Shown) -> Self {
        Self { caches, settings, metrics, shown, index: Arc::default() }
    }

    /// A group is reconciled for the first time.
    fn begin(&self, key: &GroupKey, state: &mut GroupState, now: Moment) {
        let mut group = RankGroup::new(key.clone());
        // All is read anew: what has changed before does not matter.
        let (changed_at, pods) = {
            let mut index = self.index.lock();
            (index.take(key).changed_at, index.pods_of(key))
        };
        let known = self.caches.records.named(&key.namespace, &crate::names::record(&key.name));
        group.set_record(known.as_deref().map(Record::read), now.time);
        state.group = Some(group);
        for name in pods {
            self.take_pod(key, state, &name, changed_at.unwrap_or(now.clock));
        }
    }

    /// Brings what has changed into the group. Whether that is news.
    fn take_changes(&self, key: &GroupKey, state: &mut GroupState, now: Moment) -> bool {
        let changes = self.index.lock().take(key);
        let Changes { pods, reports, seen, tables, record, other, changed_at } = changes;
        let mut news = other || !pods.is_empty();
        for name in &pods {
            self.take_pod(key, state, name, changed_at.unwrap_or(now.clock));
        }
        let words = [(What::Pods, seen), (What::Inventory, reports), (What::Tables, tables)];
        for (what, names) in words {
            for name in names {
                let Some(uid) = state.uids.get(&name) else { continue };
                let Some(group) = state.group.as_mut() else { continue };
                if self.take_report(group, uid, what) {
                    group.changed_at = changed_at.or(group.changed_at);
                    news = true;
                }
            }
        }
        news | (record && self.take_record(state, now))
    }

    /// A pod has come, changed or gone.
    fn take_pod(&self, key: &GroupKey, state: &mut GroupState, name: &str, at: Instant) {
        let Some(group) = state.group.as_mut() else { return };
        let pod = self.caches.pods.named(&key.namespace, name);
        let pod = pod.as_deref().filter(|pod| GroupKey::of(pod).as_ref() == Some(key));
        let uid = pod.and_then(|pod| pod.metadata.uid.clone()).unwrap_or_default();
        if let Some(before) = state.uids.remove(name).filter(|before| *before != uid) {
            group.remove_member(&before);
        }
        let Some(pod) = pod else { return };
        let mut member = Member::of(key, pod);
        agent_report::refresh(&mut member, &self.caches.hub, self.settings.devices);
        state.uids.insert(name.to_owned(), uid);
        group.set_member(member, at);
    }

    /// An agent has said something of a pod. Whether that is news.
    fn take_report(&self, group: &mut RankGroup, uid: &str, what: What) -> bool {
        let hub = &self.caches.hub;
        let Some(member) = group.members.get_mut(uid) else { return false };
        let changed = match what {
            What::Tables => agent_report::refresh_table(member, hub),
            _ => agent_report::refresh(member, hub, self.settings.devices),
        };
        // The hub wants nothing for pods that its agent does not have: it may have forgotten this one.
        // Or it was not there when it should have been told.
        let lacks = what == What::Pods && group.lacks_table(uid);
        let forgotten = what == What::Pods && group.forget_sent(uid);
        changed || lacks || forgotten
    }

    /// The record has come, changed or gone. Our own write is most likely nothing new.
    fn take_record(&self, state: &mut GroupState, now: Moment) -> bool {
        let Some(group) = state.group.as_mut() else { return false };
        let name = crate::names::record(&group.key.name);
        let map = self.caches.records.named(&group.key.namespace, &name);
        let newer = match (&map, group.record()) {
            (Some(map), Some(known)) => {
                let version = map.metadata.resource_version.as_deref().unwrap_or_default();
                is_newer(version, &known.resource_version)
            }
            (None, None) => false,
            _ => true,
        };
        if newer {
            group.see_record(map.as_deref().map(Record::read), now);
        }
        newer
    }

    /// What comes next.
    fn step(&self, group: &mut RankGroup, context: &Context, now: Moment) -> Transition {
        let template: Template = match group.template() {
            Some(name) => self.caches.templates.get(name).map_err(|problem| problem.to_string()),
            None => Err(format!(
                "the pods name no template: add the annotation {}",
                crate::names::RANKTABLE_TEMPLATE[0]
            )),
        };
        let timeouts = &self.settings.timeouts;
        let epoch = context.writer.fence().epoch();
        group.reconcile(Surroundings { template: &template, timeouts, epoch }, now)
    }

    /// Runs a task, and those that follow at once.
    async fn run(
        &self,
        group: &mut RankGroup,
        task: Task,
        context: &Context,
    ) -> Result<(), GroupError> {
        let mut next = Some(task);
        while let Some(task) = next.take() {
            let (writer, hub) = (context.writer.clone(), self.caches.hub.clone());
            let result = task::run(group.key.clone(), task, writer, hub).await;
            if let (TaskResult::Published { record, .. }, Phase::Recording { table, .. }) =
                (&result, &group.phase)
            {
                let (generation, ranks) = (record.generation, table.composed.ranks);
                let digest = table.blob.digest();
                tracing::info!(group = %group.key, generation, ranks, %digest, "published");
            }
            let mut transition = group.task_ended(result, moment(context));
            let failed = transition.failed.take();
            next = self.carry_out(group, transition, context).task;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    fn carry_out(
        &self,
        group: &mut RankGroup,
        transition: Transition,
        context: &Context,
    ) -> Carried {
        let mut carried = Carried::default();
        for effect in transition.effects {
            match effect {
                Effect::Run(task) => carried.task = Some(*task),
                Effect::Send { blob, orders } => {
                    let uids = send(&self.caches.hub, &blob, orders);
                    let sent = group.table_sent(uids, moment(context));
                    self.carry_out(group, sent, context);
                }
                Effect::Event { warning, reason, note } => {
                    let note = format!("rank group {}: {note}", group.key.name);
                    context.events.record(EventKind::of(warning), group.subject(), reason, note);
                }
                Effect::Measure(measure) => self.metrics.add(measure),
                Effect::Show(status) => self.shown.set(&group.key, status.map(|status| *status)),
                Effect::Check(text) => check(group, text, context),
                Effect::Forget => carried.forget = true,
            }
        }
        carried
    }
}

fn moment(context: &Context) -> Moment {
    Moment { clock: context.now(), time: context.timestamp() }
}

/// Hands the table to the hub. The pods for which it was taken.
fn send(hub: &Hub, blob: &Arc<Blob>, orders: Vec<(String, Delivery)>) -> Vec<String> {
    let uids: Vec<_> = orders.iter().map(|(_, order)| order.place.pod_uid.clone()).collect();
    let orders = orders.iter().map(|(node, order)| (node.as_str(), order.clone()));
    let answers = hub.deliver_all(orders, blob);
    let taken = uids.into_iter().zip(answers).filter_map(|(uid, answer)| match answer {
        Ok(()) => Some(uid),
        // Its agent has not said yet that it has the pod; when it does, this is done again.
        Err(error) => {
            tracing::debug!(pod = uid, reason = error.reason(), "{error}");
            None
        }
    });
    taken.collect()
}

/// Looks at a table as its reader will, and reports what it will not like. The table is on its way already.
fn check(group: &RankGroup, text: Arc<str>, context: &Context) {
    let Some(check) = TableCheck::of(group, text) else { return };
    let (about, events) = (group.subject(), context.events.clone());
    let name = group.key.name.clone();
    context.environment.tasks.spawn(Box::pin(async move {
        let checked = tokio::task::spawn_blocking(move || check.run()).await;
        if let Ok(Some(note)) = checked {
            events.warning(about, event::INVALID, format!("rank group {name}: {note}"));
        }
    }));
}
