//! One resource's objects, its log, and those who watch it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_objects::meta;
use muster_objects::select::{FieldSelector, LabelSelector};
use tokio::sync::mpsc;

use super::{Compacted, Object, Snapshot};

/// One write, as the log keeps it.
#[derive(Debug)]
pub struct Change {
    /// The revision that the write made.
    pub revision: u64,
    /// The object before it, if there was one.
    pub before: Option<Arc<Object>>,
    /// The object after it, unless it is gone.
    pub after: Option<Arc<Object>>,
    /// For a removal: the last state, with the revision of the removal.
    pub last: Option<Arc<Object>>,
}

/// Which objects a watcher or a list wants.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with matching labels.
    pub labels: Option<LabelSelector>,
    /// Only objects with matching fields.
    pub fields: Option<FieldSelector>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) objects: Snapshot,
    log: VecDeque<Arc<Change>>,
    /// Changes up to this revision are forgotten.
    floor: u64,
    watchers: HashMap<u64, Watcher>,
    /// Watchers of one node's pods, by node: a write touches two nodes at the most, not all watchers.
    by_node: HashMap<String, Vec<u64>>,
    /// The other watchers.
    general: Vec<u64>,
}

#[derive(Debug)]
struct Watcher {
    filter: Filter,
    sender: mpsc::Sender<Arc<Change>>,
    lagged: Arc<AtomicBool>,
}

const NODE_FIELD: &str = "spec.nodeName";

// === impl Change ===

impl Change {
    fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.before.iter().chain(self.after.iter())
    }
}

// === impl Filter ===

impl Filter {
    /// Whether the object is wanted.
    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|ns| ns == meta::namespace(&object.value))
            && self.labels.as_ref().is_none_or(|s| s.matches(&object.value))
            && self.fields.as_ref().is_none_or(|s| s.matches(&object.value))
    }

    /// Whether the change concerns a wanted object, before or after.
    fn touches(&self, change: &Change) -> bool {
        change.states().any(|object| self.matches(object))
    }

    fn node(&self) -> Option<&str> {
        self.fields.as_ref()?.equals(NODE_FIELD).filter(|node| !node.is_empty())
    }
}

// === impl Table ===

impl Table {
    /// Keeps the change in the log and hands it to those it concerns. What leaves the log is returned:
    /// its memory is given back when no lock is held.
    pub(super) fn record(&mut self, change: Arc<Change>, log: usize) -> Vec<Arc<Change>> {
        let mut slow = Vec::new();
        for id in &self.general {
            self.offer(*id, &change, &mut slow);
        }
        if !self.by_node.is_empty() {
            let mut seen = None;
            for node in change.states().map(|object| node_of(object)) {
                if seen == Some(node) {
                    continue;
                }
                seen = Some(node);
                for id in self.by_node.get(node).into_iter().flatten() {
                    self.offer(*id, &change, &mut slow);
                }
            }
        }
        slow.into_iter().for_each(|id| self.drop_watcher(id));
        self.log.push_back(change);
        let excess = self.log.len().saturating_sub(log);
        let old: Vec<Arc<Change>> = self.log.drain(..excess).collect();
        if let Some(last) = old.last() {
            self.floor = last.revision;
        }
        old
    }

    fn offer(&self, id: u64, change: &Arc<Change>, slow: &mut Vec<u64>) {
        let Some(watcher) = self.watchers.get(&id) else { return };
        if watcher.sender.is_closed() {
            slow.push(id);
        } else if watcher.filter.touches(change) && watcher.sender.try_send(change.clone()).is_err()
        {
            watcher.lagged.store(true, Ordering::Relaxed);
            slow.push(id);
        }
    }

    pub(super) fn add_watcher(
        &mut self,
        id: u64,
        filter: Filter,
        sender: mpsc::Sender<Arc<Change>>,
    ) -> Arc<AtomicBool> {
        let closed: Vec<u64> =
            self.watchers.iter().filter(|(_, w)| w.sender.is_closed()).map(|(id, _)| *id).collect();
        closed.into_iter().for_each(|id| self.drop_watcher(id));
        match filter.node() {
            Some(node) => self.by_node.entry(node.to_owned()).or_default().push(id),
            None => self.general.push(id),
        }
        let lagged = Arc::new(AtomicBool::new(false));
        self.watchers.insert(id, Watcher { filter, sender, lagged: lagged.clone() });
        lagged
    }

    fn drop_watcher(&mut self, id: u64) {
        let Some(watcher) = self.watchers.remove(&id) else { return };
        match watcher.filter.node() {
            None => self.general.retain(|other| *other != id),
            Some(node) => {
                if let Some(ids) = self.by_node.get_mut(node) {
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        self.by_node.remove(node);
                    }
                }
            }
        }
    }

    /// How many watchers still listen.
    pub(super) fn watchers(&self) -> usize {
        self.watchers.values().filter(|watcher| !watcher.sender.is_closed()).count()
    }

    pub(super) fn drop_watchers(&mut self) {
        self.watchers.clear();
        self.by_node.clear();
        self.general.clear();
    }

    /// The wanted changes after `revision`.
    pub(super) fn since(
        &self,
        revision: u64,
        filter: &Filter,
    ) -> Result<Vec<Arc<Change>>, Compacted> {
        self.check(revision)?;
        let start = self.log.partition_point(|change| change.revision <= revision);
        Ok(self.log.range(start..).filter(|change| filter.touches(change)).cloned().collect())
    }

    /// The objects as they were at `revision`: the present, with the later changes undone.
    pub(super) fn at(&self, revision: u64) -> Result<Snapshot, Compacted> {
        self.check(revision)?;
        let mut objects = self.objects.clone();
        for change in self.log.iter().rev().take_while(|change| change.revision > revision) {
            match (&change.before, &change.after) {
                (Some(before), _) => {
                    objects.insert(key_of(before), before.clone());
                }
                (None, Some(after)) => {
                    objects.remove(&key_of(after));
                }
                (None, None) => {}
            }
        }
        Ok(objects)
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.log.clear();
        self.floor = revision;
    }

    fn check(&self, revision: u64) -> Result<(), Compacted> {
        if revision < self.floor { Err(Compacted { oldest: self.floor }) } else { Ok(()) }
    }
}

fn node_of(object: &Object) -> &str {
    object.value["spec"]["nodeName"].as_str().unwrap_or("")
}

fn key_of(object: &Object) -> super::Key {
    (meta::namespace(&object.value).to_owned(), meta::name(&object.value).to_owned())
}
