//! Pods that have no group yet get one. What keeps failing is tried again, slower and slower.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use muster_scheduler::input::KAI_GROUP;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::{Cluster, cluster::Membership};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::grouper::{Grouped, Grouper};
use crate::write::Writer;

/// Pods that are grouped at once.
const AT_ONCE: usize = 16;
/// The first wait after a failure; it doubles.
const FIRST: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);
/// A pod that waits for so long gets the mark that would have come with its binding.
const UNMARKED: Duration = Duration::from_secs(2);

/// What came of a pod: its name, its identity, and its group.
pub type Done = (Name, String, Grouped);

/// Pods that are being grouped.
pub struct Intake {
    grouper: Grouper,
    writer: Writer,
    tell: mpsc::UnboundedSender<Done>,
    permits: Arc<Semaphore>,
    waiting: HashMap<Name, Waiting>,
    unmarked: VecDeque<(Instant, Name)>,
    /// Whether pods are grouped; those that come meanwhile wait.
    on: bool,
}

struct Waiting {
    uid: String,
    text: Box<RawValue>,
    tries: u32,
    /// When it is tried again; none while it is being tried.
    again: Option<Instant>,
}

// === impl Intake ===

impl Intake {
    /// No pod waits.
    pub fn new(grouper: Grouper, writer: Writer, tell: mpsc::UnboundedSender<Done>) -> Self {
        Self {
            grouper,
            writer,
            tell,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: HashMap::new(),
            unmarked: VecDeque::new(),
            on: true,
        }
    }

    /// Pods are grouped from now on, or they are not.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// A pod has no group, as it is written now.
    pub fn take(&mut self, cluster: &Cluster, name: Name, text: Box<RawValue>) {
        let Some(pod) = cluster.pod(&name) else { return };
        if !cluster.settings().is_ours(&pod.spec.scheduler_name)
            || cluster.membership(&name).is_some()
        {
            return;
        }
        let uid = pod.metadata.uid.clone();
        let busy =
            self.waiting.get(&name).is_some_and(|known| known.uid == uid && known.again.is_none());
        if !busy && self.on {
            self.send(&name, &uid, &text);
        }
        let tries = self.waiting.get(&name).map_or(0, |known| known.tries);
        let again = (!busy && !self.on).then(Instant::now);
        self.waiting.insert(name, Waiting { uid, text, tries, again });
    }

    /// A pod is gone.
    pub fn gone(&mut self, name: &Name) {
        self.waiting.remove(name);
    }

    /// What came of a pod. Whether it has a group now.
    pub fn done(&mut self, cluster: &mut Cluster, (name, uid, grouped): Done) -> bool {
        let Some(known) = self.waiting.get_mut(&name).filter(|known| known.uid == uid) else {
            return false;
        };
        match grouped {
            Grouped::Member { group, sub_group, written } => {
                self.waiting.remove(&name);
                cluster.join(&name, Membership { uid, group, sub_group });
                if !written {
                    self.unmarked.push_back((Instant::now() + UNMARKED, name));
                }
                true
            }
            Grouped::Failed { retry: true, .. } => {
                let wait = FIRST.saturating_mul(1 << known.tries.min(8)).min(LONGEST);
                known.tries += 1;
                known.again = Some(Instant::now() + wait);
                false
            }
            Grouped::Skipped | Grouped::Failed { .. } => {
                self.waiting.remove(&name);
                false
            }
        }
    }

    /// Tries again what is due, and marks pods that have waited.
    pub fn look(&mut self, cluster: &Cluster) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (name, known) in &mut self.waiting {
            if self.on && known.again.is_some_and(|at| at <= now) {
                known.again = None;
                due.push((name.clone(), known.uid.clone(), known.text.clone()));
            }
        }
        for (name, uid, text) in due {
            self.send(&name, &uid, &text);
        }
        while let Some((at, _)) = self.unmarked.front()
            && *at <= now
        {
            if let Some((_, name)) = self.unmarked.pop_front() {
                self.mark(cluster, &name);
            }
        }
    }

    /// When there is something to look at.
    pub fn next(&self) -> Option<Instant> {
        let waiting = self.waiting.values().filter(|_| self.on);
        let again = waiting.filter_map(|known| known.again).min();
        [again, self.unmarked.front().map(|(at, _)| *at)].into_iter().flatten().min()
    }

    /// A pod that still waits says its group, for people.
    fn mark(&self, cluster: &Cluster, name: &Name) {
        let Some(membership) = cluster.membership(name) else { return };
        if cluster.flights().node(name, &membership.uid).is_some() {
            return;
        }
        let change = json!({"metadata": {"uid": membership.uid,
            "annotations": {KAI_GROUP: membership.group}}});
        let (writer, permits, name) = (self.writer.clone(), self.permits.clone(), name.clone());
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let api: Api<Pod> = Api::namespaced(writer.client().clone(), &name.0);
            if let Err(error) = writer.merge(&api, &name.1, &change).await {
                tracing::debug!(pod = shown(&name), reason = error.reason(), "{error}");
            }
        });
    }

    fn send(&self, name: &Name, uid: &str, text: &RawValue) {
        let (grouper, tell, permits) =
            (self.grouper.clone(), self.tell.clone(), self.permits.clone());
        let (name, uid) = (name.clone(), uid.to_owned());
        let pod = serde_json::from_str(text.get());
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let grouped = match pod {
                Ok(pod) => grouper.group(pod).await,
                Err(error) => Grouped::Failed {
                    class: "unreadable",
                    message: error.to_string(),
                    retry: false,
                },
            };
            // Nobody listens any more when the term is over.
            let _ended = tell.send((name, uid, grouped));
        });
    }
}
