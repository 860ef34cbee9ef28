//! Writes how groups, pods and queues are: conditions when they change, events when a reason does, sums now and then.
//!
//! All of it can wait: few writes at once, so that bindings do not wait for words. Nothing is lost with it, since each pass says
//! what is so.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::core::{ApiResource, GroupVersionKind};
use muster_scheduler::decisions::Decisions;
use muster_scheduler::input::{Dialect, GroupCondition};
use muster_scheduler::simulate;
use muster_scheduler_state::Cluster;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::status::{self, Amounts, GroupStatus, QueueStatus};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Context;
use super::health::{HEALTHY, PARTLY_IGNORED, SPEC_VALID, health, spec};

/// The condition of a group.
pub const SCHEDULABLE: &str = "Schedulable";
/// A group waits for nothing.
pub const PLACED: &str = "Placed";
/// Event of a group that has fewer pods than it needs, as KAI calls it.
pub const NOT_READY: &str = "NotReady";
/// The reason of that.
const NOT_ENOUGH_PODS: &str = "NotEnoughPods";
/// Writes at once.
const WRITES: usize = 4;
/// Sums and numbers of the same reason are written this far apart.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
/// A pass over all groups, at most this often.
const PASS: Duration = Duration::from_millis(200);
/// Pods of one group that are told apart; the group tells the rest.
const PODS: usize = 64;

/// What has been reported.
pub struct StatusWriter {
    context: Context,
    permits: Arc<Semaphore>,
    groups: HashMap<Name, Reported<GroupStatus>>,
    queues: HashMap<String, Reported<QueueStatus>>,
    pods: HashMap<Name, Unplaced>,
    last: Option<Instant>,
    /// There is more to write than there was time for.
    pending: bool,
}

/// What was last reported of a pod that waits.
struct Unplaced {
    uid: String,
    reason: String,
    /// Since when it has been reported to wait, for whatever reason.
    since: Timestamp,
}

struct Reported<T> {
    what: T,
    at: Instant,
}

// === impl StatusWriter ===

impl StatusWriter {
    /// Nothing has been reported yet.
    pub fn new(context: Context) -> Self {
        Self {
            context,
            permits: Arc::new(Semaphore::new(WRITES)),
            groups: HashMap::new(),
            queues: HashMap::new(),
            pods: HashMap::new(),
            last: None,
            pending: false,
        }
    }

    /// Says what has changed with a cycle.
    pub fn write_changes(&mut self, cluster: &Cluster, decisions: &Decisions, now: Timestamp) {
        if self.last.is_some_and(|last| last.elapsed() < PASS) {
            self.pending = true;
            return;
        }
        (self.last, self.pending) = (Some(Instant::now()), false);
        let groups = status::groups(cluster, decisions);
        let queues = status::queues(cluster, decisions, &groups);
        self.context.metrics.queues().set(&cluster.input().queues, &queues);
        self.groups.retain(|group, _| groups.contains_key(group));
        self.queues.retain(|queue, _| queues.contains_key(queue));
        self.pods.retain(|pod, reported| {
            cluster.pod(pod).is_some_and(|known| known.metadata.uid == reported.uid)
        });
        for (queue, status) in queues {
            if is_news(self.queues.get(&queue), &status, |_, _| false) {
                self.write_queue(
                    &queue,
                    &status,
                    self.queues.get(&queue).map(|reported| &reported.what),
                );
                self.queues.insert(queue, Reported { what: status, at: Instant::now() });
            }
        }
        for (group, status) in groups {
            let urgent = |one: &GroupStatus, other: &GroupStatus| word(one) != word(other);
            if is_news(self.groups.get(&group), &status, urgent) {
                let before = self.groups.get(&group).map(|reported| reported.what.clone());
                self.write_group(cluster, &group, &status, before.as_ref(), now);
                self.groups.insert(group, Reported { what: status, at: Instant::now() });
            }
        }
    }

