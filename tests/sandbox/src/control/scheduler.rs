//! A plain default scheduler: for pods that name no other, the node with the most room. It can be told to serve other
//! names too, where a cluster would have that scheduler beside it.
//!
//! It knows requests, extended resources, pod counts, node selectors, required node affinity, taints
//! and cordons. It does not preempt, spread or prefer.
//!
//! ```text
//! Node, Pod watch -> cluster (what is left where) -> choose -> assume -> bind
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tracing::debug;

use super::json::{self, stamp};
use super::kind::{NODES, PODS};
use super::rest::{EventText, Rest, ignore_missing, status_code};
use cluster::Cluster;

mod cluster;
mod fit;
mod resources;

/// Gives pods to nodes.
pub(crate) struct Scheduler {
    rest: Rest,
    /// The schedulers that it stands in for.
    others: Vec<String>,
    state: Mutex<State>,
    work: Notify,
    binds: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    cluster: Cluster,
    pods: HashMap<String, Arc<Value>>,
    /// Pods to look at: by falling priority, then in order of arrival.
    ready: BTreeSet<Turn>,
    turns: HashMap<String, Turn>,
    /// Pods that fit nowhere, until something changes.
    parked: BTreeSet<String>,
    arrivals: u64,
    /// The newest report of each pod that is not written yet.
    reports: HashMap<String, u64>,
    reported: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    priority: std::cmp::Reverse<i64>,
    arrival: u64,
    uid: String,
}

const COMPONENT: &str = "default-scheduler";
const BINDS_AT_ONCE: usize = 64;
/// So many pods are looked at before others may run.
const STRETCH: usize = 64;
const RETRY: Duration = Duration::from_millis(50);

