//! Pods that have no group yet are handed to the pod grouper. Those that have one join it in the cluster.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use muster_scheduler::input::KAI_GROUP;
use muster_scheduler_state::Cluster;
use muster_scheduler_state::object::{Name, shown};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::grouper::controller::GroupedPod;
use super::grouper::waiting::Waiting;
use muster_runtime::writer::Writer;

/// Pods that are marked at once.
const MAX_MARKS: usize = 16;
/// A pod that waits for so long gets the mark that would have come with its binding.
const UNMARKED: Duration = Duration::from_secs(2);

/// Pods on their way into the cluster's groups.
pub struct Intake {
    waiting: Waiting,
    writer: Writer,
    permits: Arc<Semaphore>,
    unmarked: VecDeque<(Instant, Name)>,
}

// === impl Intake ===

impl Intake {
    /// No pod waits.
    pub fn new(waiting: Waiting, writer: Writer) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_MARKS));
        Self { waiting, writer, permits, unmarked: VecDeque::new() }
    }

    /// Pods are grouped from now on, or they are not.
    pub fn switch(&self, on: bool) {
        self.waiting.switch(on);
    }

    /// A pod has no group, as it is written now.
    pub fn take(&self, cluster: &Cluster, name: Name, pod: Value) {
        let Some(known) = cluster.pod(&name) else { return };
        if cluster.settings().is_ours(&known.spec.scheduler_name)
            && cluster.membership(&name).is_none()
        {
            let uid = known.metadata.uid.clone();
            self.waiting.add(name, uid, pod);
        }
    }

    /// A pod is gone.
    pub fn gone(&self, name: &Name) {
        self.waiting.remove(name, None);
    }

    /// A pod has its group. Whether it is still there.
    pub fn done(&mut self, cluster: &mut Cluster, grouped: GroupedPod) -> bool {
        let GroupedPod { name, membership, written } = grouped;
        if !self.waiting.remove(&name, Some(&membership.uid)) {
            return false;
        }
        cluster.join(&name, membership);
        if !written {
            self.unmarked.push_back((Instant::now() + UNMARKED, name));
        }
        true
    }

    /// Marks pods that have waited.
    pub fn mark_due(&mut self, cluster: &Cluster) {
        let now = Instant::now();
        while let Some((at, _)) = self.unmarked.front()
            && *at <= now
        {
            if let Some((_, name)) = self.unmarked.pop_front() {
                self.mark(cluster, &name);
            }
        }
    }

    /// When the next pod is marked.
    pub fn next(&self) -> Option<Instant> {
        self.unmarked.front().map(|(at, _)| *at)
    }

    /// A pod that still waits says its group, for people.
    fn mark(&self, cluster: &Cluster, name: &Name) {
        let Some(membership) = cluster.membership(name) else { return };
        if cluster.in_flight().node(name, &membership.uid).is_some() {
            return;
        }
        let change = json!({"metadata": {"uid": membership.uid,
            "annotations": {KAI_GROUP: membership.group}}});
        let (writer, permits, name) = (self.writer.clone(), self.permits.clone(), name.clone());
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let api = writer.namespaced::<Pod>(&name.0);
            if let Err(error) = writer.merge(&api, &name.1, &change).await {
                tracing::debug!(pod = shown(&name), reason = error.reason(), "{error}");
            }
        });
    }
}
