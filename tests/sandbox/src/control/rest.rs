//! Plain requests to the API, as JSON values; the answers go to the watch caches at once.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;
use muster_objects::meta;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::cache::Cache;
use super::kind::{EVENTS, Kind};
use super::queue::Tasks;
use crate::clock::Clock;

/// How a controller reads and writes. Clones share everything.
#[derive(Clone)]
pub struct Rest {
    client: Client,
    clock: Clock,
    tasks: Tasks,
    caches: Arc<RwLock<HashMap<Kind, Arc<Cache>>>>,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go later.
    Background,
    /// They go first.
    Foreground,
    /// Dependents stay, without their owner reference.
    Orphan,
}

/// The HTTP status of a refusal, 0 where there was none.
pub fn status_code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// A missing object is as good as a deleted one.
pub fn ignore_missing<T>(outcome: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(error) if status_code(&error) != 404 => Err(error),
        _ => Ok(()),
    }
}

/// Whether a creation was refused because the namespace is going away.
pub fn namespace_terminating(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.code == 403
                && status.details.as_ref().is_some_and(|details| {
                    details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
                })
        }
        _ => false,
    }
}

// === impl Rest ===

impl Rest {
    /// A client with no caches yet.
    pub fn new(client: Client, clock: Clock, tasks: Tasks) -> Self {
        Self { client, clock, tasks, caches: Arc::default() }
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The task set.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The cache of whole objects of a kind; the first caller starts its watch.
    pub fn cache(&self, kind: &Kind) -> Arc<Cache> {
        self.shared(kind, false)
    }

    /// A cache that has at least the metadata; a cache of whole objects serves as well.
    pub fn metadata(&self, kind: &Kind) -> Arc<Cache> {
        self.shared(kind, true)
    }

    fn shared(&self, kind: &Kind, metadata_only: bool) -> Arc<Cache> {
        let mut caches = self.caches.write();
        if let Some(cache) = caches.get(kind) {
            return cache.clone();
        }
        let cache = Cache::new(kind.clone(), metadata_only);
        caches.insert(kind.clone(), cache.clone());
        let running = cache.clone().run(self.client.clone(), self.tasks.token());
        self.tasks.spawn(running);
        cache
    }

    /// Ends the metadata cache of a kind that is no longer served. Whole caches stay: their controllers
    /// wait for the kind to come back.
    pub fn forget(&self, kind: &Kind) {
        let mut caches = self.caches.write();
        if caches.get(kind).is_some_and(|cache| cache.is_metadata_only())
            && let Some(cache) = caches.remove(kind)
        {
            drop(caches);
            cache.retire();
        }
    }

    /// Lets go of all caches and their handlers; they hold who holds the caches.
    pub fn disband(&self) {
        let caches = std::mem::take(&mut *self.caches.write());
        for cache in caches.into_values() {
            cache.disband();
        }
    }

    /// Ends the pauses of all caches between attempts.
    pub fn hurry(&self) {
        for cache in self.caches.read().values() {
            cache.hurry();
        }
    }

    /// Tells the cache of an object as the server has just answered it.
    pub fn note(&self, kind: &Kind, object: &Value) {
        if meta::uid(object).is_empty() {
            return;
        }
        // Not under the lock: the handlers may ask for a cache themselves.
        let cache = self.caches.read().get(kind).cloned();
        if let Some(cache) = cache {
            cache.note(object);
        }
    }

    /// Brings a cache up to a revision; a kind that is no longer served has nothing to bring.
    pub async fn catch_up(&self, cache: &Cache, since: u64) -> Result<(), kube::Error> {
        ignore_missing(cache.catch_up(&self.client, since).await)
    }

    /// Sends a request with a JSON body, or none.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).map_err(kube::Error::SerdeError)?,
            None => Vec::new(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::CONTENT_TYPE, content)
            .body(bytes)
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// GET of any path.
    pub async fn get_path(&self, path: &str) -> Result<Value, kube::Error> {
        self.send("GET", path, "application/json", None).await
    }

    /// GET of one object, past the cache.
    pub async fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, kube::Error> {
        self.get_path(&kind.path(namespace, name)).await
    }

    /// Creates an object.
    pub async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, kube::Error> {
        let path = kind.path(namespace, "");
        let made = self.send("POST", &path, "application/json", Some(object)).await?;
        self.note(kind, &made);
        Ok(made)
    }

    /// Replaces an object, or a subresource of it.
    pub async fn replace(
        &self,
        kind: &Kind,
        object: &Value,
        subresource: &str,
    ) -> Result<Value, kube::Error> {
        let path = kind.path(meta::namespace(object), meta::name(object)) + subresource;
        let mut object = object.clone();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.as_ref().into();
        let made = self.send("PUT", &path, "application/json", Some(&object)).await?;
        self.note(kind, &made);
        Ok(made)
    }

    /// Changes an object by a JSON patch.
    pub async fn patch_json(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, kube::Error> {
        let path = kind.path(namespace, name);
        let made = self.send("PATCH", &path, "application/json-patch+json", Some(patch)).await?;
        self.note(kind, &made);
        Ok(made)
    }

    /// Changes an object, or a subresource of it, by a merge patch.
    pub async fn patch_merge(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Result<Value, kube::Error> {
        let path = kind.path(namespace, name) + subresource;
        let made = self.send("PATCH", &path, "application/merge-patch+json", Some(patch)).await?;
        self.note(kind, &made);
        Ok(made)
    }

    /// Takes one finalizer off; the object must still be the one of this uid.
    pub async fn drop_finalizer(
        &self,
        kind: &Kind,
        object: &Value,
        finalizer: &str,
    ) -> Result<(), kube::Error> {
        let Some(at) = meta::finalizers(object).iter().position(|f| *f == finalizer) else {
            return Ok(());
        };
        let path = format!("/metadata/finalizers/{at}");
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta::uid(object)},
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]);
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        ignore_missing(self.patch_json(kind, namespace, name, &patch).await)
    }

