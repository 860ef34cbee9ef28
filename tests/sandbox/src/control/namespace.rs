//! Namespaces: what each new one gets, and how one goes away with all that is in it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::{Value, json};

use super::cache::Cache;
use super::inventory::{Inventory, Resource};
use super::json::{self, stamp};
use super::kind::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};
use super::queue::Queue;
use super::rest::{Rest, ignore_missing, namespace_terminating, status_code};

/// The finalizer that this controller takes off.
const FINALIZER: &str = "kubernetes";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_NOTE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
     using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
     usage is guaranteed across distributions of Kubernetes clusters.";
const GATHER: Duration = Duration::from_millis(20);
const WORKERS: usize = 4;

pub(crate) struct NamespaceController {
    rest: Rest,
    inventory: Arc<Inventory>,
    namespaces: Arc<Cache>,
    accounts: Arc<Cache>,
    maps: Arc<Cache>,
    queue: Arc<Queue<String>>,
    bundle: String,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{0} resources are not empty yet")]
    NotEmpty(usize),
}

/// What is left of a resource in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remains {
    /// Name of the resource: `plural.group`.
    pub resource: String,
    /// How many objects.
    pub objects: usize,
    /// Their finalizers, each with the number of objects that have it.
    pub finalizers: Vec<(String, usize)>,
}

// === impl NamespaceController ===

impl NamespaceController {
    /// Registers with the caches and starts the workers. `bundle` is the PEM of the server's CA.
    pub fn start(rest: &Rest, inventory: &Arc<Inventory>, bundle: String) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            inventory: inventory.clone(),
            namespaces: rest.cache(&NAMESPACES),
            accounts: rest.metadata(&SERVICE_ACCOUNTS),
            maps: rest.metadata(&CONFIG_MAPS),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
            bundle,
        });
        let to = controller.clone();
        controller.namespaces.on_change(move |_, after| {
            if let Some(namespace) = after {
                to.queue.add(meta::name(namespace).to_owned());
            }
        });
        // What every namespace has comes back when it is deleted.
        for (cache, name) in [(&controller.accounts, "default"), (&controller.maps, ROOT_CA)] {
            let to = controller.clone();
            cache.on_change(move |before, after| {
                if let (Some(gone), None) = (before, after)
                    && meta::name(gone) == name
                {
                    to.queue.add(meta::namespace(gone).to_owned());
                }
            });
        }
        let to = controller.clone();
        inventory.on_resource(move |cache| {
            if !cache.kind().namespaced {
                return;
            }
            let to = to.clone();
            cache.on_change(move |before, after| {
                if let (Some(gone), None) = (before, after) {
                    to.object_gone(meta::namespace(gone));
                }
            });
        });
        let started = controller;
        rest.tasks().spawn(async move {
            started.namespaces.synced().await;
            started.accounts.synced().await;
            started.maps.synced().await;
            let queue = started.queue.clone();
            queue.serve(WORKERS, "namespace", move |name| {
                let controller = started.clone();
                async move { controller.reconcile(&name).await }
            });
        });
    }

    fn object_gone(self: &Arc<Self>, namespace: &str) {
        if self.namespaces.get("", namespace).is_some_and(|n| meta::is_terminating(&n)) {
            self.queue.add_soon(namespace.to_owned(), GATHER);
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), Error> {
        let Some(namespace) = self.namespaces.get("", name) else { return Ok(()) };
        if meta::is_terminating(&namespace) {
            self.empty(&namespace).await
        } else {
            self.furnish(name).await
        }
    }

    async fn furnish(&self, namespace: &str) -> Result<(), Error> {
        if self.accounts.get(namespace, "default").is_none() {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace}});
            made(self.rest.create(&SERVICE_ACCOUNTS, namespace, &account).await)?;
        }
        if self.maps.get(namespace, ROOT_CA).is_none() {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": namespace,
                    "annotations": {"kubernetes.io/description": ROOT_CA_NOTE}},
                "data": {"ca.crt": self.bundle}});
            made(self.rest.create(&CONFIG_MAPS, namespace, &map).await)?;
        }
        Ok(())
    }

    async fn empty(&self, namespace: &Value) -> Result<(), Error> {
        let has = json::list(namespace, "/spec/finalizers").iter().any(|f| f == FINALIZER);
        if !has {
            return Ok(());
        }
        self.inventory.discovered().await;
        let name = meta::name(namespace);
        let known = self.inventory.resources();
        let mut remains = Vec::new();
        for resource in known.iter().filter(|resource| holds_objects(resource)) {
            remains.extend(self.clear(name, resource).await?);
        }
        if remains.is_empty() {
            // A resource may have been installed since the last look.
            let now = self.inventory.look_now().await?;
            let is_new = |r: &&Resource| known.iter().all(|have| have.kind != r.kind);
            for resource in now.iter().filter(|r| holds_objects(r)).filter(is_new) {
                remains.extend(self.clear(name, resource).await?);
            }
        }
        if !remains.is_empty() {
            self.report(namespace, &remains).await?;
            return Err(Error::NotEmpty(remains.len()));
        }
        self.finalize(namespace).await
    }

    /// Deletes all objects of a resource in the namespace and says what is left.
    async fn clear(&self, name: &str, resource: &Resource) -> Result<Option<Remains>, Error> {
        let path = resource.kind.path(name, "");
        let listed = self.rest.get_path(&format!("{path}?limit=500")).await;
        let items = match listed {
            Err(error) if matches!(status_code(&error), 404 | 405) => return Ok(None),
            other => other?,
        };
        let left = json::list(&items, "/items");
        if left.is_empty() {
            return Ok(None);
        }
        let fresh = left.iter().any(|object| !meta::is_terminating(object));
        if fresh && resource.collection {
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background"});
            let outcome = self.rest.send("DELETE", &path, "application/json", Some(&options)).await;
            ignore_missing(outcome)?;
        } else if fresh {
            for object in left.iter().filter(|object| !meta::is_terminating(object)) {
                self.rest.delete(&resource.kind, object, None).await?;
            }
        }
        let listed = self.rest.get_path(&format!("{path}?limit=500")).await?;
        let left = json::list(&listed, "/items");
        if left.is_empty() {
            return Ok(None);
        }
        Ok(Some(remains(resource, left)))
    }

    async fn report(&self, namespace: &Value, left: &[Remains]) -> Result<(), Error> {
        let status = describe(namespace, left, self.rest.clock().now());
        if namespace.get("status") != Some(&status) {
            let mut object = namespace.clone();
            object["status"] = status;
            ignore_missing(self.rest.replace(&NAMESPACES, &object, "/status").await)?;
        }
        Ok(())
    }

    async fn finalize(&self, namespace: &Value) -> Result<(), Error> {
        let mut object = namespace.clone();
        let left: Vec<Value> = json::list(namespace, "/spec/finalizers")
            .iter()
            .filter(|f| *f != FINALIZER)
            .cloned()
            .collect();
        object["spec"]["finalizers"] = left.into();
        Ok(ignore_missing(self.rest.replace(&NAMESPACES, &object, "/finalize").await)?)
    }
}

