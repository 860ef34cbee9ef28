//! What a cycle orders, and what comes of an order.

use std::collections::BTreeMap;

use muster_scheduler::decisions::Decisions;
use muster_scheduler::reason::Eviction;

use crate::fault::Note;
use crate::object::Name;
use crate::reservation::share::Share;

/// A pod gets a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The pod.
    pub pod: Name,
    /// Its identity: another pod of this name is another pod.
    pub uid: String,
    /// The node.
    pub node: String,
    /// Shared devices that it has a part of.
    pub gpu_groups: Vec<String>,
    /// What it gets before, if it shares devices; none while they are not known.
    pub share: Option<Box<Share>>,
    /// What plugins say of it.
    pub annotations: BTreeMap<String, String>,
    /// How often it has been tried.
    pub attempt: u32,
}

/// A pod goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Evict {
    /// The pod.
    pub pod: Name,
    /// Its identity.
    pub uid: String,
    /// For whom, and why it is lawful.
    pub why: Eviction,
}

/// What has come of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; the watch will show it.
    Done,
    /// It was not done, and may be later.
    Failed(String),
    /// Nobody knows: it may have been done.
    Unsure(String),
    /// It cannot be done: the pod is gone, or goes, or has a node already. The watch will show which.
    Lost(String),
}

/// What a cycle has come to.
#[derive(Debug, Default)]
pub struct Cycle {
    /// Pods that get a node now.
    pub binds: Vec<Bind>,
    /// Pods that go.
    pub evictions: Vec<Evict>,
    /// Restarts because of faults, to be written on their groups before pods go for them.
    pub notes: Vec<Note>,
    /// All that was decided, with reasons.
    pub decisions: Decisions,
    /// How often a decision panicked until the groups to blame were found.
    pub panics: u64,
}