    /// Deletes an object if it is still the one of this uid; absent is fine.
    pub async fn delete(
        &self,
        kind: &Kind,
        object: &Value,
        propagation: Option<Propagation>,
    ) -> Result<(), kube::Error> {
        let only = json!({"uid": meta::uid(object)});
        self.delete_if(kind, object, propagation, only).await
    }

    /// Deletes an object if nothing at all has changed on it; a change is a conflict.
    pub async fn delete_as_is(
        &self,
        kind: &Kind,
        object: &Value,
        propagation: Propagation,
    ) -> Result<(), kube::Error> {
        let only = json!({"uid": meta::uid(object),
            "resourceVersion": meta::text(object, "resourceVersion")});
        self.delete_if(kind, object, Some(propagation), only).await
    }

    async fn delete_if(
        &self,
        kind: &Kind,
        object: &Value,
        propagation: Option<Propagation>,
        preconditions: Value,
    ) -> Result<(), kube::Error> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": preconditions});
        if let Some(propagation) = propagation {
            options["propagationPolicy"] = format!("{propagation:?}").into();
        }
        let path = kind.path(meta::namespace(object), meta::name(object));
        match self.send("DELETE", &path, "application/json", Some(&options)).await {
            Ok(left) => {
                // An object that only begins to go comes back; one that is gone, too. Only the
                // first still has something to wait for, so only it may enter the cache.
                let waits = !meta::finalizers(&left).is_empty()
                    || left
                        .pointer("/metadata/deletionGracePeriodSeconds")
                        .and_then(Value::as_i64)
                        .is_some_and(|grace| grace > 0);
                if waits && meta::uid(&left) == meta::uid(object) {
                    self.note(kind, &left);
                }
                Ok(())
            }
            // Gone, or another object has the name by now.
            Err(error) if matches!(status_code(&error), 404 | 409) => {
                if status_code(&error) == 404 {
                    Ok(())
                } else {
                    self.still_there(kind, object, error).await
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn still_there(
        &self,
        kind: &Kind,
        object: &Value,
        conflict: kube::Error,
    ) -> Result<(), kube::Error> {
        match self.get(kind, meta::namespace(object), meta::name(object)).await {
            Ok(live) if meta::uid(&live) == meta::uid(object) => Err(conflict),
            Ok(_) => Ok(()),
            Err(error) => ignore_missing::<()>(Err(error)),
        }
    }

    /// Writes an event about an object; nobody waits for it and a refusal loses only the event.
    pub fn event(&self, kind: &Kind, about: &Value, source: &str, event: &EventText) {
        let now = self.clock.stamp();
        let suffix: u64 = rand::random();
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "namespace": namespace_of_event(about),
                "name": format!("{}.{suffix:016x}", meta::name(about)),
            },
            "involvedObject": {
                "apiVersion": kind.api_version(),
                "kind": kind.kind,
                "namespace": meta::namespace(about),
                "name": meta::name(about),
                "uid": meta::uid(about),
                "resourceVersion": meta::text(about, "resourceVersion"),
            },
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": event.reason,
            "message": event.message,
            "source": {"component": source},
            "reportingComponent": source,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let (rest, namespace) = (self.clone(), namespace_of_event(about).to_owned());
        self.tasks.spawn(async move {
            for wait in [0u64, 20, 200] {
                tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
                if rest.create(&EVENTS, &namespace, &body).await.is_ok() {
                    break;
                }
            }
        });
    }
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// Whether something went wrong.
    pub warning: bool,
    /// The reason of an event, in CamelCase.
    pub reason: String,
    /// What a person reads.
    pub message: String,
}

// === impl EventText ===

impl EventText {
    /// An event of type Normal.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self { warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// An event of type Warning.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self { warning: true, reason: reason.to_owned(), message: message.into() }
    }
}

fn namespace_of_event(about: &Value) -> &str {
    match meta::namespace(about) {
        "" => "default",
        namespace => namespace,
    }
}