/// Whether a namespace can hold objects of it that must go first.
fn holds_objects(resource: &Resource) -> bool {
    resource.kind.namespaced && resource.deletable && resource.watched
}

fn made(outcome: Result<Value, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(error) if namespace_terminating(&error) => Ok(()),
        Err(error) if matches!(status_code(&error), 404) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn remains(resource: &Resource, left: &[Value]) -> Remains {
    let mut finalizers: std::collections::BTreeMap<String, usize> = Default::default();
    for object in left {
        for finalizer in meta::finalizers(object) {
            *finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    let kind = &resource.kind;
    let resource = match kind.group.is_empty() {
        true => format!("{}.", kind.plural),
        false => format!("{}.{}", kind.plural, kind.group),
    };
    Remains { resource, objects: left.len(), finalizers: finalizers.into_iter().collect() }
}

/// The status of a namespace that is not empty yet, with the original's five conditions.
pub(crate) fn describe(namespace: &Value, left: &[Remains], now: Timestamp) -> Value {
    let remaining: Vec<String> = left
        .iter()
        .map(|r| format!("{} has {} resource instances", r.resource, r.objects))
        .collect();
    let mut held: std::collections::BTreeMap<&str, usize> = Default::default();
    for (finalizer, objects) in left.iter().flat_map(|r| &r.finalizers) {
        *held.entry(finalizer).or_default() += objects;
    }
    let held: Vec<String> =
        held.iter().map(|(f, n)| format!("{f} in {n} resource instances")).collect();
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            None,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            None,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            (!remaining.is_empty()).then(|| {
                (
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {}", remaining.join(", ")),
                )
            }),
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            (!held.is_empty()).then(|| {
                (
                    "SomeFinalizersRemain",
                    format!(
                        "Some content in the namespace has finalizers remaining: {}",
                        held.join(", ")
                    ),
                )
            }),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let mut status = namespace.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut list = json::list(&status, "/conditions").to_vec();
    for (kind, bad, good_reason, good_message) in rows {
        let (value, reason, message) = match bad {
            Some((reason, message)) => ("True", reason.to_owned(), message),
            None => ("False", good_reason.to_owned(), good_message.to_owned()),
        };
        let have = list.iter().position(|c| json::text(c, "/type") == kind);
        let since = have
            .and_then(|at| list.get(at))
            .filter(|c| json::text(c, "/status") == value)
            .and_then(|c| c.get("lastTransitionTime").cloned())
            .unwrap_or_else(|| stamp(now));
        let new = json!({"type": kind, "status": value, "reason": reason, "message": message,
            "lastTransitionTime": since});
        match have.and_then(|at| list.get_mut(at)) {
            Some(slot) => *slot = new,
            None => list.push(new),
        }
    }
    status["conditions"] = list.into();
    status["phase"] = "Terminating".into();
    status
}
