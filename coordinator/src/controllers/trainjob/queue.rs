//! Which jobs are to be looked at, and when: each by one at a time, many at once, those that fail later and later.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The first pause after a failure; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(20);

/// And none is longer.
const LONGEST: Duration = Duration::from_secs(120);

/// How long one rests whose look has died.
const BROKEN: Duration = Duration::from_secs(30);

/// Keys that wait, with what is remembered of each.
#[derive(Debug)]
pub struct Queue<K, S> {
    slots: HashMap<K, Slot<S>>,
    ready: VecDeque<K>,
    later: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Slot<S> {
    /// None while somebody looks at it.
    kept: Option<S>,
    /// Whether it is in `ready`, or is to be as soon as it comes back.
    wanted: bool,
    due: Option<Instant>,
    failures: u32,
}

/// What comes after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, or another look after this.
    Done(Option<Duration>),
    /// Another try, later and later.
    Failed,
    /// It is not there any more.
    Gone,
}

// === impl Queue ===

impl<K, S> Default for Queue<K, S> {
    fn default() -> Self {
        Self { slots: HashMap::new(), ready: VecDeque::new(), later: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + std::hash::Hash, S: Default> Queue<K, S> {
    /// It is to be looked at now.
    pub fn poke(&mut self, key: &K) {
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot {
            kept: Some(S::default()),
            wanted: false,
            due: None,
            failures: 0,
        });
        if std::mem::replace(&mut slot.wanted, true) {
            return;
        }
        if slot.kept.is_some() {
            self.ready.push_back(key.clone());
        }
    }

    /// All whose last look has failed are to be looked at now.
    pub fn poke_failed(&mut self) {
        let failed = self.slots.iter().filter(|(_, slot)| slot.failures > 0);
        let failed: Vec<K> = failed.map(|(key, _)| key.clone()).collect();
        failed.iter().for_each(|key| self.poke(key));
    }

    /// The next to be looked at, with what is remembered of it.
    pub fn take(&mut self) -> Option<(K, S)> {
        let key = self.ready.pop_front()?;
        let slot = self.slots.get_mut(&key)?;
        slot.wanted = false;
        if let Some(due) = slot.due.take() {
            self.later.remove(&(due, key.clone()));
        }
        Some((key, slot.kept.take()?))
    }

    /// Somebody has looked at it.
    pub fn put_back(&mut self, key: &K, kept: S, next: Next, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let pause = match next {
            Next::Gone if !slot.wanted => {
                self.slots.remove(key);
                return;
            }
            Next::Gone => {
                slot.failures = 0;
                None
            }
            Next::Done(pause) => {
                slot.failures = 0;
                pause
            }
            Next::Failed => {
                slot.failures = slot.failures.saturating_add(1);
                let doublings = (slot.failures - 1).min(16);
                Some((FIRST * 2u32.pow(doublings)).min(LONGEST))
            }
        };
        slot.kept = Some(if next == Next::Gone { S::default() } else { kept });
        Self::rest(slot, &mut self.ready, &mut self.later, key, pause, now);
    }

    /// Whoever looked at it has died: what was remembered is lost.
    pub fn broken(&mut self, key: &K, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.failures = slot.failures.saturating_add(1);
        slot.wanted = false;
        slot.kept = Some(S::default());
        Self::rest(slot, &mut self.ready, &mut self.later, key, Some(BROKEN), now);
    }

    fn rest(
        slot: &mut Slot<S>,
        ready: &mut VecDeque<K>,
        later: &mut BTreeSet<(Instant, K)>,
        key: &K,
        pause: Option<Duration>,
        now: Instant,
    ) {
        if slot.wanted {
            ready.push_back(key.clone());
        } else if let Some(pause) = pause {
            let due = now + pause;
            slot.due = Some(due);
            later.insert((due, key.clone()));
        }
    }

    /// When somebody is to be looked at next, if nothing happens.
    pub fn due(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }

    /// Those whose time has come are to be looked at.
    pub fn promote(&mut self, now: Instant) {
        while let Some((due, key)) = self.later.pop_first() {
            if due > now {
                self.later.insert((due, key));
                return;
            }
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.due = None;
            }
            self.poke(&key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// All of them.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(keys: &[&'static str]) -> Queue<&'static str, u32> {
        let mut queue = Queue::default();
        keys.iter().for_each(|key| queue.poke(key));
        queue
    }

    #[test]
    fn each_is_taken_once_and_again_only_when_it_is_back() {
        let now = Instant::now();
        let mut queue = queue(&["a", "b", "a"]);
        assert_eq!(queue.take(), Some(("a", 0)));
        queue.poke(&"a");
        assert_eq!(queue.take(), Some(("b", 0)));
        assert_eq!(queue.take(), None, "somebody looks at it");
        queue.put_back(&"a", 7, Next::Done(None), now);
        assert_eq!(queue.take(), Some(("a", 7)), "what was said meanwhile counts");
        queue.put_back(&"a", 8, Next::Done(None), now);
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn those_that_fail_come_later_and_later_and_at_once_when_something_happens() {
        let now = Instant::now();
        let mut queue = queue(&["a"]);
        let mut pauses = Vec::new();
        for _ in 0..16 {
            let (key, kept) = queue.take().unwrap();
            queue.put_back(&key, kept, Next::Failed, now);
            let due = queue.due().unwrap();
            queue.promote(due - Duration::from_millis(1));
            assert_eq!(queue.take(), None);
            pauses.push(due - now);
            queue.promote(due);
        }
        assert_eq!(pauses[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(pauses.last(), Some(&LONGEST));
        let (key, kept) = queue.take().unwrap();
        queue.put_back(&key, kept, Next::Failed, now);
        queue.poke_failed();
        let (key, kept) = queue.take().unwrap();
        assert_eq!(queue.due(), None, "it waits once");
        queue.put_back(&key, kept, Next::Done(Some(LONGEST)), now);
        queue.poke_failed();
        assert_eq!(queue.take(), None, "it does not fail any more");
    }

    #[test]
    fn what_is_gone_is_forgotten_unless_it_is_there_again() {
        let now = Instant::now();
        let mut queue = queue(&["a", "b"]);
        let (a, _) = queue.take().unwrap();
        let (b, _) = queue.take().unwrap();
        queue.poke(&a);
        queue.put_back(&a, 5, Next::Gone, now);
        queue.put_back(&b, 5, Next::Gone, now);
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.take(), Some(("a", 0)), "another one of its name");
    }

    #[test]
    fn one_that_has_died_rests() {
        let now = Instant::now();
        let mut queue = queue(&["a"]);
        let (a, _) = queue.take().unwrap();
        queue.poke(&a);
        queue.broken(&a, now);
        assert_eq!(queue.take(), None);
        assert_eq!(queue.due(), Some(now + BROKEN));
    }
}
