//! Services: the addresses of the pods that a selector picks, as EndpointSlices and Endpoints.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use muster_objects::select::LabelSelector;
use parking_lot::Mutex;
use serde_json::Value;

use super::cache::{Cache, Key, key_of};
use super::json;
use super::kind::{ENDPOINT_SLICES, ENDPOINTS, Kind, NODES, PODS, SERVICES};
use super::queue::Queue;
use super::rest::{Rest, namespace_terminating, status_code};
use super::selection::Selection;
use endpoints::SliceChange;

mod endpoints;

pub(crate) struct ServiceController {
    rest: Rest,
    services: Arc<Cache>,
    slices: Arc<Cache>,
    endpoints: Arc<Cache>,
    nodes: Arc<Cache>,
    index: Mutex<Index>,
    queue: Arc<Queue<Key>>,
}

#[derive(Default)]
struct Index {
    selection: Selection,
    /// Names of our slices by Service.
    slices: HashMap<Key, BTreeSet<String>>,
}

const WORKERS: usize = 2;
/// A burst of pod changes is one pass.
const GATHER: Duration = Duration::from_millis(50);

/// The selector of a Service, if it has one.
fn selector(service: &Value) -> Option<LabelSelector> {
    let labels = service.pointer("/spec/selector")?;
    let some = labels.as_object().is_some_and(|labels| !labels.is_empty());
    let external = json::text(service, "/spec/type") == "ExternalName";
    (some && !external).then(|| LabelSelector::from_map(labels))
}

// === impl ServiceController ===

impl ServiceController {
    /// Registers with the caches and starts the workers.
    pub fn start(rest: &Rest) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            services: rest.cache(&SERVICES),
            slices: rest.cache(&ENDPOINT_SLICES),
            endpoints: rest.cache(&ENDPOINTS),
            nodes: rest.cache(&NODES),
            index: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let pods = rest.cache(&PODS);
        let to = controller.clone();
        controller.services.on_change(move |before, after| {
            let Some(service) = after.or(before) else { return };
            let key = key_of(service);
            to.index.lock().selection.select(&key, after.and_then(|s| selector(s)));
            to.queue.add(key);
        });
        let to = controller.clone();
        pods.on_change(move |before, after| {
            let touched = to.index.lock().selection.pod_changed(before, after);
            for key in touched {
                to.queue.add_soon(key, GATHER);
            }
        });
        let to = controller.clone();
        controller.slices.on_change(move |before, after| to.slice_changed(before, after));
        let to = controller.clone();
        controller.endpoints.on_change(move |before, after| {
            // Somebody else's change is put right; a Service without selector is not ours.
            if let Some(object) = after.or(before) {
                to.queue.add_soon(key_of(object), GATHER);
            }
        });
        let started = controller;
        rest.tasks().spawn(async move {
            for cache in [&started.services, &started.slices, &started.endpoints, &pods] {
                cache.synced().await;
            }
            let queue = started.queue.clone();
            queue.serve(WORKERS, "service", move |key| {
                let controller = started.clone();
                async move { controller.reconcile(&key).await }
            });
        });
    }

    fn slice_changed(self: &Arc<Self>, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let owner = |slice: &Value| {
            let service = endpoints::service_of(slice)?;
            Some((meta::namespace(slice).to_owned(), service.to_owned()))
        };
        let mut index = self.index.lock();
        let mut touched = BTreeSet::new();
        if let Some(old) = before
            && let Some(key) = owner(old)
        {
            if let Some(names) = index.slices.get_mut(&key) {
                names.remove(meta::name(old));
                if names.is_empty() {
                    index.slices.remove(&key);
                }
            }
            touched.insert(key);
        }
        if let Some(new) = after
            && let Some(key) = owner(new)
        {
            index.slices.entry(key.clone()).or_default().insert(meta::name(new).to_owned());
            touched.insert(key);
        }
        drop(index);
        for key in touched {
            self.queue.add_soon(key, GATHER);
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(service) = self.services.get(&key.0, &key.1) else {
            // Slices go with their owner; Endpoints have none.
            if let Some(left) = self.endpoints.get(&key.0, &key.1) {
                let ours = meta::label(&left, "endpoints.kubernetes.io/managed-by").is_some();
                if ours {
                    return self.rest.delete(&ENDPOINTS, &left, None).await;
                }
            }
            return Ok(());
        };
        if selector(&service).is_none() || meta::is_terminating(&service) {
            return Ok(());
        }
        let (pods, names) = {
            let index = self.index.lock();
            (index.selection.picked(key), index.slices.get(key).cloned().unwrap_or_default())
        };
        let existing: Vec<Arc<Value>> = names
            .iter()
            .filter_map(|name| self.slices.get(&key.0, name))
            .filter(|slice| endpoints::is_ours(slice, &key.1) && !meta::is_terminating(slice))
            .collect();
        let mut nodes = HashMap::new();
        for pod in &pods {
            let node = json::text(pod, "/spec/nodeName");
            if !node.is_empty()
                && !nodes.contains_key(node)
                && let Some(object) = self.nodes.get("", node)
            {
                nodes.insert(node.to_owned(), object);
            }
        }
        for change in endpoints::slices(&service, &pods, &nodes, &existing) {
            self.apply(&ENDPOINT_SLICES, &key.0, change).await?;
        }
        let have = self.endpoints.get(&key.0, &key.1);
        if let Some(change) = endpoints::endpoints_change(&service, &pods, have.as_deref()) {
            self.apply(&ENDPOINTS, &key.0, change).await?;
        }
        Ok(())
    }

    async fn apply(
        &self,
        kind: &Kind,
        namespace: &str,
        change: SliceChange,
    ) -> Result<(), kube::Error> {
        let outcome = match &change {
            SliceChange::Create(object) => self.rest.create(kind, namespace, object).await,
            SliceChange::Update(object) => self.rest.replace(kind, object, "").await,
            SliceChange::Delete(object) => return self.rest.delete(kind, object, None).await,
        };
        match outcome {
            Err(error) if namespace_terminating(&error) => Ok(()),
            Err(error)
                if status_code(&error) == 404 && matches!(change, SliceChange::Create(_)) =>
            {
                Ok(())
            }
            outcome => outcome.map(drop),
        }
    }
}
