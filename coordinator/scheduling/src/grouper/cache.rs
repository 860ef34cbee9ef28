//! What was read, for a few seconds: bounded in number and in size. Time is given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::core::ApiResource;
use muster_podgrouper::{Key, Object, Refusal};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::bounded::Bounded;

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// One object.
    Object(Key),
    /// The names of a namespace's PodGroups.
    Groups(String),
    /// Pods of a namespace with these labels.
    Pods(String, Vec<(String, String)>),
    /// Where objects of an API version and a kind are.
    Kind(String, String),
}

/// What was answered. Copies share it.
#[derive(Clone, Debug)]
pub enum Held {
    /// An object.
    Object(Arc<Object>),
    /// Why there is none.
    Refused(Refusal),
    /// Names of PodGroups.
    Groups(Arc<Mutex<Names>>),
    /// Pods by name, of which the metadata alone is known.
    Pods(Arc<Mutex<BTreeMap<String, Arc<Object>>>>),
    /// Where a kind is, and whether its objects are in namespaces.
    Kind(Arc<(ApiResource, bool)>),
}

/// Names of PodGroups.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Those that are known.
    pub known: BTreeSet<Box<str>>,
    /// Whether there were more than anybody wants to keep.
    pub more: bool,
}

/// How much is kept for how long.
#[derive(Clone, Debug)]
pub struct Limits {
    /// So many answers.
    pub entries: usize,
    /// So many bytes, about.
    pub bytes: usize,
    /// An object.
    pub object: Duration,
    /// That something is not there.
    pub absent: Duration,
    /// Names of PodGroups. What is new is found when it is created a second time, what is gone when it is read.
    pub groups: Duration,
    /// Pods of a label.
    pub pods: Duration,
    /// Where a kind is.
    pub kind: Duration,
}

/// What was read, and when.
#[derive(Debug)]
pub struct Cache {
    limits: Limits,
    held: Bounded<Want, (Held, Instant)>,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 8192,
            bytes: 64 * 1024 * 1024,
            object: Duration::from_secs(5),
            absent: Duration::from_secs(1),
            groups: Duration::from_secs(60),
            pods: Duration::from_secs(1),
            kind: Duration::from_secs(600),
        }
    }
}

impl Limits {
    fn lasts(&self, held: &Held) -> Duration {
        match held {
            Held::Object(_) => self.object,
            Held::Refused(Refusal::Forbidden) => self.object,
            Held::Refused(_) => self.absent,
            Held::Groups(_) => self.groups,
            Held::Pods(_) => self.pods,
            Held::Kind(_) => self.kind,
        }
    }
}

// === impl Cache ===

impl Cache {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        let held = Bounded::new(limits.entries, limits.bytes);
        Self { limits, held }
    }

    /// What is known, if it is young enough; and when it was read.
    pub fn get(&self, want: &Want, now: Instant) -> Option<(&Held, Instant)> {
        let (held, read) = self.held.get(want)?;
        let age = now.saturating_duration_since(*read);
        (age < self.limits.lasts(held)).then_some((held, *read))
    }

    /// This was read. The oldest make room; it stays itself, however large it is.
    pub fn put(&mut self, want: Want, held: Held, now: Instant) {
        let bytes = weight(&held);
        self.held.put(want, (held, now), bytes);
    }

    /// It is to be read again.
    pub fn forget(&mut self, want: &Want) {
        self.held.remove(want);
    }

    /// How many answers are kept, and how large they are.
    pub fn size(&self) -> (usize, usize) {
        self.held.size()
    }
}

fn weight(held: &Held) -> usize {
    const EACH: usize = 256;
    EACH + match held {
        Held::Object(object) => weigh(object.raw()),
        Held::Refused(_) | Held::Kind(_) => 0,
        Held::Groups(names) => names.lock().known.iter().map(|name| name.len() + 48).sum(),
        Held::Pods(pods) => pods.lock().values().map(|pod| EACH + weigh(pod.raw())).sum(),
    }
}

/// About what it takes in memory.
fn weigh(value: &Value) -> usize {
    32 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weigh).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| 48 + key.len() + weigh(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn want(name: &str) -> Want {
        Want::Object(Key::new("v1", "Pod", "ns", name))
    }

    fn object(bytes: usize) -> Held {
        Held::Object(Arc::new(Object::new(json!({"text": "x".repeat(bytes)}))))
    }

    #[test]
    fn an_answer_lasts_as_long_as_its_kind() {
        let (mut cache, start) = (Cache::new(Limits::default()), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        cache.put(want("there"), object(1), start);
        cache.put(want("gone"), Held::Refused(Refusal::Absent), start);
        cache.put(want("secret"), Held::Refused(Refusal::Forbidden), start);
        let known = |now: Instant| {
            ["there", "gone", "secret"].map(|name| cache.get(&want(name), now).is_some())
        };
        assert_eq!(known(start), [true, true, true]);
        assert_eq!(known(later(2)), [true, false, true]);
        assert_eq!(known(later(5)), [false, false, false]);
    }

    #[test]
    fn the_oldest_make_room_by_number_and_by_size() {
        let limits = Limits { entries: 3, bytes: 5000, ..Limits::default() };
        let (mut cache, now) = (Cache::new(limits), Instant::now());
        for name in ["a", "b", "c", "d"] {
            cache.put(want(name), object(10), now);
        }
        assert!(cache.get(&want("a"), now).is_none());
        assert_eq!(cache.size().0, 3);
        cache.put(want("b"), object(10), now);
        cache.put(want("large"), object(4500), now);
        assert!(cache.get(&want("large"), now).is_some());
        assert!(cache.get(&want("c"), now).is_none());
        assert!(cache.size().1 <= 5000, "{:?}", cache.size());
        cache.put(want("huge"), object(9000), now);
        assert_eq!(cache.size().0, 1, "it is kept alone");
        cache.forget(&want("huge"));
        assert_eq!(cache.size(), (0, 0));
    }
}