    /// Groups keep their timestamps for the leader to come.
    pub fn mark(&self, decisions: &Decisions) {
        for (group, marks) in &decisions.marks {
            let change = json!({"metadata": {"annotations": {
                simulate::LAST_START: marks.last_start,
                simulate::LAST_EVICTION: marks.last_eviction,
                simulate::STALE: marks.stale_since,
            }}});
            let name = muster_scheduler_state::object::read(group);
            let (context, permits) = (self.context.clone(), self.permits.clone());
            tokio::spawn(async move {
                let Ok(_permit) = permits.acquire_owned().await else { return };
                let api = context.writer.dynamic(&pod_groups(), Some(&name.0));
                if let Err(error) = context.writer.merge(&api, &name.1, &change).await {
                    let object = shown(&name);
                    tracing::debug!(kind = "PodGroup", object, reason = error.reason(), "{error}");
                }
            });
        }
    }

    /// When there is more to write; none if there is not.
    pub fn next(&self) -> Option<Instant> {
        self.last.filter(|_| self.pending).map(|last| last + PASS)
    }

    fn write_group(
        &mut self,
        cluster: &Cluster,
        group: &Name,
        status: &GroupStatus,
        before: Option<&GroupStatus>,
        now: Timestamp,
    ) {
        let Some(object) = cluster.pod_group(Dialect::Kai, group) else { return };
        let now = whole(now);
        let written = object.status.conditions.iter().find(|one| one.kind == SCHEDULABLE);
        let (condition, changed) = condition(written, status, now);
        let told = object.status.conditions.iter().find(|one| one.kind == HEALTHY);
        let (healthy, faulted) = health(told, status, now);
        let told = object.status.conditions.iter().find(|one| one.kind == SPEC_VALID);
        let (valid, ignored) = spec(told, status, now);
        let conditions: Vec<Value> = object
            .status
            .conditions
            .iter()
            .filter(|one| ![SCHEDULABLE, HEALTHY, SPEC_VALID].contains(&one.kind.as_str()))
            .chain(condition.as_ref())
            .chain(healthy.as_ref())
            .chain(valid.as_ref())
            .map(json_of)
            .collect();
        let (asked, has) = (&status.requested, &status.allocated);
        let were = before.map(|before| [&before.requested, &before.allocated]);
        let were = || were.into_iter().flatten().chain([asked]);
        let staying = Amounts::new();
        let stays = if status.stays { has } else { &staying };
        let patch = json!({"status": {
        "conditions": conditions,
        "schedulingConditions": kai_conditions(status, now),
        "resourcesStatus": {
            "requested": written_as(asked, were()),
            "allocated": written_as(has, were()),
            "allocatedNonPreemptible": written_as(stays, were()),
        }}});
        let about = ObjectReference {
            api_version: Some("scheduling.run.ai/v2alpha2".to_owned()),
            kind: Some("PodGroup".to_owned()),
            namespace: Some(group.0.to_string()),
            name: Some(group.1.to_string()),
            uid: Some(object.metadata.uid.clone()),
            ..ObjectReference::default()
        };
        let waits = status.reason.clone().filter(|_| changed);
        let remarks = (ignored && !status.remarks.is_empty())
            .then(|| (PARTLY_IGNORED.to_owned(), status.remarks.join("; ")));
        let trouble = status.trouble.clone().filter(|_| faulted);
        let events = waits.into_iter().chain(trouble).chain(remarks);
        let events = events.map(|why| (about.clone(), why)).collect();
        self.write(pod_groups(), group, vec![patch], events);
        if object.spec.mark_unschedulable != Some(false) {
            self.write_pods(cluster, status, now);
        }
    }

