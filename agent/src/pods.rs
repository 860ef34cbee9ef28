//! The pods of this node, as the API knows them: names, uids and the few annotations that we read.
//!
//! One watch, of metadata only, of this node's pods only. Everything else of an object is dropped as it arrives. While
//! the API is away the last state stays.
//!
//! ```text
//!   watch of PartialObjectMetadata, spec.nodeName=<node> ──▶ PodMeta ──▶ channel, changes only
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use muster_proto::annotation;
use muster_proto::pod::PodRef;
use tokio::sync::watch;

use crate::kubelet::device_id::ResourceNames;
use crate::names;
use crate::problem::{Area, Finding, Problems};

pub mod api_error;
mod known;

pub use known::KnownPods;

use api_error::ApiError;

/// How many pods are asked for at once.
const PAGE: u32 = 50;

/// How long the one read of the Node may take.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// What we know of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMeta {
    /// Namespace, name and uid.
    pub pod: PodRef,
    /// The annotations that somebody here reads, and no others.
    pub annotations: BTreeMap<String, String>,
    /// Its rank group, where it says one.
    pub rank_group: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Pods by namespace and name.
pub type PodMap = BTreeMap<(String, String), PodMeta>;

/// The pods as events tell of them. Pure.
#[derive(Debug)]
struct Follower {
    resources: ResourceNames,
    pods: PodMap,
    /// Pods of a listing that is not complete yet.
    listing: Option<PodMap>,
}

/// Follows the pods of a node until nobody listens. `listed` becomes true when all have been seen once.
pub async fn follow(
    client: Client,
    node: &str,
    resources: ResourceNames,
    out: watch::Sender<Arc<PodMap>>,
    listed: watch::Sender<bool>,
    problems: Problems,
) {
    let api: Api<PartialObjectMeta<Pod>> = Api::all(client);
    let mut config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    config.page_size = Some(PAGE);
    let mut events = pin!(watcher(api, config).backoff(DefaultBackoff::default()));
    let mut follower = Follower { resources, pods: PodMap::new(), listing: None };
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = out.closed() => return,
        };
        match event {
            Some(Ok(event)) => {
                // A listing that begins has not been answered yet.
                if !matches!(event, Event::Init) {
                    problems.clear(Area::Pods, node);
                }
                let all = matches!(event, Event::InitDone);
                if follower.take(only_meta(event)) {
                    out.send_replace(Arc::new(follower.pods.clone()));
                }
                if all {
                    listed.send_replace(true);
                }
            }
            Some(Err(error)) => {
                let refusal = ApiError::of_watch(&error, "list and watch pods");
                problems.raise(Area::Pods, Finding::new(refusal.reason, node, refusal.message));
            }
            // The watcher never ends by itself.
            None => return,
        }
    }
}

/// The address by which others know the node: the first InternalIP of its Node. Asked until it is told.
pub async fn node_address(client: &Client, node: &str, problems: &Problems) -> IpAddr {
    let api: Api<Node> = Api::all(client.clone());
    let subject = format!("node {node}");
    let mut attempts = 0;
    loop {
        let read = tokio::time::timeout(READ_LIMIT, api.get(node)).await;
        let (reason, message, pause) = match read {
            Ok(Ok(node)) => match internal_ip(&node) {
                Some(ip) => {
                    problems.clear(Area::Pods, &subject);
                    return ip;
                }
                None => {
                    let message = "its status.addresses has no InternalIP yet; the kubelet or the cloud's \
                                   controller writes it";
                    ("no-address", message.to_owned(), None)
                }
            },
            Ok(Err(kube::Error::Api(refused))) if refused.code == 404 => {
                let message =
                    "there is no such Node; check --node, or NODE_NAME in the pod".to_owned();
                ("not-found", message, None)
            }
            Ok(Err(error)) => {
                let refusal = ApiError::of(&error, "get nodes");
                (refusal.reason, refusal.message, refusal.retry_after)
            }
            Err(_late) => ("timeout", format!("no answer within {READ_LIMIT:?}"), None),
        };
        problems.raise(Area::Pods, Finding::new(reason, &subject, message));
        tokio::time::sleep(api_error::pause(attempts, pause)).await;
        attempts += 1;
    }
}

fn internal_ip(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let mut internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
    internal.find_map(|address| address.address.parse().ok())
}

fn only_meta(event: Event<PartialObjectMeta<Pod>>) -> Event<ObjectMeta> {
    match event {
        Event::Apply(pod) => Event::Apply(pod.metadata),
        Event::Delete(pod) => Event::Delete(pod.metadata),
        Event::Init => Event::Init,
        Event::InitApply(pod) => Event::InitApply(pod.metadata),
        Event::InitDone => Event::InitDone,
    }
}

// === impl Follower ===

impl Follower {
    /// Takes an event in; whether anything changed.
    fn take(&mut self, event: Event<ObjectMeta>) -> bool {
        match event {
            Event::Init => {
                self.listing = Some(PodMap::new());
                false
            }
            Event::InitApply(meta) => {
                if let (Some(pod), Some(listing)) =
                    (PodMeta::of(meta, &self.resources), &mut self.listing)
                {
                    listing.insert(pod.key(), pod);
                }
                false
            }
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                let changed = listed != self.pods;
                self.pods = listed;
                changed
            }
            Event::Apply(meta) => {
                let Some(pod) = PodMeta::of(meta, &self.resources) else { return false };
                let changed = self.pods.get(&pod.key()) != Some(&pod);
                self.pods.insert(pod.key(), pod);
                changed
            }
            Event::Delete(meta) => {
                let Some(pod) = PodMeta::of(meta, &self.resources) else { return false };
                // Another of the same name may have come already.
                let same = self.pods.get(&pod.key()).is_some_and(|known| known.pod == pod.pod);
                if same {
                    self.pods.remove(&pod.key());
                }
                same
            }
        }
    }
}

// === impl PodMeta ===

impl PodMeta {
    /// Its place in a [`PodMap`].
    pub fn key(&self) -> (String, String) {
        (self.pod.namespace.clone(), self.pod.name.clone())
    }

    /// The uid by which the kubelet knows it, in its checkpoint and in the names of directories. A static pod has one of
    /// its own, a hash; what the API shows is a copy with another. Anybody may write such an annotation, so it must be a
    /// hash, which no uid of the API ever is: nobody takes the devices of an ordinary pod by it.
    pub fn kubelet_uid(&self) -> &str {
        let is_hash = |text: &&String| {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == 32 && text.bytes().all(hex)
        };
        let hash = self.annotations.get(names::CONFIG_HASH).filter(is_hash);
        let mirror = self.annotations.get(names::CONFIG_MIRROR);
        hash.filter(|_| hash == mirror).unwrap_or(&self.pod.uid)
    }

    fn of(meta: ObjectMeta, resources: &ResourceNames) -> Option<Self> {
        let read = |key: &str| {
            let ours = [
                annotation::KEY,
                names::ASCEND_REAL,
                names::ASCEND_KUBELET,
                names::CONFIG_HASH,
                names::CONFIG_MIRROR,
            ];
            ours.contains(&key) || resources.vendor(key).is_some()
        };
        let pod = PodRef { namespace: meta.namespace?, name: meta.name?, uid: meta.uid? };
        let annotations = meta.annotations.unwrap_or_default();
        Some(Self {
            pod,
            annotations: annotations.into_iter().filter(|(key, _)| read(key)).collect(),
            rank_group: meta.labels.unwrap_or_default().remove(names::RANK_GROUP),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }
}

#[cfg(test)]
mod tests;
