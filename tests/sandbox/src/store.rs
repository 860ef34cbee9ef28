//! The store: one revision counter, one ordered table per resource, one log of changes per table.
//!
//! A write names the revision it was computed from and is refused when the object has moved on since, so
//! callers may think (and call webhooks) without holding a lock. Lists are snapshots of a persistent map
//! and never block a writer. Watchers get changes pushed under the same lock that orders the writes;
//! a watcher that does not keep up is cut off, the writer never waits for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use imbl::OrdMap;
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

mod table;

use table::Table;
pub use table::{Change, Filter};

/// Namespace (empty for cluster-scoped objects) and name.
pub type Key = (String, String);

/// All objects of one resource at one moment.
pub type Snapshot = OrdMap<Key, Arc<Object>>;

/// One stored object. `value` and `bare` carry neither `apiVersion` nor `kind`: the same object can be
/// served in several versions.
#[derive(Debug)]
pub struct Object {
    /// The revision that wrote it.
    pub revision: u64,
    /// The object as JSON.
    pub value: Value,
    /// The same, serialised.
    pub bare: Bytes,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing under this name.
    Absent,
    /// The object as this revision left it.
    Revision(u64),
}

/// The object moved on since the writer read it (or, for [`Expect::Absent`], the name is taken).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raced;

/// The asked revision is older than the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

/// Limits of a store.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Changes kept per resource.
    pub log: usize,
    /// Changes that may wait for one watcher before it is cut off.
    pub backlog: usize,
}

/// All objects of the sandbox.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    limits: Limits,
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    tables: HashMap<String, Table>,
    next_watcher: u64,
}

/// A subscription: what has happened since the asked revision, and what happens from now on.
#[derive(Debug)]
pub struct Subscription {
    /// Changes after the asked revision, oldest first.
    pub replay: Vec<Arc<Change>>,
    /// Changes to come. Closed when the watcher was too slow or watches were dropped.
    pub changes: mpsc::Receiver<Arc<Change>>,
    /// The store's revision when the subscription began.
    pub revision: u64,
    /// Set when the watcher was cut off for being slow.
    pub lagged: Arc<AtomicBool>,
}

// === impl Object ===

impl Object {
    /// An object that was never stored: the answer to a dry run.
    pub fn unstored(value: Value) -> Self {
        let bare = serialised(&value);
        Self { revision: 0, value, bare }
    }

    fn new(revision: u64, mut value: Value) -> Self {
        meta::edit(&mut value)
            .insert("resourceVersion".into(), Value::String(revision.to_string()));
        let bare = serialised(&value);
        Self { revision, value, bare }
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { log: 8192, backlog: 8192 }
    }
}

// === impl Store ===

impl Store {
    /// An empty store.
    pub fn new(limits: Limits) -> Self {
        let inner = Inner { revision: 1, tables: HashMap::new(), next_watcher: 0 };
        Self { inner: Mutex::new(inner), limits }
    }

    /// The revision of the latest write.
    pub fn revision(&self) -> u64 {
        self.inner.lock().revision
    }