    /// Writes on pods that wait why they do, once for each reason.
    fn write_pods(&mut self, cluster: &Cluster, status: &GroupStatus, now: Timestamp) {
        let Some((reason, message)) = &status.reason else { return };
        for name in status.waiting.iter().take(PODS) {
            let Some(pod) = cluster.pod(name) else { continue };
            let uid = &pod.metadata.uid;
            let reported = self.pods.get(name).filter(|reported| reported.uid == *uid);
            if reported.is_some_and(|reported| reported.reason == *reason) {
                continue;
            }
            // It has not become another condition by having another reason.
            let since = reported.map_or(now, |reported| reported.since);
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(name.0.to_string()),
                name: Some(name.1.to_string()),
                uid: Some(pod.metadata.uid.clone()),
                ..ObjectReference::default()
            };
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": format!("{reason}: {message}"), "lastTransitionTime": since}]}});
            let reported = Unplaced { uid: uid.clone(), reason: reason.clone(), since };
            self.pods.insert(name.clone(), reported);
            let (context, permits) = (self.context.clone(), self.permits.clone());
            let (name, note) = (name.clone(), format!("{reason}: {message}"));
            tokio::spawn(async move {
                let Ok(_permit) = permits.acquire_owned().await else { return };
                let api = context.writer.namespaced::<Pod>(&name.0);
                match context.writer.strategic_status(&api, &name.1, &patch).await {
                    // It was given a node while this was on its way, which must not be what is written last.
                    Ok(pod) if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) => {
                        let placed = json!({"metadata": {"uid": about.uid}, "status": {"conditions": [{
                            "type": "PodScheduled", "status": "True", "reason": null, "message": null,
                            "lastTransitionTime": since}]}});
                        if let Err(error) =
                            context.writer.strategic_status(&api, &name.1, &placed).await
                        {
                            tracing::debug!(reason = error.reason(), "{error}");
                        }
                    }
                    Ok(_) => context.events.warning(&about, "Unschedulable", note).await,
                    Err(error) => tracing::debug!(reason = error.reason(), "{error}"),
                }
            });
        }
    }

    fn write_queue(&self, queue: &str, status: &QueueStatus, before: Option<&QueueStatus>) {
        let asked = &status.requested;
        let were = before.map(|before| [&before.requested, &before.allocated]);
        let were = || were.into_iter().flatten().chain([asked]);
        let patch = json!({"status": {
            "childQueues": status.children,
            "requested": written_as(asked, were()),
            "allocated": written_as(&status.allocated, were()),
            "allocatedNonPreemptible": written_as(&status.allocated_staying, were()),
            "fairShare": fair_share(status, before),
        }});
        // What a leader before has written is not known, and not all of it may be so any more.
        let unsaid = json!({"status": {"requested": null, "allocated": null, "allocatedNonPreemptible": null,
            "fairShare": null}});
        let patches = before.is_none().then_some(unsaid).into_iter().chain([patch]).collect();
        let name = muster_scheduler_state::object::name("", queue);
        self.write(
            resource("scheduling.run.ai", "v2", "Queue", "queues"),
            &name,
            patches,
            Vec::new(),
        );
    }

    fn write(
        &self,
        resource: ApiResource,
        name: &Name,
        patches: Vec<Value>,
        events: Vec<(ObjectReference, (String, String))>,
    ) {
        let (context, permits, name) = (self.context.clone(), self.permits.clone(), name.clone());
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let namespace = (!name.0.is_empty()).then_some(&*name.0);
            let api = context.writer.dynamic(&resource, namespace);
            for patch in patches {
                if let Err(error) = context.writer.merge_status(&api, &name.1, &patch).await {
                    let (object, kind, reason) = (shown(&name), resource.kind, error.reason());
                    tracing::debug!(kind, object, reason, "{error}");
                    return;
                }
            }
            for (about, (reason, message)) in events {
                match reason == NOT_ENOUGH_PODS {
                    // Nothing is wrong: the rest has not come yet.
                    true => context.events.normal(&about, NOT_READY, message).await,
                    false => context.events.warning(&about, &reason, message).await,
                }
            }
        });
    }
}

