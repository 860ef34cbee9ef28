//! Faults: what becomes of running gangs that stand on a device or a node that has gone bad.
//!
//! ```text
//!   a device is faulty, a node is not ready or gone ──▶ its pods are affected ──▶ for longer than the grace: policy
//!     none    it is said, nothing else
//!     evict   those pods go, and whoever made them makes others
//!     gang    all pods of the group go
//! ```
//!
//! A restart is written on the group before the first pod goes, with the time until which pods got their nodes that it is about.
//! Whoever leads next reads that and ends what was begun; pods that have come since are left alone until the cool-down is over, also
//! those that were there before and waited for a node.

mod judge;
mod mark;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Dialect, Labels};

use crate::object::Name;
use crate::orders::Outcome;

/// What evictions for a fault are called.
pub const ACTION: &str = "fault";

/// An eviction or a note that was refused is ordered again after this.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Times of objects are whole seconds: whoever is known to have a node for longer than this got it in an earlier one than all who get theirs now.
const SETTLED: SignedDuration = SignedDuration::from_millis(1500);

/// No restart begins while more nodes than this are bad, and more than half of all: then it is rather the network, or the API server.
const FEW: usize = 2;

/// Cool-downs grow no longer than this, unless the first one is longer.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// What becomes of pods that stand on something bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nothing.
    #[default]
    None,
    /// They go, and others come.
    Evict,
    /// All pods of their group go.
    Gang,
}

/// How faults are cared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Care {
    /// The policy of groups that name none.
    pub policy: Policy,
    /// A fault counts when it has lasted so long.
    pub grace: SignedDuration,
    /// That of a node counts when it has lasted so long as well: one that is cut off for a moment still runs its pods.
    pub node_grace: SignedDuration,
    /// After a restart the pods that have come are left alone for so long; after the next one in a row twice as long.
    pub cool_down: SignedDuration,
}

/// A group of a dialect.
pub type Group = (Dialect, Name);

/// What is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bad {
    /// A device that a pod holds.
    DeviceFaulty,
    /// The node does not answer, or says that it is not well.
    NodeNotReady,
    /// There is no such node any more.
    NodeGone,
}

/// What is to be said of a group whose pods are affected by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The first thing that is bad.
    pub bad: Bad,
    /// What, where, and what becomes of it.
    pub message: String,
}

/// A restart of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When it was decided.
    pub at: Timestamp,
    /// It is about pods that got their nodes no later than this.
    pub up_to: Timestamp,
    /// Which one it is in a row: each is cooled down from for twice as long as the one before.
    pub count: u32,
}

/// A restart is to be written on its group; evictions wait for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The group.
    pub group: Group,
    /// The group's identity.
    pub uid: String,
    /// The restart.
    pub restart: Restart,
    /// By this policy: never `None`.
    pub policy: Policy,
    /// Why.
    pub why: Trouble,
}

/// What is known of faults, and what has been done about them.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// By node: identities of pods that hold a faulty device, and what is wrong with it.
    hits: BTreeMap<String, BTreeMap<String, String>>,
    /// Nodes that are not ready, or gone.
    bad: BTreeMap<String, Bad>,
    /// Since when pods are affected by a fault, by identity.
    since: HashMap<String, Timestamp>,
    /// Since when pods of groups with a fault or a restart are known, by identity.
    met: HashMap<String, Timestamp>,
    restarts: BTreeMap<Group, Known>,
    /// Evictions that were ordered: whose, and when they may be ordered again.
    asked: HashMap<Name, (String, Timestamp)>,
    troubles: BTreeMap<Group, Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    restart: Restart,
    noted: Noted,
}

/// Whether a restart is written on its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    OnItsWay,
    Again(Timestamp),
    Done,
}

// === impl Policy ===

impl Policy {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Evict => "evict",
            Self::Gang => "gang",
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::None, Self::Evict, Self::Gang];
        all.into_iter().find(|policy| policy.word() == text).ok_or_else(|| {
            let text: String = text.chars().take(64).collect();
            format!("{text:?} is no fault policy: write none, evict or gang")
        })
    }
}

// === impl Care ===

impl Default for Care {
    fn default() -> Self {
        Self {
            policy: Policy::None,
            grace: SignedDuration::from_secs(10),
            node_grace: SignedDuration::from_mins(1),
            cool_down: SignedDuration::from_mins(5),
        }
    }
}

// === impl Bad ===

