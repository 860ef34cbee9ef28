//! A watch cache: the objects of one kind as far as this process has seen them, and who wants to
//! know of changes.
//!
//! Two sources feed it: the watch, and the answers to our own writes. An answer that is ahead of
//! the watch is taken at once, so that a controller never acts on a state from before its own
//! write; what the watch brings later is older or equal and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::core::WatchEvent;
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::kind::Kind;
use super::rest::status_code;

/// Namespace and name.
pub type Key = (String, String);

/// Told of each change as (before, after), in order, while the cache is locked: must not come back
/// to the cache.
pub type Handler = Box<dyn Fn(Option<&Arc<Value>>, Option<&Arc<Value>>) + Send + Sync>;

/// The objects of one kind.
pub struct Cache {
    kind: Kind,
    metadata_only: bool,
    state: Mutex<State>,
    synced: watch::Sender<bool>,
    wake: Notify,
    retired: CancellationToken,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Revision up to which the watch has told everything.
    seen: u64,
    handlers: Vec<Handler>,
}

const PAGE: usize = 500;
const SLOWEST: Duration = Duration::from_secs(2);
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

enum WatchEnd {
    /// The server closed the watch; go on from where it stood.
    Closed,
    /// The revision is gone; list again.
    Expired,
}

/// `metadata.namespace` and `metadata.name`.
pub fn key_of(object: &Value) -> Key {
    (meta::namespace(object).to_owned(), meta::name(object).to_owned())
}

/// `metadata.resourceVersion` as a number.
pub fn revision(object: &Value) -> u64 {
    meta::text(object, "resourceVersion").parse().unwrap_or(0)
}

// === impl State ===

impl State {
    fn notify(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        for handler in &self.handlers {
            handler(before, after);
        }
    }

    fn put(&mut self, object: Arc<Value>) {
        let before = self.objects.insert(key_of(&object), object.clone());
        match &before {
            // Another object under the old name: its end was missed.
            Some(old) if meta::uid(old) != meta::uid(&object) => {
                self.notify(Some(old), None);
                self.notify(None, Some(&object));
            }
            old => self.notify(old.as_ref(), Some(&object)),
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(old) = self.objects.remove(key) {
            self.notify(Some(&old), None);
        }
    }

    fn is_news(&self, object: &Value) -> bool {
        self.objects.get(&key_of(object)).is_none_or(|have| revision(object) > revision(have))
    }

    /// Takes a whole list at `at`. What is absent from it and not younger than it, is gone.
    fn replace(&mut self, listed: Vec<Value>, at: u64) {
        let mut names = std::collections::HashSet::with_capacity(listed.len());
        for object in listed {
            names.insert(key_of(&object));
            if self.is_news(&object) {
                self.put(Arc::new(object));
            }
        }
        let gone: Vec<Key> = self
            .objects
            .iter()
            .filter(|(key, have)| !names.contains(*key) && revision(have) <= at)
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.remove(&key);
        }
        self.seen = self.seen.max(at);
    }

    fn changed(&mut self, object: Value) {
        // A list was ahead of the watch, and the object was gone by then.
        let gone_since =
            revision(&object) <= self.seen && !self.objects.contains_key(&key_of(&object));
        self.seen = self.seen.max(revision(&object));
        if !gone_since && self.is_news(&object) {
            self.put(Arc::new(object));
        }
    }

    fn deleted(&mut self, object: &Value) {
        self.seen = self.seen.max(revision(object));
        let key = key_of(object);
        // A younger object of this name, known from our own write, stays.
        if self.objects.get(&key).is_some_and(|have| {
            meta::uid(have) == meta::uid(object) || revision(have) <= revision(object)
        }) {
            self.remove(&key);
        }
    }
}

// === impl Cache ===

impl Cache {
    /// An empty cache. `metadata_only` asks the server for nothing but metadata.
    pub fn new(kind: Kind, metadata_only: bool) -> Arc<Self> {
        Arc::new(Self {
            kind,
            metadata_only,
            state: Mutex::default(),
            synced: watch::Sender::new(false),
            wake: Notify::new(),
            retired: CancellationToken::new(),
        })
    }

    /// The kind it holds.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Registers a handler; it is told at once of all objects there are.
    pub fn on_change(
        &self,
        handler: impl Fn(Option<&Arc<Value>>, Option<&Arc<Value>>) + Send + Sync + 'static,
    ) {
        let mut state = self.state.lock();
        for object in state.objects.values() {
            handler(None, Some(object));
        }
        state.handlers.push(Box::new(handler));
    }

