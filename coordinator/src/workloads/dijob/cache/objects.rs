//! Objects of one kind, by job: what the watch shows, with what was just written laid over it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::workloads::Key;
use muster_runtime::index::OwnerIndex;
use muster_runtime::overlay::{Newest, ObjectVersion, Overlay};

/// How long the watch may lag behind our writes. Longer than for others: a pod that is taken for lost is made anew, with
/// another name.
pub const CACHE_LAG_MAX: Duration = Duration::from_secs(30);

/// An object that we have deleted is remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Deleted objects that are remembered at most.
const MOST_DELETED: usize = 100_000;

/// One object, as it was seen or answered.
#[derive(Clone, Debug)]
pub struct Object<T> {
    /// Which it is.
    pub version: ObjectVersion,
    /// The name of its job.
    pub job: String,
    /// What is kept of it.
    pub kept: T,
}

/// All objects of a kind.
#[derive(Debug)]
pub struct Objects<T> {
    /// As they are by now.
    objects: BTreeMap<Key, Object<T>>,
    jobs: OwnerIndex<Key, Key>,
    /// What we have made or deleted, until the watch shows it.
    writes: Overlay<Key, Object<T>>,
    /// Uids of those that we have deleted lately.
    deleted: HashMap<Key, (String, Instant)>,
}

// === impl Objects ===

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            jobs: OwnerIndex::default(),
            writes: Overlay::with_lag(CACHE_LAG_MAX),
            deleted: HashMap::new(),
        }
    }
}

impl<T: Clone> Objects<T> {
    /// What the watch has of an object now. The jobs that this concerns.
    pub fn watched(&mut self, key: &Key, watched: Option<Object<T>>, now: Instant) -> Vec<Key> {
        let version = watched.as_ref().map(|object| object.version.clone());
        let newest = match self.writes.newest(key, version.as_ref(), now) {
            Newest::Watched => watched,
            Newest::Written(object) => Some(object.clone()),
            Newest::Deleted => None,
        };
        self.writes.settle(key, version.as_ref(), now);
        self.set(key, newest)
    }

    /// We have made an object, and the API server answers with it. The jobs that this concerns.
    pub fn made(&mut self, key: Key, object: Object<T>, now: Instant) -> Vec<Key> {
        match self.deleted.get(&key) {
            // It is on its way out, as we wanted.
            Some((uid, _)) if *uid == object.version.uid => return Vec::new(),
            // Another one has its name.
            Some(_) => drop(self.deleted.remove(&key)),
            None => {}
        }
        let known = self.objects.get(&key).map(|known| known.version.clone());
        self.writes.wrote(key.clone(), object.version.clone(), object.clone(), now);
        match self.writes.newest(&key, known.as_ref(), now) {
            Newest::Written(_) => self.set(&key, Some(object)),
            _ => {
                self.writes.settle(&key, known.as_ref(), now);
                Vec::new()
            }
        }
    }

    /// We have deleted an object. The jobs that this concerns.
    pub fn deleted(&mut self, key: Key, uid: &str, now: Instant) -> Vec<Key> {
        if self.deleted.len() >= MOST_DELETED {
            self.deleted.retain(|_, (_, since)| now.duration_since(*since) < CACHE_LAG_MAX);
        }
        self.deleted.insert(key.clone(), (uid.to_owned(), now));
        self.writes.deleted(key.clone(), uid, now);
        match self.objects.get(&key) {
            Some(known) if known.version.uid == uid => self.set(&key, None),
            _ => Vec::new(),
        }
    }

    fn set(&mut self, key: &Key, object: Option<Object<T>>) -> Vec<Key> {
        let before = self.objects.get(key).map(|known| &known.version);
        if before == object.as_ref().map(|object| &object.version) {
            return Vec::new();
        }
        let job = object.as_ref().map(|object| Key::new(&key.namespace, &object.job));
        match object {
            Some(object) => drop(self.objects.insert(key.clone(), object)),
            None => drop(self.objects.remove(key)),
        }
        self.jobs.set(key.clone(), job)
    }

    /// Objects that the watch should have shown by now.
    pub fn late(&self, now: Instant) -> Vec<Key> {
        self.writes.late(now).cloned().collect()
    }

    /// Those that are known.
    pub fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    /// One of them.
    pub fn get(&self, key: &Key) -> Option<T> {
        self.objects.get(key).map(|object| object.kept.clone())
    }