/// Whether something is to be reported: at once if it is urgent, or when there has been calm for a while.
fn is_news<T: PartialEq>(
    reported: Option<&Reported<T>>,
    now: &T,
    urgent: impl Fn(&T, &T) -> bool,
) -> bool {
    reported.is_none_or(|reported| {
        reported.what != *now
            && (urgent(&reported.what, now) || reported.at.elapsed() >= MIN_INTERVAL)
    })
}

/// What a group's state is, in few words.
fn word(status: &GroupStatus) -> (Option<&str>, Option<&str>, bool) {
    fn first((reason, _): &(String, String)) -> &str {
        reason
    }
    let GroupStatus { reason, trouble, waiting, .. } = status;
    (reason.as_ref().map(first), trouble.as_ref().map(first), waiting.is_empty())
}

/// The condition of a group; and whether its reason is another than the one that is written.
fn condition(
    written: Option<&GroupCondition>,
    status: &GroupStatus,
    now: Timestamp,
) -> (Option<GroupCondition>, bool) {
    let (is, reason, message) = match &status.reason {
        Some((reason, message)) => ("False", reason.clone(), message.clone()),
        None if status.waiting.is_empty() && status.under_way == 0 && status.placed > 0 => {
            ("True", PLACED.to_owned(), format!("{} pods have nodes", status.placed))
        }
        None => return (written.cloned(), false),
    };
    let same = written.filter(|one| one.status == is);
    let since = same.and_then(|one| one.last_transition_time).unwrap_or(now);
    let changed = written.is_none_or(|one| one.reason != reason);
    let condition = GroupCondition {
        kind: SCHEDULABLE.to_owned(),
        status: is.to_owned(),
        reason,
        message,
        last_transition_time: Some(since),
    };
    (Some(condition), changed)
}

/// The conditions as KAI writes them: only while no pod of the group has a place.
fn kai_conditions(status: &GroupStatus, now: Timestamp) -> Value {
    match &status.reason {
        Some((reason, message)) if status.placed == 0 => json!([{
            "type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True",
            "transitionID": "1", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": now, "reasons": [{"reason": reason, "message": message}]}]),
        _ => json!([]),
    }
}

fn json_of(condition: &GroupCondition) -> Value {
    let GroupCondition { kind, status, reason, message, last_transition_time } = condition;
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": last_transition_time})
}

/// What a queue is due. Kinds of devices that are not there any more are taken out; what was written before is not
/// known of a queue that is written for the first time, so the list begins anew then.
fn fair_share(status: &QueueStatus, before: Option<&QueueStatus>) -> Value {
    let mut share = json!(status.fair_share);
    let kinds = |status: &QueueStatus| -> Vec<String> {
        status.fair_share.iter().flat_map(|share| share.milli_devices.keys().cloned()).collect()
    };
    let now = kinds(status);
    if let Some(fields) = share.as_object_mut().filter(|_| now.is_empty()) {
        fields.insert("milliDevices".to_owned(), Value::Null);
    }
    for gone in before.map(kinds).unwrap_or_default() {
        if let Some(kinds) = share.get_mut("milliDevices").and_then(Value::as_object_mut) {
            kinds.entry(gone).or_insert(Value::Null);
        }
    }
    share
}

/// Amounts by resource. A merge keeps what it does not name: what is none any more is named, as null.
fn written_as<'a>(amounts: &Amounts, were: impl Iterator<Item = &'a Amounts>) -> Value {
    if amounts.is_empty() {
        return Value::Null;
    }
    let gone = were.flat_map(BTreeMap::keys).map(|name| (name.clone(), Value::Null));
    let now = amounts.iter().map(|(name, amount)| (name.clone(), amount.plain().into()));
    Value::Object(gone.chain(now).collect())
}

/// As Kubernetes writes times: in whole seconds.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn pod_groups() -> ApiResource {
    resource("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
