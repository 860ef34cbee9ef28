//! What the server knows of the cluster: the caches, and what was asked of the API server because they lack it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use muster_dijob::api::{self, DIJob, Template};
use muster_dijob::names::label;
use muster_dijob::pod::Pod;
use muster_dijob::server::{About, View};
use muster_kube::{Name, Namespace};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::DiServer;
use super::perform::{PAUSE, TOGETHER, TRIES, may_help};
use crate::workloads::Key;
use crate::workloads::dijob::kinds::{Config, Job, raw, raw_pods};
use muster_runtime::writer::{Fenced, WriteError, Writer};

/// What the server knows at one moment.
pub struct Seen<'a> {
    server: &'a DiServer,
    /// Jobs that the cache lacks, and those of it that were read for this request.
    jobs: Mutex<BTreeMap<Key, Arc<DIJob>>>,
    /// The template of aggregators, if the cache lacks it.
    aggregator: Option<Arc<Template>>,
}

// === impl Seen ===

impl<'a> Seen<'a> {
    /// What the caches know, and if they lack these pods or their jobs, what the API server says. An answer that
    /// something is not there ends DI-engine's program: it must be true, so whoever cannot know says that instead.
    pub async fn of(
        server: &'a DiServer,
        writer: &Writer,
        about: Option<&About>,
    ) -> Result<Self, WriteError> {
        let mut seen = Self::cached(server);
        let Some(About { namespace, pods, aggregator }) = about else { return Ok(seen) };
        // Who asks need not be known; nothing is looked at after another one that is not.
        for (place, name) in pods.iter().enumerate() {
            let known = seen.find(writer, namespace, name).await?;
            if !known && place > 0 && !server.caches.cache.was_deleted(namespace, name) {
                break;
            }
        }
        if *aggregator && seen.aggregator().is_none() {
            let make = &server.jobs.make;
            let api = raw::<Config>(writer, &make.aggregator_namespace);
            let found = look(writer, &api, &make.aggregator_name).await?;
            let config = found.and_then(read::<Config>).and_then(|config| config.read().ok());
            seen.aggregator = config.map(|config| Arc::new(config.spec.aggregator.template));
        }
        Ok(seen)
    }

    /// What the caches know.
    pub fn cached(server: &'a DiServer) -> Self {
        Self { server, jobs: Mutex::default(), aggregator: None }
    }

    /// Asks the API server for a pod; the cache knows from here on how it is.
    pub async fn look_up(
        &self,
        writer: &Writer,
        namespace: &Namespace,
        name: &Name,
    ) -> Result<(), WriteError> {
        let api = raw_pods(writer, namespace);
        let found = look(writer, &api, name).await?.and_then(read::<Pod>);
        // Pods without these labels are never in the cache.
        let ours = |pod: &Pod| {
            pod.label(label::GROUP) == api::GROUP
                && pod.label(label::CONTROLLER) == label::CONTROLLER_VALUE
                && pod.job().is_some()
        };
        if let Some(pod) = found.filter(ours) {
            self.server.caches.cache.made(pod);
        }
        Ok(())
    }

    /// Whether there is this pod. If so it and its job are known from here on.
    async fn find(
        &self,
        writer: &Writer,
        namespace: &Namespace,
        name: &Name,
    ) -> Result<bool, WriteError> {
        let cache = &self.server.caches.cache;
        if cache.pod(namespace, name).is_none() {
            self.look_up(writer, namespace, name).await?;
        }
        let Some(pod) = cache.pod(namespace, name) else { return Ok(false) };
        let jobs = &self.server.caches.jobs;
        let known = |name: &Name| jobs.named(namespace, name)?.0.metadata.uid.clone();
        // The name of an owner is what somebody has written.
        if let Some(owner) = pod.job()
            && let Ok(name) = Name::parse(&owner.name)
            && known(&name).as_ref() != Some(&owner.uid)
        {
            let api = raw::<Job>(writer, namespace);
            let found = look(writer, &api, &name).await?.and_then(read::<Job>);
            if let Some(job) = found.and_then(|job| job.read().ok()) {
                let key = Key::new(namespace.as_str(), &owner.name);
                self.jobs.lock().insert(key, Arc::new(job));
            }
        }
        Ok(true)
    }
}

/// What the API server has of this name, asked again while that may help.
async fn look(
    writer: &Writer,
    api: &Fenced<DynamicObject>,
    name: &str,
) -> Result<Option<DynamicObject>, WriteError> {
    let (since, mut tries) = (Instant::now(), 0);
    loop {
        tries += 1;
        match writer.read(api, name).await {
            Err(error) if tries < TRIES && may_help(&error) && since.elapsed() < TOGETHER => {
                tokio::time::sleep(PAUSE * tries).await;
            }
            found => return found,
        }
    }
}

fn read<T: DeserializeOwned>(found: DynamicObject) -> Option<T> {
    serde_json::from_value(serde_json::to_value(found).ok()?).ok()
}

impl View for Seen<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.server.caches.cache.pod(namespace, name)
    }

    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        self.server.caches.cache.pods(namespace)
    }

    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        self.server.caches.cache.pods_of(namespace, job)
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>> {
        let key = Key::new(namespace, name);
        if let Some(known) = self.jobs.lock().get(&key) {
            return Some(Arc::clone(known));
        }
        let job = Arc::new(self.server.caches.jobs.named(namespace, name)?.read().ok()?);
        // It is the same for all of the request, and read once.
        self.jobs.lock().insert(key, Arc::clone(&job));
        Some(job)
    }

    fn aggregator(&self) -> Option<Arc<Template>> {
        if let Some(known) = &self.aggregator {
            return Some(Arc::clone(known));
        }
        let make = &self.server.jobs.make;
        let configs = &self.server.caches.configs;
        let config = configs.named(&make.aggregator_namespace, &make.aggregator_name)?;
        Some(Arc::new(config.read().ok()?.spec.aggregator.template))
    }

    fn devices(&self, resource: &str) -> Vec<u64> {
        let nodes = self.server.caches.nodes.all();
        let count = |node: &Arc<k8s_openapi::api::core::v1::Node>| {
            let amount = node.status.as_ref()?.allocatable.as_ref()?.get(resource)?;
            amount.0.parse().ok()
        };
        nodes.iter().map(|node| count(node).unwrap_or_default()).collect()
    }

    fn was_deleted(&self, namespace: &str, name: &str) -> bool {
        self.server.caches.cache.was_deleted(namespace, name)
    }
}
