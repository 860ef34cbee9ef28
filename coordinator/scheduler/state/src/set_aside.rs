//! Groups that no cycle can decide on: the decision panics. One such group must not keep all others waiting, so it is found, set
//! aside for a while, and told why.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::decide_with;
use muster_scheduler::decisions::Decisions;
use muster_scheduler::input::Pod;
use muster_scheduler::reason::{Reason, Waiting};
use muster_scheduler::snapshot::Snapshot;

use crate::cluster::Cluster;
use crate::cycle::group_of;

/// How long a group is left out after the first panic; twice as long after each further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);

/// And no longer than this.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// So many groups are looked for in one cycle; a cycle with more of them decides on those before the next one.
const MOST_IN_A_CYCLE: usize = 8;

/// Of a panic's message.
const LONGEST_MESSAGE: usize = 300;

/// Groups that are left out, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    groups: BTreeMap<String, Pause>,
    /// How often a decision of this cycle has panicked.
    panics: u64,
}

/// Why a group is left out, and until when.
#[derive(Debug)]
struct Pause {
    length: SignedDuration,
    until: Timestamp,
    /// What the panic said.
    message: String,
}

/// A decision, or the message of its panic.
type Attempt = Result<Decisions, String>;

// === impl SetAside ===

impl SetAside {
    /// When the next group is tried again.
    pub fn next(&self) -> Option<Timestamp> {
        self.groups.values().map(|pause| pause.until).min()
    }

    /// Whether a group is left out now.
    fn holds(&self, group: &str, now: Timestamp) -> bool {
        self.groups.get(group).is_some_and(|pause| pause.until > now)
    }

    fn hold(&mut self, group: String, message: String, now: Timestamp) {
        let before = self.groups.get(&group).map(|pause| pause.length);
        let length = before.map_or(FIRST_PAUSE, |length| (length * 2).min(LONGEST_PAUSE));
        let until = now.saturating_add(length).unwrap_or(Timestamp::MAX);
        self.groups.insert(group, Pause { length, until, message });
    }
}

// === impl Cluster ===

impl Cluster {
    /// Decides on all groups but those that make a decision panic; and how often one did.
    pub(crate) fn decide(&mut self, now: Timestamp) -> (Decisions, u64) {
        let mut decisions = match self.attempt(&BTreeSet::new(), now) {
            Ok(decisions) => decisions,
            Err(message) => self.search(message, now),
        };
        self.forget_mended(now);
        self.explain(&mut decisions, now);
        (decisions, std::mem::take(&mut self.set_aside.panics))
    }

    /// Finds the groups whose decision panics and sets them aside; what is decided without them.
    fn search(&mut self, mut message: String, now: Timestamp) -> Decisions {
        let mut before = Decisions::default();
        for _ in 0..MOST_IN_A_CYCLE {
            let waiting: Vec<String> = self.waiting_groups(now).into_iter().collect();
            // The decision on the first `fine` groups alone ends, the one on the first `bad` panics.
            let (mut fine, mut bad) = (0, waiting.len());
            match self.attempt_on(&waiting, 0, now) {
                Ok(decisions) => before = decisions,
                // No group that waits is to blame.
                Err(_) => return Decisions::default(),
            }
            while fine + 1 < bad {
                let middle = fine.midpoint(bad);
                match self.attempt_on(&waiting, middle, now) {
                    Ok(decisions) => (fine, before) = (middle, decisions),
                    Err(told) => (bad, message) = (middle, told),
                }
            }
            let Some(culprit) = waiting.into_iter().nth(fine) else { return before };
            self.set_aside.hold(culprit, message, now);
            match self.attempt(&BTreeSet::new(), now) {
                Ok(decisions) => return decisions,
                Err(told) => message = told,
            }
        }
        before
    }

    /// Decides on the first so many of these groups.
    fn attempt_on(&mut self, waiting: &[String], count: usize, now: Timestamp) -> Attempt {
        let rest = waiting.get(count..).unwrap_or_default();
        self.attempt(&rest.iter().cloned().collect(), now)
    }

    /// Decides without these groups and those that are set aside.
    fn attempt(&mut self, without: &BTreeSet<String>, now: Timestamp) -> Attempt {
        // To read the objects is part of it. A decision only reads: what it leaves when it panics is dropped here.
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let settings = &self.settings;
            let snapshot = self.snapshot_without(without, now);
            decide_with(&snapshot, &settings.config, now, &settings.registry)
        }));
        decided.map_err(|panic| {
            self.set_aside.panics = self.set_aside.panics.saturating_add(1);
            message_of(&*panic)
        })
    }

    /// The cluster as decisions see it, without pods of these groups, and of those that are set aside, that have no node.
    pub(crate) fn snapshot_without(&self, groups: &BTreeSet<String>, now: Timestamp) -> Snapshot {
        let mut overlay = self.overlay();
        if !groups.is_empty() || !self.set_aside.groups.is_empty() {
            let is_out =
                |group: &String| groups.contains(group) || self.set_aside.holds(group, now);
            let waits = self.input.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
            let out = waits.filter(|pod| group_of(pod).as_ref().is_some_and(is_out));
            overlay.unread = out.map(Pod::name).collect();
        }
        Snapshot::build(&self.input, &overlay, &self.settings.config.params, now)
    }

    /// Groups that a pod without a node is of, and that are not set aside.
    fn waiting_groups(&self, now: Timestamp) -> BTreeSet<String> {
        let waits = self.input.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        waits.filter_map(group_of).filter(|group| !self.set_aside.holds(group, now)).collect()
    }

    /// Groups whose pause is over have been decided on by now.
    fn forget_mended(&mut self, now: Timestamp) {
        self.set_aside.groups.retain(|_, pause| pause.until > now);
    }

    /// Says of groups that are set aside why they wait.
    fn explain(&self, decisions: &mut Decisions, now: Timestamp) {
        if self.set_aside.groups.is_empty() {
            return;
        }
        let mut pods: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.input.pods.iter().filter(|pod| pod.spec.node_name.is_empty()) {
            if let Some(group) = group_of(pod).filter(|group| self.set_aside.holds(group, now)) {
                *pods.entry(group).or_default() += 1;
            }
        }
        for (group, pods) in pods {
            let Some(pause) = self.set_aside.groups.get(&group) else { continue };
            decisions.reasons.insert(group, pause.waiting(pods));
        }
    }
}

// === impl Pause ===

impl Pause {
    fn waiting(&self, pods: usize) -> Waiting {
        let message = format!(
            "the scheduler failed while it decided on this group ({}); it leaves the group out until {}, then tries again",
            self.message, self.until
        );
        Waiting {
            reason: Reason::DecisionFailed,
            message,
            pods,
            placed: 0,
            needed: pods,
            nodes: BTreeMap::new(),
        }
    }
}

/// What a panic says, cut to a length that fits a condition.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").chars().take(LONGEST_MESSAGE).collect()
}