    /// The object as the cache has it.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.state.lock().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects of a namespace.
    #[cfg(test)]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Value>> {
        let from = (namespace.to_owned(), String::new());
        let state = self.state.lock();
        let range = state.objects.range(from..);
        range.take_while(|(key, _)| key.0 == namespace).map(|(_, o)| o.clone()).collect()
    }

    /// Takes the answer to one of our own writes, if it is ahead of the watch.
    pub fn note(&self, object: &Value) {
        let mut state = self.state.lock();
        if revision(object) > state.seen && state.is_news(object) {
            let object = match self.metadata_only {
                true => strip(object),
                false => object.clone(),
            };
            state.put(Arc::new(object));
        }
    }

    /// Returns when the first list is in.
    pub async fn synced(&self) {
        let mut seen = self.synced.subscribe();
        // The sender lives as long as `self`.
        drop(seen.wait_for(|yes| *yes).await);
    }

    /// Ends a pause between attempts, as when the kind has just been installed.
    pub fn hurry(&self) {
        self.wake.notify_one();
    }

    /// Lists and watches until `stop`.
    pub async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.retired.cancelled() => {}
            () = self.follow(&client) => {}
        }
    }

    /// Whether only metadata is kept.
    pub fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    /// Ends the watch of a kind that was uninstalled. Nobody waits for its first list any more.
    pub fn retire(&self) {
        self.retired.cancel();
        self.clear();
        self.synced.send_replace(true);
    }

    /// Lets go of all handlers.
    pub fn disband(&self) {
        let handlers = std::mem::take(&mut self.state.lock().handlers);
        // Not under the lock: what they held may come back here when it ends.
        drop(handlers);
    }

    /// Tells the handlers that everything is gone, as when the kind was uninstalled.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let all: Vec<Key> = state.objects.keys().cloned().collect();
        for key in all {
            state.remove(&key);
        }
    }

    async fn follow(&self, client: &Client) {
        let mut failures = 0u32;
        loop {
            let mut at = match self.list(client).await {
                Ok((items, at)) => {
                    self.state.lock().replace(items, at);
                    at
                }
                Err(error) => {
                    if status_code(&error) == 404 {
                        self.clear();
                    }
                    self.pause(&mut failures, &error).await;
                    continue;
                }
            };
            self.synced.send_replace(true);
            loop {
                let started = tokio::time::Instant::now();
                match self.watch(client, &mut at).await {
                    Ok(WatchEnd::Expired) => break,
                    // A server that closes at once must not be asked in a tight loop.
                    Ok(WatchEnd::Closed) if started.elapsed() < Duration::from_millis(5) => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    Ok(WatchEnd::Closed) => failures = 0,
                    Err(error) if matches!(status_code(&error), 404 | 410) => break,
                    Err(error) => self.pause(&mut failures, &error).await,
                }
            }
        }
    }

    async fn pause(&self, failures: &mut u32, error: &kube::Error) {
        debug!(kind = %self.kind.plural, %error, "watch");
        let wait = Duration::from_millis(10 << (*failures).min(8)).min(SLOWEST);
        *failures += 1;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.wake.notified() => {}
        }
    }

    /// Returns when everything up to `since` is here, if need be by a list past the watch.
    pub async fn catch_up(&self, client: &Client, since: u64) -> Result<(), kube::Error> {
        if self.state.lock().seen >= since {
            return Ok(());
        }
        let (items, at) = self.list(client).await?;
        let mut state = self.state.lock();
        // What the watch has told meanwhile is newer than the list.
        if at >= state.seen {
            state.replace(items, at);
        }
        Ok(())
    }

    async fn list(&self, client: &Client) -> Result<(Vec<Value>, u64), kube::Error> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let mut path = format!("{}?limit={PAGE}", self.kind.path("", ""));
            if !next.is_empty() {
                path.push_str("&continue=");
                path.push_str(&percent_encode(&next));
            }
            let accept = if self.metadata_only { METADATA_LIST } else { "application/json" };
            let mut page: Value = client.request(request(&path, accept)?).await?;
            if let Some(Value::Array(some)) = page.get_mut("items").map(Value::take) {
                items.extend(some);
            }
            meta::text(&page, "continue").clone_into(&mut next);
            if next.is_empty() {
                let at = revision(&page);
                return Ok((items, at));
            }
        }
    }

    async fn watch(&self, client: &Client, at: &mut u64) -> Result<WatchEnd, kube::Error> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion={at}",
            self.kind.path("", "")
        );
        let accept = if self.metadata_only { METADATA } else { "application/json" };
        let events = client.request_events::<Value>(request(&path, accept)?).await?;
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *at = (*at).max(revision(&object));
                    self.state.lock().changed(object);
                }
                WatchEvent::Deleted(object) => {
                    *at = (*at).max(revision(&object));
                    self.state.lock().deleted(&object);
                }
                WatchEvent::Bookmark(mark) => {
                    let marked = mark.metadata.resource_version.parse().unwrap_or(0);
                    *at = (*at).max(marked);
                    let mut state = self.state.lock();
                    state.seen = state.seen.max(marked);
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(WatchEnd::Expired),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(WatchEnd::Closed)
    }
}

fn strip(object: &Value) -> Value {
    serde_json::json!({ "metadata": object.get("metadata").cloned().unwrap_or_default() })
}

fn request(path: &str, accept: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    http::Request::get(path)
        .header(http::header::ACCEPT, accept)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)
}

fn percent_encode(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ok = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
