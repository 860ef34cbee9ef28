//! Which pod is in which group and on which node, and what has changed since a group was reconciled last. Pure.

use std::collections::{BTreeSet, HashMap};

use muster_hub::What;
use muster_runtime::index::OwnerIndex;
use tokio::time::Instant;

use super::member::GroupKey;

/// Namespace and name of a pod.
pub type PodName = (String, String);

/// Which pod is in which group and on which node, and what has changed.
#[derive(Debug, Default)]
pub struct Index {
    groups: OwnerIndex<PodName, GroupKey>,
    nodes: OwnerIndex<PodName, String>,
    changes: HashMap<GroupKey, Changes>,
}

/// What has changed about a group since it was reconciled last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names of pods that have come, changed or gone.
    pub pods: BTreeSet<String>,
    /// Names of pods of whose devices their agents have spoken.
    pub reports: BTreeSet<String>,
    /// Names of pods that their agents have, or have no more: the hub may have forgotten what they were sent.
    pub seen: BTreeSet<String>,
    /// Names of pods of whose tables their agents have spoken, and of nothing else.
    pub tables: BTreeSet<String>,
    /// Whether the record has come, changed or gone.
    pub record: bool,
    /// Whether anything else has: the template, or time.
    pub other: bool,
    /// When the last of it changed.
    pub changed_at: Option<Instant>,
}

// === impl Index ===

impl Index {
    /// A pod has come, changed or gone. The groups that this concerns.
    pub fn pod(
        &mut self,
        pod: PodName,
        group: Option<GroupKey>,
        node: Option<String>,
        at: Instant,
    ) -> Vec<GroupKey> {
        self.nodes.set(pod.clone(), node.filter(|node| !node.is_empty() && group.is_some()));
        let concerned = self.groups.set(pod.clone(), group);
        for key in &concerned {
            let changes = self.changes(key, at);
            changes.pods.insert(pod.1.clone());
        }
        concerned
    }

    /// The record of a group has come, changed or gone.
    pub fn record(&mut self, key: &GroupKey, at: Instant) {
        self.changes(key, at).record = true;
    }

    /// The agent of a node has spoken. The groups that this concerns.
    pub fn agent(&mut self, node: &str, what: What, at: Instant) -> Vec<GroupKey> {
        let mut concerned = Vec::new();
        for pod in self.nodes.owned(&node.to_owned()) {
            let Some(key) = self.groups.owner(pod) else { continue };
            let changes = self.changes.entry(key.clone()).or_default();
            let name = pod.1.clone();
            match what {
                // A thousand say so at once, and say nothing of their devices.
                What::Tables => changes.tables.insert(name),
                What::Pods => changes.seen.insert(name),
                What::Session | What::Inventory => changes.reports.insert(name),
            };
            changes.changed_at = changes.changed_at.max(Some(at));
            concerned.push(key.clone());
        }
        concerned
    }

    /// Something that concerns all groups has changed, such as a template. All groups that have pods.
    pub fn all(&mut self) -> Vec<GroupKey> {
        let keys: BTreeSet<GroupKey> =
            self.groups.objects().filter_map(|pod| self.groups.owner(pod)).cloned().collect();
        for key in &keys {
            self.changes.entry(key.clone()).or_default().other = true;
        }
        keys.into_iter().collect()
    }

    /// Whatever an agent has said of this pod may have been missed.
    pub fn missed(&mut self, key: &GroupKey, pod: &str) {
        let changes = self.changes.entry(key.clone()).or_default();
        changes.seen.insert(pod.to_owned());
        changes.record = true;
    }

    /// All groups of which something has changed.
    pub fn changed(&self) -> Vec<GroupKey> {
        self.changes.keys().cloned().collect()
    }

    /// All pods.
    pub fn pods(&self) -> Vec<PodName> {
        self.groups.objects().cloned().collect()
    }

    /// Names of the pods of a group.
    pub fn pods_of(&self, key: &GroupKey) -> BTreeSet<String> {
        self.groups.owned(key).map(|(_, name)| name.clone()).collect()
    }

    /// What has changed about a group. It is then forgotten.
    pub fn take(&mut self, key: &GroupKey) -> Changes {
        self.changes.remove(key).unwrap_or_default()
    }

    fn changes(&mut self, key: &GroupKey, at: Instant) -> &mut Changes {
        let changes = self.changes.entry(key.clone()).or_default();
        changes.changed_at = changes.changed_at.max(Some(at));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> GroupKey {
        GroupKey { namespace: "n".into(), name: name.into() }
    }

    fn pod(name: &str) -> PodName {
        ("n".into(), name.into())
    }

    #[test]
    fn a_group_is_told_once_of_what_has_changed_since_its_last_reconcile() {
        let (mut index, now) = (Index::default(), Instant::now());
        let node = || Some("node".to_owned());
        assert_eq!(index.pod(pod("a"), Some(key("g")), node(), now), [key("g")]);
        assert_eq!(index.pod(pod("b"), Some(key("h")), node(), now), [key("h")]);
        let mut told = index.agent("node", What::Inventory, now);
        told.sort();
        assert_eq!(told, [key("g"), key("h")]);
        let changes = index.take(&key("g"));
        assert_eq!(
            (changes.pods.len(), changes.reports.len(), changes.changed_at),
            (1, 1, Some(now))
        );
        assert_eq!(index.take(&key("g")), Changes::default());
    }

    #[test]
    fn a_pod_that_moves_is_a_change_of_both_groups() {
        let (mut index, now) = (Index::default(), Instant::now());
        index.pod(pod("a"), Some(key("g")), Some("node".into()), now);
        assert_eq!(index.pod(pod("a"), Some(key("h")), None, now), [key("g"), key("h")]);
        assert_eq!(index.pods_of(&key("h")).len(), 1);
        assert!(index.pods_of(&key("g")).is_empty());
        assert!(index.agent("node", What::Pods, now).is_empty(), "it is on no node yet");
        assert_eq!(index.pod(pod("a"), None, None, now), [key("h")]);
        assert!(index.pods().is_empty());
    }
}
