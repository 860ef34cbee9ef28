//! Sees every version of every pod, and whether any device was given twice or any pod bound twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{WatchEvent, WatchParams};
use muster_tests::World;
use muster_tests::world::scheduling::node;
use parking_lot::Mutex;

/// Devices of a node.
const DEVICES: i64 = 8;

#[derive(Default)]
struct Book {
    /// Node, identity and devices of pods that have not ended.
    held: BTreeMap<String, (String, i64)>,
    /// All nodes that a pod has ever had, by identity.
    nodes: BTreeMap<String, BTreeSet<String>>,
    wrong: Vec<String>,
}

/// Watches the pods of a namespace.
pub struct Ledger {
    book: Arc<Mutex<Book>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Ledger {
    /// From now on.
    pub async fn new(world: &World, resource: &'static str) -> Result<Self> {
        let book: Arc<Mutex<Book>> = Arc::default();
        let own = book.clone();
        let api = world.api::<Pod>();
        let mut from = "0".to_owned();
        let mut seen = api.watch(&WatchParams::default(), &from).await?.boxed();
        let watch = tokio::spawn(async move {
            loop {
                match seen.next().await {
                    Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => {
                        from = pod.resource_version().unwrap_or_default();
                        own.lock().put(&pod, resource);
                    }
                    Some(Ok(WatchEvent::Deleted(pod))) => {
                        from = pod.resource_version().unwrap_or_default();
                        own.lock().held.remove(&pod.name_any());
                    }
                    // Too old: everything is told once more.
                    Some(Ok(WatchEvent::Error(_))) => "0".clone_into(&mut from),
                    Some(Ok(_)) => {}
                    // Watches end when the test lets them; what was missed comes first.
                    Some(Err(_)) | None => {
                        let again = api.watch(&WatchParams::default(), &from).await;
                        match again {
                            Ok(stream) => seen = stream.boxed(),
                            Err(_) => "0".clone_into(&mut from),
                        }
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        Ok(Self { book, watch })
    }

    /// How many pods have had a node.
    pub fn seen(&self) -> usize {
        self.book.lock().nodes.len()
    }

    /// What was wrong.
    pub fn judge(self) -> Result<()> {
        self.watch.abort();
        let book = self.book.lock();
        ensure!(book.wrong.is_empty(), "{:#?}", book.wrong);
        let twice: Vec<_> = book.nodes.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
        ensure!(twice.is_empty(), "bound twice: {twice:?}");
        Ok(())
    }
}

impl Book {
    fn put(&mut self, pod: &Pod, resource: &str) {
        let name = pod.name_any();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let Some(place) = node(pod).filter(|_| !matches!(phase, Some("Succeeded" | "Failed")))
        else {
            self.held.remove(&name);
            return;
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let amount = |container: &k8s_openapi::api::core::v1::Container| {
            let amount = container.resources.as_ref()?.limits.as_ref()?.get(resource)?;
            amount.0.parse::<i64>().ok()
        };
        let devices = containers.filter_map(amount).sum();
        self.nodes.entry(pod.uid().unwrap_or_default()).or_default().insert(place.to_owned());
        self.held.insert(name, (place.to_owned(), devices));
        let sum: i64 =
            self.held.values().filter(|(node, _)| node == place).map(|(_, held)| held).sum();
        if sum > DEVICES {
            self.wrong.push(format!("{sum} devices of {place} are given: {:?}", self.held));
        }
    }
}