impl Bad {
    /// In one word: the reason of a condition.
    pub fn word(self) -> &'static str {
        match self {
            Self::DeviceFaulty => "DeviceFaulty",
            Self::NodeNotReady => "NodeNotReady",
            Self::NodeGone => "NodeGone",
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeviceFaulty => "a device is faulty",
            Self::NodeNotReady => "the node is not ready",
            Self::NodeGone => "the node is gone",
        })
    }
}

// === impl Restart ===

impl Restart {
    /// For how long pods that have come since are left alone.
    fn rest(&self, cool_down: SignedDuration) -> SignedDuration {
        let doubled = cool_down.saturating_mul(1 << self.count.saturating_sub(1).min(20));
        doubled.min(LONGEST.max(cool_down))
    }

    /// Whether they still are. A time that is far ahead is nobody's.
    pub fn is_cooling(&self, now: Timestamp, cool_down: SignedDuration) -> bool {
        let (passed, rest) = (now.duration_since(self.at), self.rest(cool_down));
        passed < rest && passed > -rest
    }

    /// Whether another one now would be the next in a row.
    fn is_recent(&self, now: Timestamp, cool_down: SignedDuration) -> bool {
        let (passed, window) =
            (now.duration_since(self.at), LONGEST.max(cool_down).saturating_mul(2));
        passed < window && passed > -self.rest(cool_down)
    }

    /// Whether it is about a pod that got its node then.
    fn covers(&self, came: Option<Timestamp>) -> bool {
        came.is_none_or(|came| came <= self.up_to)
    }
}

// === impl Faults ===

impl Faults {
    /// What an agent says of its node: identities of pods that hold a faulty device, and what is wrong with it.
    pub fn hold(&mut self, node: &str, pods: BTreeMap<String, String>) {
        if pods.is_empty() {
            self.hits.remove(node);
        } else {
            self.hits.insert(node.to_owned(), pods);
        }
    }

    /// By node, identities of pods that hold a faulty device, and what is wrong with it.
    pub(crate) fn hits(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        self.hits.iter().map(|(node, pods)| (node.as_str(), pods))
    }

    /// A group's trouble.
    pub fn trouble(&self, group: &Group) -> Option<&Trouble> {
        self.troubles.get(group)
    }

    /// How many pods are affected by a fault.
    pub fn faulted(&self) -> usize {
        self.since.len()
    }

    pub(crate) fn saw_node(&mut self, node: &str, ready: bool) {
        if ready {
            self.bad.remove(node);
        } else {
            self.bad.insert(node.to_owned(), Bad::NodeNotReady);
        }
    }

    pub(crate) fn lost_node(&mut self, node: &str) {
        self.hits.remove(node);
        self.bad.insert(node.to_owned(), Bad::NodeGone);
    }

    /// What is written on a group counts, unless something newer is on its way.
    pub(crate) fn saw_group(&mut self, group: Group, annotations: &Labels) {
        let Some(restart) = mark::read(annotations) else { return };
        if self.restarts.get(&group).is_none_or(|known| known.restart.at <= restart.at) {
            self.restarts.insert(group, Known { restart, noted: Noted::Done });
        }
    }

    pub(crate) fn lost_group(&mut self, group: &Group) {
        self.restarts.remove(group);
        self.troubles.remove(group);
    }

    pub(crate) fn lost_pod(&mut self, pod: &Name) {
        self.asked.remove(pod);
    }

    /// What has come of a note.
    pub(crate) fn noted(
        &mut self,
        group: &Group,
        at: Timestamp,
        outcome: &Outcome,
        now: Timestamp,
    ) {
        let known = self.restarts.get_mut(group).filter(|known| known.restart.at == at);
        let Some(known) = known else { return };
        match outcome {
            Outcome::Done => known.noted = Noted::Done,
            Outcome::Failed(_) | Outcome::Unsure(_) if known.noted != Noted::Done => {
                known.noted = Noted::Again(now.saturating_add(AGAIN).unwrap_or(now));
            }
            Outcome::Failed(_) | Outcome::Unsure(_) => {}
            Outcome::Lost(_) => drop(self.restarts.remove(group)),
        }
    }

    /// Nodes that nobody is on any more need not be remembered.
    fn forget(&mut self, known: impl Fn(&str) -> bool, used: &BTreeSet<&str>) {
        self.bad.retain(|node, _| known(node) || used.contains(node.as_str()));
    }
}
