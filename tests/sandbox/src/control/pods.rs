//! Pods on nodes that are gone: after a while they fail and are removed, since no kubelet will.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::cache::{Cache, Key, key_of};
use super::json::{self, stamp};
use super::kind::{NODES, PODS};
use super::queue::Queue;
use super::rest::{Rest, ignore_missing, status_code};

/// Removes pods of lost nodes.
pub(crate) struct PodCollector {
    rest: Rest,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    by_node: Mutex<HashMap<String, BTreeSet<Key>>>,
    queue: Arc<Queue<String>>,
}

/// How long a node may be absent.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

// === impl PodCollector ===

impl PodCollector {
    /// Registers with the caches and starts the worker.
    pub fn start(rest: &Rest) {
        let collector = Arc::new(Self {
            rest: rest.clone(),
            pods: rest.cache(&PODS),
            nodes: rest.cache(&NODES),
            by_node: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let to = collector.clone();
        collector.pods.on_change(move |before, after| to.pod_changed(before, after));
        let to = collector.clone();
        collector.nodes.on_change(move |before, after| {
            if let (Some(gone), None) = (before, after) {
                to.suspect(meta::name(gone));
            }
        });
        let started = collector;
        rest.tasks().spawn(async move {
            started.pods.synced().await;
            started.nodes.synced().await;
            // Nodes that went while nobody looked.
            let named: Vec<String> = started.by_node.lock().keys().cloned().collect();
            for node in named {
                if started.nodes.get("", &node).is_none() {
                    started.suspect(&node);
                }
            }
            let queue = started.queue.clone();
            queue.serve(1, "pods", move |node| {
                let collector = started.clone();
                async move { collector.collect(&node).await }
            });
        });
    }

    fn pod_changed(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let mut by_node = self.by_node.lock();
        let node = |pod: &Arc<Value>| json::text(pod, "/spec/nodeName").to_owned();
        if let Some(old) = before.filter(|old| after.is_none_or(|new| node(new) != node(old)))
            && let Some(pods) = by_node.get_mut(&node(old))
        {
            pods.remove(&key_of(old));
            if pods.is_empty() {
                by_node.remove(&node(old));
            }
        }
        if let Some(pod) = after.filter(|pod| !node(pod).is_empty()) {
            by_node.entry(node(pod)).or_default().insert(key_of(pod));
        }
    }

    fn suspect(&self, node: &str) {
        let now = self.rest.clock().now();
        let later = now.saturating_add(QUARANTINE).unwrap_or(Timestamp::MAX);
        self.queue.add_at(node.to_owned(), later);
    }

    async fn collect(&self, node: &str) -> Result<(), kube::Error> {
        match self.rest.get(&NODES, "", node).await {
            Ok(_) => return Ok(()),
            Err(error) if status_code(&error) == 404 => {}
            Err(error) => return Err(error),
        }
        let keys = self.by_node.lock().get(node).cloned().unwrap_or_default();
        for (namespace, name) in keys {
            if let Some(pod) = self.pods.get(&namespace, &name) {
                self.remove(&pod).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, pod: &Value) -> Result<(), kube::Error> {
        let path = PODS.path(meta::namespace(pod), meta::name(pod));
        if !matches!(json::text(pod, "/status/phase"), "Succeeded" | "Failed") {
            let patch = json!({"status": {"phase": "Failed", "conditions": [{
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": stamp(self.rest.clock().now()),
            }]}});
            let content = "application/strategic-merge-patch+json";
            let status = format!("{path}/status");
            ignore_missing(self.rest.send("PATCH", &status, content, Some(&patch)).await)?;
        }
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": meta::uid(pod)}});
        ignore_missing(self.rest.send("DELETE", &path, "application/json", Some(&options)).await)
    }
}
