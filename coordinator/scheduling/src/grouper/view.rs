//! What one pass over one pod sees: what it has read itself, then what others have read. What nobody has read is noted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use muster_podgrouper::{Key, Object, Objects, Refusal, names};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cache::{Cache, Held, Names, Want};

/// More groups of one owner are not looked at.
const MOST_GROUPS: usize = 256;

/// What a pass has read itself: it stays, however long the pass takes.
pub type Pins = BTreeMap<Want, Held>;

/// What one pass sees.
pub struct View<'a> {
    pod: &'a Object,
    pins: &'a Pins,
    cache: &'a Mutex<Cache>,
    now: Instant,
    wanted: RefCell<Option<Want>>,
    used: RefCell<Vec<(Want, Instant)>>,
    listed: Cell<bool>,
}

// === impl View ===

impl<'a> View<'a> {
    /// Of a pod, now.
    pub fn new(pod: &'a Object, pins: &'a Pins, cache: &'a Mutex<Cache>, now: Instant) -> Self {
        let (wanted, used) = (RefCell::default(), RefCell::default());
        Self { pod, pins, cache, now, wanted, used, listed: Cell::new(false) }
    }

    /// What has to be read first.
    pub fn wanted(&self) -> Option<Want> {
        self.wanted.borrow_mut().take()
    }

    /// What others had read, and when.
    pub fn used(self) -> Vec<(Want, Instant)> {
        self.used.into_inner()
    }

    /// Whether pods were counted.
    pub fn has_listed(&self) -> bool {
        self.listed.get()
    }

    fn held(&self, want: Want) -> Result<Held, Refusal> {
        if let Some(held) = self.pins.get(&want) {
            return Ok(held.clone());
        }
        let known = self.cache.lock().get(&want, self.now).map(|(held, at)| (held.clone(), at));
        match known {
            Some((held, read)) => {
                self.used.borrow_mut().push((want, read));
                Ok(held)
            }
            None => {
                self.wanted.borrow_mut().get_or_insert(want);
                Err(Refusal::Unread)
            }
        }
    }

    fn object(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        match self.held(Want::Object(key.clone()))? {
            Held::Object(object) => Ok(object),
            Held::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::Absent),
        }
    }

    /// Asks something of the names of a namespace's groups.
    fn groups<T>(&self, namespace: &str, ask: impl Fn(&Names) -> T) -> Result<T, Refusal> {
        match self.held(Want::Groups(namespace.to_owned()))? {
            Held::Groups(names) => Ok(ask(&names.lock())),
            Held::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::Absent),
        }
    }
}

impl Objects for View<'_> {
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        if key.api_version == names::POD_GROUP_API && key.kind == names::POD_GROUP {
            // Most groups that are asked for are not there: their names are known without a read for each.
            let there = self.groups(&key.namespace, |names| {
                names.more || names.known.contains(key.name.as_str())
            })?;
            if !there {
                return Err(Refusal::Absent);
            }
        }
        self.object(key)
    }

    fn pods(&self, namespace: &str, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal> {
        self.listed.set(true);
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let want = Want::Pods(namespace.to_owned(), labels.iter().map(owned).collect());
        let pods = match self.held(want)? {
            Held::Pods(pods) => pods,
            Held::Refused(refusal) => return Err(refusal),
            _ => return Err(Refusal::Absent),
        };
        let mut pods = pods.lock();
        // The list may be older than the pod.
        let fits = labels.iter().all(|(key, value)| self.pod.label(key) == Some(*value));
        if fits && self.pod.namespace() == namespace && !pods.contains_key(self.pod.name()) {
            pods.insert(self.pod.name().to_owned(), Arc::new(metadata_of(self.pod)));
        }
        Ok(pods.values().cloned().collect())
    }

    fn pod_groups(&self, namespace: &str, prefix: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        let names = self.groups(namespace, |names| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let from = names.known.range::<str, _>(from);
            let named = from.take_while(|name| name.starts_with(prefix)).take(MOST_GROUPS);
            let mut named: Vec<String> = named.map(|name| name.to_string()).collect();
            if names.more && named.is_empty() {
                named.push(prefix.to_owned());
            }
            named
        })?;
        let mut groups = Vec::new();
        for name in names {
            match self.object(&Key::pod_group(namespace, &name)) {
                Ok(group) => groups.push(group),
                Err(Refusal::Absent) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(groups)
    }
}

fn metadata_of(pod: &Object) -> Object {
    let metadata = pod.raw().get("metadata").cloned().unwrap_or_default();
    let object: Map<String, Value> = [("metadata".to_owned(), metadata)].into_iter().collect();
    Object::new(object.into()).or_of_kind("v1", "Pod")
}