    /// Those of a job, by name.
    pub fn of_job(&self, job: &Key) -> Vec<T> {
        let mut keys: Vec<&Key> = self.jobs.owned(job).collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| self.get(key)).collect()
    }

    /// All of a namespace, or of all: by job and name.
    pub fn all(&self, namespace: Option<&str>) -> Vec<T> {
        let wanted = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let mut found: Vec<(&Key, &Object<T>)> =
            self.objects.iter().filter(|(key, _)| wanted(key)).collect();
        // They are sorted by name already.
        found.sort_by_key(|(key, object)| (&key.namespace, &object.job));
        found.into_iter().map(|(_, object)| object.kept.clone()).collect()
    }

    /// Whether we have deleted an object of this name lately.
    pub fn was_deleted(&self, key: &Key) -> bool {
        self.deleted.get(key).is_some_and(|(_, since)| since.elapsed() < REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: &str) -> Object<()> {
        let version = ObjectVersion { uid: uid.to_owned(), resource_version: version.to_owned() };
        Object { version, job: "cartpole".to_owned(), kept: () }
    }

    fn at(name: &str) -> Key {
        Key::new("rl", name)
    }

    #[test]
    fn what_was_made_stays_though_the_watch_lacks_it_for_a_while() {
        let (mut objects, now) = (Objects::default(), Instant::now());
        assert_eq!(objects.made(at("a"), object("1", "5"), now), [at("cartpole")]);
        assert_eq!(objects.watched(&at("a"), None, now), [], "the watch is not that far");
        assert_eq!(objects.keys(), [at("a")]);
        assert_eq!(objects.watched(&at("a"), Some(object("1", "5")), now), [], "that is the one");
        assert_eq!(objects.watched(&at("a"), None, now), [at("cartpole")], "now it is gone");
        objects.made(at("b"), object("2", "6"), now);
        let late = now + CACHE_LAG_MAX;
        let gone = objects.watched(&at("b"), None, late);
        assert_eq!(gone, [at("cartpole")], "it should have been seen");
        assert!(objects.objects.is_empty() && objects.jobs.is_empty());
        assert_eq!(objects.late(late), []);
    }

    #[test]
    fn what_was_deleted_does_not_come_back_but_another_of_its_name_does() {
        let (mut objects, now) = (Objects::default(), Instant::now());
        objects.watched(&at("a"), Some(object("1", "5")), now);
        assert_eq!(objects.deleted(at("a"), "1", now), [at("cartpole")]);
        assert_eq!(objects.watched(&at("a"), Some(object("1", "6")), now), []);
        assert_eq!(objects.keys(), []);
        objects.watched(&at("a"), Some(object("2", "7")), now);
        assert_eq!(objects.objects[&at("a")].version.uid, "2");
        assert_eq!(objects.deleted(at("a"), "1", now), [], "it is another one");
        assert_eq!(objects.keys(), [at("a")]);
    }

    #[test]
    fn another_one_under_the_name_of_one_that_was_deleted_is_known() {
        let (mut objects, now) = (Objects::default(), Instant::now());
        objects.made(at("a"), object("1", "5"), now);
        objects.deleted(at("a"), "1", now);
        objects.made(at("a"), object("1", "6"), now);
        assert_eq!(objects.keys(), [], "it is on its way out");
        assert_eq!(objects.watched(&at("a"), Some(object("1", "5")), now), []);
        objects.made(at("a"), object("2", "7"), now);
        assert_eq!(objects.keys(), [at("a")]);
        objects.deleted(at("a"), "2", now);
        let late = now + CACHE_LAG_MAX;
        assert_eq!(objects.late(late), [at("a")]);
        objects.watched(&at("a"), None, late);
        assert_eq!(objects.late(late), []);
    }

    #[test]
    fn an_answer_that_comes_late_does_not_replace_a_newer_object() {
        let (mut objects, now) = (Objects::default(), Instant::now());
        objects.watched(&at("a"), Some(object("1", "9")), now);
        objects.made(at("a"), object("1", "8"), now);
        assert_eq!(objects.objects[&at("a")].version.resource_version, "9");
        assert_eq!(objects.late(now + CACHE_LAG_MAX), [], "nothing is waited for");
    }
}
