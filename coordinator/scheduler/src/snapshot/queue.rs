//! A queue as the scheduler sees it.

use jiff::{SignedDuration, Timestamp};

use super::{KINDS, Quantities, QueueId};

/// A queue with its quotas and limits.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Name of the Queue object.
    pub name: String,
    /// What people call it.
    pub display_name: String,
    /// The queue above it.
    pub parent: Option<QueueId>,
    /// The queues below it.
    pub children: Vec<QueueId>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// How important it is.
    pub priority: i64,
    /// What is its own; -1 is without end.
    pub deserved: Quantities,
    /// What it cannot go above; -1 is without end.
    pub limit: Quantities,
    /// Its weights when what is left is divided.
    pub weight: Quantities,
    /// Kinds of accelerators that it has numbers of their own for; `gpu` counts for the others.
    pub named: [bool; KINDS],
    /// What it has used of late, as a part of the cluster.
    pub usage: Quantities,
    /// How long its pods run before the queue's own may preempt them.
    pub preempt_min_runtime: Option<SignedDuration>,
    /// How long its pods run before other queues may reclaim from them.
    pub reclaim_min_runtime: Option<SignedDuration>,
}

// === impl Queue ===

impl Queue {
    /// Whether jobs can be in it.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }
}