/// Whether the pod is ours to schedule: unbound, alive, and naming nobody but us and those that we stand in for.
fn is_ours(pod: &Value, others: &[String]) -> bool {
    let named = json::text(pod, "/spec/schedulerName");
    (matches!(named, "" | COMPONENT) || others.iter().any(|other| other == named))
        && json::text(pod, "/spec/nodeName").is_empty()
        && !meta::is_terminating(pod)
        && !matches!(json::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn is_gated(pod: &Value) -> bool {
    !json::list(pod, "/spec/schedulingGates").is_empty()
}

// === impl State ===

impl State {
    fn line_up(&mut self, pod: &Arc<Value>) {
        let uid = meta::uid(pod).to_owned();
        self.parked.remove(&uid);
        if self.turns.contains_key(&uid) {
            return;
        }
        self.arrivals += 1;
        let turn = Turn {
            priority: std::cmp::Reverse(json::int(pod, "/spec/priority").unwrap_or(0)),
            arrival: self.arrivals,
            uid: uid.clone(),
        };
        self.turns.insert(uid, turn.clone());
        self.ready.insert(turn);
    }

    fn leave(&mut self, uid: &str) {
        if let Some(turn) = self.turns.remove(uid) {
            self.ready.remove(&turn);
        }
        self.parked.remove(uid);
    }

    /// Something changed for the better: all parked pods get another turn.
    fn unpark(&mut self) {
        for uid in std::mem::take(&mut self.parked) {
            if let Some(pod) = self.pods.get(&uid).cloned() {
                self.line_up(&pod);
            }
        }
    }

    fn next(&mut self) -> Option<Arc<Value>> {
        while let Some(turn) = self.ready.pop_first() {
            self.turns.remove(&turn.uid);
            if let Some(pod) = self.pods.get(&turn.uid) {
                return Some(pod.clone());
            }
        }
        None
    }

    /// Begins a report on a pod; those begun before are void.
    fn begin_report(&mut self, uid: &str) -> u64 {
        self.reported += 1;
        self.reports.insert(uid.to_owned(), self.reported);
        self.reported
    }

    /// The pod as known, if this report on it is still the newest.
    fn report_on(&self, uid: &str, number: u64) -> Option<Arc<Value>> {
        self.pods.get(uid).filter(|_| self.reports.get(uid) == Some(&number)).cloned()
    }

    fn end_report(&mut self, uid: &str, number: u64) {
        if self.reports.get(uid) == Some(&number) {
            self.reports.remove(uid);
        }
    }
}

// === impl Scheduler ===

impl Scheduler {
    /// Registers with the caches and starts the cycle.
    pub fn start(rest: &Rest, others: Vec<String>) {
        let scheduler = Arc::new(Self {
            rest: rest.clone(),
            others,
            state: Mutex::default(),
            work: Notify::new(),
            binds: Arc::new(Semaphore::new(BINDS_AT_ONCE)),
        });
        let (nodes, pods) = (rest.cache(&NODES), rest.cache(&PODS));
        let to = scheduler.clone();
        nodes.on_change(move |before, after| {
            let mut state = to.state.lock();
            if state.cluster.node_changed(before, after) {
                state.unpark();
                drop(state);
                to.work.notify_one();
            }
        });
        let to = scheduler.clone();
        pods.on_change(move |before, after| to.pod_changed(before, after));
        rest.tasks().spawn(async move {
            nodes.synced().await;
            pods.synced().await;
            scheduler.cycle().await;
        });
    }

    fn pod_changed(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let Some(pod) = after.or(before) else { return };
        let uid = meta::uid(pod);
        let mut state = self.state.lock();
        let mut wake = state.cluster.pod_changed(before, after);
        if wake {
            state.unpark();
        }
        match after.filter(|pod| is_ours(pod, &self.others)) {
            Some(pod) => {
                let known = state.pods.insert(uid.to_owned(), pod.clone());
                let asks = |pod: &Value| pod.get("spec").cloned();
                // Its own condition being written is no reason to look again.
                if known.is_none_or(|known| asks(&known) != asks(pod)) {
                    state.line_up(pod);
                    wake = true;
                }
            }
            None => {
                state.pods.remove(uid);
                state.reports.remove(uid);
                state.leave(uid);
            }
        }
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    async fn cycle(self: Arc<Self>) {
        loop {
            let more = self.work.notified();
            let mut done = 0;
            while self.step() {
                done += 1;
                if done % STRETCH == 0 {
                    tokio::task::yield_now().await;
                }
            }
            more.await;
        }
    }

    /// Looks at one pod; false when none waits.
    fn step(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        let Some(pod) = state.next() else { return false };
        if is_gated(&pod) {
            drop(state);
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            self.report(&pod, "SchedulingGated", message);
            return true;
        }
        let load = state.cluster.load(&pod);
        match state.cluster.choose(&pod, &load) {
            Ok(node) => {
                state.cluster.place(meta::uid(&pod), &node, load);
                drop(state);
                self.bind(pod, node);
            }
            Err(cluster::NoFit(message)) => {
                state.parked.insert(meta::uid(&pod).to_owned());
                drop(state);
                self.report(&pod, "Unschedulable", &message);
            }
        }
        true
    }

    fn bind(self: &Arc<Self>, pod: Arc<Value>, node: String) {
        let scheduler = self.clone();
        self.rest.tasks().spawn(async move {
            let Ok(_turn) = scheduler.binds.clone().acquire_owned().await else { return };
            let (namespace, name) = (meta::namespace(&pod), meta::name(&pod));
            let body = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": namespace, "name": name, "uid": meta::uid(&pod)},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let path = PODS.path(namespace, name) + "/binding";
            match scheduler.rest.send("POST", &path, "application/json", Some(&body)).await {
                Ok(_) => {
                    let message = format!("Successfully assigned {namespace}/{name} to {node}");
                    let event = EventText::normal("Scheduled", message);
                    scheduler.rest.event(&PODS, &pod, COMPONENT, &event);
                }
                Err(error) => {
                    debug!(pod = name, %error, "binding");
                    scheduler.put_back(&pod, status_code(&error)).await;
                }
            }
        });
    }

    /// A binding failed: the room is free again, and the pod gets another turn if it still waits.
    async fn put_back(&self, pod: &Arc<Value>, code: u16) {
        if code != 404 {
            tokio::time::sleep(RETRY).await;
        }
        // The answer may have been lost while the binding was made: ask before choosing again.
        let live = self.rest.get(&PODS, meta::namespace(pod), meta::name(pod)).await;
        let mut state = self.state.lock();
        let bound = matches!(&live, Ok(live) if meta::uid(live) == meta::uid(pod)
            && !json::text(live, "/spec/nodeName").is_empty());
        let seen_bound = !state.pods.contains_key(meta::uid(pod));
        if bound || seen_bound {
            // The watch brings where it went.
            return;
        }
        state.cluster.release(meta::uid(pod));
        if let Some(pod) = state.pods.get(meta::uid(pod)).cloned() {
            state.line_up(&pod);
        }
        state.unpark();
        drop(state);
        self.work.notify_one();
    }

    /// Says on the pod why it has no node, if that is news.
    fn report(self: &Arc<Self>, pod: &Arc<Value>, reason: &str, message: &str) {
        let same = json::condition(pod, "PodScheduled").is_some_and(|have| {
            json::text(have, "/status") == "False"
                && json::text(have, "/reason") == reason
                && json::text(have, "/message") == message
        });
        let number = {
            let mut state = self.state.lock();
            // An older report may still be on its way, so that even old news must be told again.
            if same && !state.reports.contains_key(meta::uid(pod)) {
                return;
            }
            state.begin_report(meta::uid(pod))
        };
        let since = json::condition(pod, "PodScheduled")
            .filter(|have| json::text(have, "/status") == "False")
            .and_then(|have| have.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| stamp(self.rest.clock().now()));
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastProbeTime": null, "lastTransitionTime": since,
        });
        let event = (reason == "Unschedulable")
            .then(|| EventText::warning("FailedScheduling", message.to_owned()));
        let (scheduler, pod) = (self.clone(), pod.clone());
        self.rest.tasks().spawn(async move {
            let path = PODS.path(meta::namespace(&pod), meta::name(&pod)) + "/status";
            let content = "application/strategic-merge-patch+json";
            let mut wait = Duration::from_millis(5);
            loop {
                // Only on the pod as we know it: a binding made since then must not be denied.
                let known = scheduler.state.lock().report_on(meta::uid(&pod), number);
                let Some(known) = known else { return };
                let patch = json!({
                    "metadata": {"resourceVersion": meta::text(&known, "resourceVersion")},
                    "status": {"conditions": [condition]},
                });
                let outcome = scheduler.rest.send("PATCH", &path, content, Some(&patch)).await;
                if ignore_missing(outcome).is_ok() {
                    break;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(1));
                // By now it may have found a place.
                let mut state = scheduler.state.lock();
                if !state.parked.contains(meta::uid(&pod)) && !is_gated(&pod) {
                    state.end_report(meta::uid(&pod), number);
                    return;
                }
            }
            scheduler.state.lock().end_report(meta::uid(&pod), number);
            if let Some(event) = event {
                scheduler.rest.event(&PODS, &pod, COMPONENT, &event);
            }
        });
    }
}

#[cfg(test)]
mod tests;