    /// One object. `resource` is `plural` or `plural.group`.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.inner.lock().tables.get(resource)?.objects.get(&key).cloned()
    }

    /// All objects of a resource now, with the revision of the moment.
    pub fn snapshot(&self, resource: &str) -> (u64, Snapshot) {
        let inner = self.inner.lock();
        let objects = inner.tables.get(resource).map(|t| t.objects.clone()).unwrap_or_default();
        (inner.revision, objects)
    }

    /// All objects of a resource as they were at `revision`.
    pub fn snapshot_at(&self, resource: &str, revision: u64) -> Result<Snapshot, Compacted> {
        let inner = self.inner.lock();
        match inner.tables.get(resource) {
            Some(table) => table.at(revision),
            None => Ok(Snapshot::new()),
        }
    }

    /// The objects of one namespace (all, if `None`), in order of name.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let (_, objects) = self.snapshot(resource);
        within(&objects, namespace).map(|(_, object)| object.clone()).collect()
    }

    /// Writes an object, if it is still as `expect` says.
    pub fn put(
        &self,
        resource: &str,
        key: Key,
        expect: Expect,
        value: Value,
    ) -> Result<Arc<Object>, Raced> {
        let mut inner = self.inner.lock();
        let revision = inner.revision + 1;
        let table = inner.table(resource);
        let before = table.objects.get(&key).cloned();
        check(before.as_deref(), expect)?;
        let object = Arc::new(Object::new(revision, value));
        table.objects.insert(key, object.clone());
        let change = Change { revision, before, after: Some(object.clone()), last: None };
        let forgotten = table.record(Arc::new(change), self.limits.log);
        inner.revision = revision;
        drop(inner);
        drop(forgotten);
        Ok(object)
    }

    /// Removes an object, if it is still as `expect` says. `last` is its state as watchers shall see it go.
    pub fn remove(
        &self,
        resource: &str,
        key: &Key,
        expect: Expect,
        last: Value,
    ) -> Result<Arc<Object>, Raced> {
        let mut inner = self.inner.lock();
        let revision = inner.revision + 1;
        let table = inner.table(resource);
        let before = table.objects.get(key).cloned();
        check(before.as_deref(), expect)?;
        table.objects.remove(key);
        let last = Arc::new(Object::new(revision, last));
        let change = Change { revision, before, after: None, last: Some(last.clone()) };
        let forgotten = table.record(Arc::new(change), self.limits.log);
        inner.revision = revision;
        drop(inner);
        drop(forgotten);
        Ok(last)
    }

    /// Subscribes to the changes after `since`. Position and subscription are taken under one lock, so no
    /// change is lost or seen twice.
    pub fn subscribe(
        &self,
        resource: &str,
        since: u64,
        filter: Filter,
    ) -> Result<Subscription, Compacted> {
        let mut inner = self.inner.lock();
        inner.next_watcher += 1;
        let (id, revision) = (inner.next_watcher, inner.revision);
        let table = inner.table(resource);
        let replay = table.since(since, &filter)?;
        let (sender, changes) = mpsc::channel(self.limits.backlog);
        let lagged = table.add_watcher(id, filter, sender);
        Ok(Subscription { replay, changes, revision, lagged })
    }

    /// Reads a snapshot and subscribes from it, under one lock.
    pub fn snapshot_and_subscribe(
        &self,
        resource: &str,
        filter: Filter,
    ) -> (Snapshot, Subscription) {
        let mut inner = self.inner.lock();
        inner.next_watcher += 1;
        let (id, revision) = (inner.next_watcher, inner.revision);
        let table = inner.table(resource);
        let objects = table.objects.clone();
        let (sender, changes) = mpsc::channel(self.limits.backlog);
        let lagged = table.add_watcher(id, filter, sender);
        (objects, Subscription { replay: Vec::new(), changes, revision, lagged })
    }

    /// Forgets the log: a watch from an older revision gets 410 from now on.
    pub fn compact(&self) {
        let mut inner = self.inner.lock();
        let revision = inner.revision;
        inner.tables.values_mut().for_each(|table| table.compact(revision));
    }

    /// Ends every watch, as a dropped connection would.
    pub fn drop_watches(&self, resource: Option<&str>) {
        let mut inner = self.inner.lock();
        for (name, table) in &mut inner.tables {
            if resource.is_none_or(|wanted| wanted == name) {
                table.drop_watchers();
            }
        }
    }

    /// Number of open watches on a resource: one whose reader is gone counts no more.
    pub fn watchers(&self, resource: &str) -> usize {
        self.inner.lock().tables.get(resource).map_or(0, Table::watchers)
    }

    /// Number of objects per resource.
    pub fn sizes(&self) -> Vec<(String, usize)> {
        let inner = self.inner.lock();
        let mut sizes: Vec<_> =
            inner.tables.iter().map(|(name, table)| (name.clone(), table.objects.len())).collect();
        sizes.sort();
        sizes
    }
}

// === impl Inner ===

impl Inner {
    fn table(&mut self, resource: &str) -> &mut Table {
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.to_owned(), Table::default());
        }
        self.tables.entry(resource.to_owned()).or_default()
    }
}

/// The part of a snapshot that lies in one namespace (all of it, if `None`).
pub fn within<'a>(
    objects: &'a Snapshot,
    namespace: Option<&'a str>,
) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Object>)> + Send + 'a> {
    match namespace {
        None => Box::new(objects.iter()),
        Some(namespace) => Box::new(
            objects
                .range((namespace.to_owned(), String::new())..)
                .take_while(move |(key, _)| key.0 == namespace),
        ),
    }
}

/// The bytes of an object, no more than it needs. The buffer that grows while they are written is kept.
fn serialised(value: &Value) -> Bytes {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        match serde_json::to_writer(&mut *buffer, value) {
            Ok(()) => Bytes::copy_from_slice(buffer),
            Err(_) => Bytes::new(),
        }
    })
}

fn check(live: Option<&Object>, expect: Expect) -> Result<(), Raced> {
    match (live, expect) {
        (None, Expect::Absent) => Ok(()),
        (Some(live), Expect::Revision(revision)) if live.revision == revision => Ok(()),
        _ => Err(Raced),
    }
}

#[cfg(test)]
mod tests;
