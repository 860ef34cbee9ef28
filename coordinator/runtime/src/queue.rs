//! Which keys are to be reconciled, and when: each by one task at a time, many at once, those that fail later and later.
//!
//! ```text
//!               add                 take                    put_back
//!   (unknown) ───────▶ ready ───────────────▶ running ──────────────────▶ idle, waiting, or ready if it was added meanwhile
//!                        ▲ promote, when due                                  │ add
//!                        └────────────────────────────────────────────────────┘
//! ```
//!
//! Pure: times are arguments.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff;

/// Keys, with the state that is kept of each between two reconciles.
#[derive(Debug)]
pub struct WorkQueue<K, S> {
    slots: HashMap<K, Slot<S>>,
    ready: VecDeque<K>,
    waiting: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Slot<S> {
    /// None while a task has it.
    state: Option<S>,
    /// Whether it is in `ready`, or is to be as soon as it is back.
    dirty: bool,
    /// When it is reconciled though nothing changes: its place in `waiting`.
    due: Option<Instant>,
    /// It is not reconciled before, whatever changes.
    rests_until: Option<Instant>,
    failures: u32,
}

/// How a reconcile has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// All is done until something changes, or for so long.
    Done(Option<Duration>),
    /// It has failed and is tried again, later and later.
    Failed {
        /// A random number from 0 to 1, for the jitter of the pause.
        fraction: f64,
        /// The pause is no longer than this, though never shorter than a change would cut it.
        within: Option<Duration>,
    },
    /// The object is not there any more.
    Gone,
    /// The task has panicked, and the state with it is lost.
    Panicked,
}

// === impl WorkQueue ===

impl<K, S> Default for WorkQueue<K, S> {
    fn default() -> Self {
        Self { slots: HashMap::new(), ready: VecDeque::new(), waiting: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Hash, S: Default> WorkQueue<K, S> {
    /// Something has changed that concerns this key: it is reconciled as soon as it may be.
    pub fn add(&mut self, key: &K, now: Instant) {
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot {
            state: Some(S::default()),
            dirty: false,
            due: None,
            rests_until: None,
            failures: 0,
        });
        match slot.rests_until.filter(|until| *until > now) {
            Some(until) if slot.state.is_some() => {
                if slot.due.is_none_or(|due| due > until) {
                    Self::schedule(slot, &mut self.waiting, key, Some(until));
                }
            }
            _ => {
                if !std::mem::replace(&mut slot.dirty, true) && slot.state.is_some() {
                    self.ready.push_back(key.clone());
                }
            }
        }
    }

    /// Something has changed that concerns whoever could not go on: all whose last reconcile failed are reconciled as soon
    /// as they may be.
    pub fn add_failed(&mut self, now: Instant) {
        let failed = self.slots.iter().filter(|(_, slot)| slot.failures > 0);
        let failed: Vec<K> = failed.map(|(key, _)| key.clone()).collect();
        failed.iter().for_each(|key| self.add(key, now));
    }

    /// The next key to reconcile, with its state. Nobody else gets it before it is put back.
    pub fn take(&mut self) -> Option<(K, S)> {
        let key = self.ready.pop_front()?;
        let slot = self.slots.get_mut(&key)?;
        slot.dirty = false;
        slot.rests_until = None;
        Self::schedule(slot, &mut self.waiting, &key, None);
        Some((key, slot.state.take()?))
    }

    /// A reconcile has ended. The state of one that panicked or whose object is gone is dropped.
    pub fn put_back(&mut self, key: &K, state: S, ended: Ended, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.state = Some(state);
        let mut due = None;
        match ended {
            Ended::Gone if !slot.dirty => {
                self.slots.remove(key);
                return;
            }
            Ended::Gone => {
                slot.failures = 0;
                slot.state = Some(S::default());
            }
            Ended::Done(after) => {
                slot.failures = 0;
                due = after.map(|after| now + after);
            }
            Ended::Failed { fraction, within } => {
                slot.failures = slot.failures.saturating_add(1);
                let pause = backoff::pause(slot.failures, fraction);
                let rest = pause.min(backoff::SHORTEST_CUT);
                slot.rests_until = Some(now + rest);
                due = Some(now + within.map_or(pause, |within| pause.min(within).max(rest)));
            }
            Ended::Panicked => {
                slot.failures = slot.failures.saturating_add(1);
                slot.state = Some(S::default());
                slot.rests_until = Some(now + backoff::PANICKED);
                due = slot.rests_until;
            }
        }
        let dirty = std::mem::replace(&mut slot.dirty, false);
        Self::schedule(slot, &mut self.waiting, key, due);
        if dirty {
            self.add(key, now);
        }
    }

    fn schedule(
        slot: &mut Slot<S>,
        waiting: &mut BTreeSet<(Instant, K)>,
        key: &K,
        due: Option<Instant>,
    ) {
        if let Some(before) = slot.due.take() {
            waiting.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            slot.due = Some(due);
            waiting.insert((due, key.clone()));
        }
    }

    /// When the next key is due, if nothing happens.
    pub fn due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// Makes those ready whose time has come.
    pub fn promote(&mut self, now: Instant) {
        while self.due().is_some_and(|due| due <= now) {
            let Some((_, key)) = self.waiting.pop_first() else { return };
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.due = None;
            }
            self.add(&key, now);
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }
}

#[cfg(test)]
mod tests;
