//! What the kubelets watch, and the one timer that keeps their nodes alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::engine::Event;
use super::podresources::View;
use super::volumes::Object;
use super::{NodeSpec, node};
use crate::clock::Clock;

/// What the timer needs of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    pub spec: Arc<NodeSpec>,
    pub view: Arc<Mutex<View>>,
    pub up: Arc<AtomicBool>,
    /// When the node became ready.
    pub since: Timestamp,
}

/// Requests under way at once.
pub(super) const PARALLEL: usize = 32;

/// Tells of the pods of one node, or of all bound pods.
pub(super) async fn pods(
    client: Client,
    single: Option<String>,
    events: mpsc::UnboundedSender<Event>,
    stop: CancellationToken,
) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<Pod>(&()));
    let selector = match single {
        Some(name) => format!("spec.nodeName={name}"),
        None => "spec.nodeName!=".to_owned(),
    };
    let config = watcher::Config::default().fields(&selector);
    let mut stream = watcher(api, config).default_backoff().boxed();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return,
            next = stream.next() => next,
        };
        let sent = match next {
            None => return,
            Some(Err(error)) => {
                tracing::debug!(%error, "watch of pods");
                Ok(())
            }
            Some(Ok(watcher::Event::Init)) => {
                listed.clear();
                Ok(())
            }
            Some(Ok(watcher::Event::InitApply(pod))) => {
                listed.extend(pod.uid());
                events.send(Event::Applied(value(&pod)))
            }
            Some(Ok(watcher::Event::InitDone)) => {
                events.send(Event::Listed(std::mem::take(&mut listed)))
            }
            Some(Ok(watcher::Event::Apply(pod))) => events.send(Event::Applied(value(&pod))),
            Some(Ok(watcher::Event::Delete(pod))) => events.send(Event::Deleted(value(&pod))),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Tells of changes of ConfigMaps and Secrets.
pub(super) async fn objects(
    client: Client,
    events: mpsc::UnboundedSender<Event>,
    stop: CancellationToken,
) {
    let maps = changed::<ConfigMap>(client.clone(), Object::ConfigMap);
    let secrets = changed::<Secret>(client, Object::Secret);
    let mut both = stream::select(maps, secrets).boxed();
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return,
            next = both.next() => next,
        };
        let Some((namespace, object)) = next else { return };
        if events.send(Event::Changed { namespace, object }).is_err() {
            return;
        }
    }
}

fn changed<K>(
    client: Client,
    object: fn(String) -> Object,
) -> impl futures::Stream<Item = (String, Object)> + Send
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    stream.filter_map(move |event| async move {
        match event {
            Ok(
                watcher::Event::Apply(o) | watcher::Event::InitApply(o) | watcher::Event::Delete(o),
            ) => Some((o.namespace().unwrap_or_default(), object(o.name_any()))),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "watch of volume sources");
                None
            }
        }
    })
}

/// Renews the leases of all nodes that are up, and writes their status now and then.
pub(super) async fn leases(
    client: Client,
    clock: Clock,
    nodes: Vec<NodeState>,
    period: Duration,
    heartbeat: Duration,
    stop: CancellationToken,
) {
    let mut written = clock.now();
    loop {
        let now = clock.now();
        let beat = super::lifecycle::later(written, heartbeat) <= now;
        if beat {
            written = now;
        }
        let up: Vec<NodeState> =
            nodes.iter().filter(|n| n.up.load(Ordering::Relaxed)).cloned().collect();
        let renewals = up.into_iter().map(|state| renew(client.clone(), state, now, beat));
        let all = stream::iter(renewals).buffer_unordered(PARALLEL).collect::<Vec<()>>();
        tokio::select! {
            () = stop.cancelled() => return,
            _done = all => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(super::lifecycle::later(now, period)) => {}
        }
    }
}

async fn renew(client: Client, state: NodeState, now: Timestamp, beat: bool) {
    let name = &state.spec.name;
    let mut done = node::renew(&client, name, now).await;
    if beat && done.is_ok() {
        done = node::write_status(&client, name, &state.status(now)).await;
    }
    if let Err(error) = done {
        tracing::debug!(node = %name, %error, "node heartbeat");
    }
}

// === impl NodeState ===

impl NodeState {
    /// The Node's status now.
    pub fn status(&self, now: Timestamp) -> Value {
        node::status(&self.spec, &self.view.lock().devices, self.since, now)
    }
}

pub(super) fn value(object: &DynamicObject) -> Value {
    // An object that came as JSON is JSON again.
    serde_json::to_value(object).unwrap_or_default()
}
