//! What is known about nodes for pods of one class: whether they take one, and how good they are.
//!
//! A class is scored once. After that a change of a node costs one look at that node, when the class is next asked for.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BinaryHeap},
};

use crate::{
    reason::NodeRefusal,
    snapshot::{ClassId, Id, NodeId, Snapshot},
};

/// A node and its score, as they were at some version of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) score: f64,
    pub(super) node: NodeId,
    version: u32,
}

/// What is known about one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// What keeps pods of the class off it, come what may.
    pub(super) fixed: Option<NodeRefusal>,
    /// What does now.
    pub(super) refusal: Option<NodeRefusal>,
    /// How good it is.
    pub(super) score: f64,
    version: u32,
}

/// What is known about nodes for one class.
#[derive(Debug, Default)]
pub(super) struct ClassIndex {
    pub(super) clock: usize,
    pub(super) nodes: Vec<Known>,
    pub(super) refusals: BTreeMap<NodeRefusal, u32>,
    heap: BinaryHeap<Entry>,
}

/// What is known, by class.
#[derive(Debug)]
pub(super) struct Indices {
    pub(super) classes: Vec<Option<Box<ClassIndex>>>,
}

// === impl Entry ===

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| (Reverse(entry.node), entry.version);
        self.score.total_cmp(&other.score).then_with(|| key(self).cmp(&key(other)))
    }
}

// === impl Indices ===

impl Indices {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Self { classes: snapshot.classes.iter().map(|_| None).collect() }
    }

    pub(super) fn take(&mut self, class: ClassId) -> Option<Box<ClassIndex>> {
        self.classes.get_mut(class.row()).and_then(Option::take)
    }

    pub(super) fn put(&mut self, class: ClassId, index: Box<ClassIndex>) {
        if let Some(place) = self.classes.get_mut(class.row()) {
            *place = Some(index);
        }
    }
}

// === impl ClassIndex ===

impl ClassIndex {
    /// All nodes, looked at for the first time.
    pub(super) fn new(
        clock: usize,
        seen: impl Iterator<Item = (Option<NodeRefusal>, Option<NodeRefusal>, f64)>,
    ) -> Self {
        let mut index = Self { clock, ..Self::default() };
        let mut entries = Vec::new();
        for (row, (fixed, refusal, score)) in seen.enumerate() {
            index.nodes.push(Known { fixed, refusal, score, version: 0 });
            match refusal {
                Some(refusal) => *index.refusals.entry(refusal).or_insert(0) += 1,
                None => entries.push(Entry { score, node: NodeId::of(row), version: 0 }),
            }
        }
        index.heap = entries.into();
        index
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Known> {
        self.nodes.get(node.row())
    }

    /// Notes what a node is like now.
    pub(super) fn update(&mut self, node: NodeId, refusal: Option<NodeRefusal>, score: f64) {
        let Some(known) = self.nodes.get_mut(node.row()) else { return };
        if known.refusal == refusal && known.score == score {
            return;
        }
        if let Some(before) = known.refusal
            && let Some(count) = self.refusals.get_mut(&before)
        {
            *count -= 1;
        }
        known.refusal = refusal;
        known.score = score;
        known.version = known.version.wrapping_add(1);
        let version = known.version;
        match refusal {
            Some(refusal) => *self.refusals.entry(refusal).or_insert(0) += 1,
            None => self.heap.push(Entry { score, node, version }),
        }
        if self.heap.len() > 64 + 4 * self.nodes.len() {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let entry = |(row, known): (usize, &Known)| {
            known.refusal.is_none().then_some(Entry {
                score: known.score,
                node: NodeId::of(row),
                version: known.version,
            })
        };
        let entries: Vec<Entry> = self.nodes.iter().enumerate().filter_map(entry).collect();
        self.heap = entries.into();
    }

    /// Takes the best node off the heap.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        while let Some(entry) = self.heap.pop() {
            let current = self.nodes.get(entry.node.row());
            if current
                .is_some_and(|known| known.version == entry.version && known.refusal.is_none())
            {
                return Some(entry);
            }
        }
        None
    }

    /// Puts a node back.
    pub(super) fn push(&mut self, entry: Entry) {
        self.heap.push(entry);
    }
}
