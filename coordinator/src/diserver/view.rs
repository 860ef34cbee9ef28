//! What the server knows of the cluster: the caches, and what was asked of the API server because they lack it.

use std::sync::Arc;

use kube::api::Api;
use muster_dijob::api::{self, DIJob, Template};
use muster_dijob::names::label;
use muster_dijob::pod::Pod;
use muster_dijob::server::View;

use super::DiServer;
use crate::controllers::dijob::kinds::{Job, raw_pods};

/// What the server knows at one moment.
pub struct Seen<'a> {
    server: &'a DiServer,
    /// A job that the cache lacks.
    job: Option<Arc<DIJob>>,
}

// === impl Seen ===

impl<'a> Seen<'a> {
    /// What the caches know, and if they lack this pod or its job, what the API server says. An answer that something is
    /// not there ends DI-engine's program: it must be true.
    pub async fn of(server: &'a DiServer, about: Option<(&str, &str)>) -> Self {
        let mut seen = Self { server, job: None };
        let Some((namespace, name)) = about else { return seen };
        if namespace.is_empty() || name.is_empty() {
            return seen;
        }
        let cache = &server.sources.cache;
        if cache.pod(namespace, name).is_none() && !cache.was_deleted(namespace, name) {
            seen.look_for_pod(namespace, name).await;
        }
        if let Some(pod) = cache.pod(namespace, name)
            && let Some(owner) = pod.job()
            && seen.job(namespace, &owner.name).is_none_or(|job| job.uid() != owner.uid)
        {
            let api: Api<Job> = Api::namespaced(server.client.clone(), namespace);
            if let Ok(Some(job)) = api.get_opt(&owner.name).await {
                seen.job = job.read().ok().map(Arc::new);
            }
        }
        seen
    }

    async fn look_for_pod(&self, namespace: &str, name: &str) {
        let api = raw_pods(self.server.client.clone(), namespace);
        let Ok(Some(found)) = api.get_opt(name).await else { return };
        let found = serde_json::to_value(found).unwrap_or_default();
        let Ok(pod) = serde_json::from_value::<Pod>(found) else { return };
        // Pods without these labels are never in the cache.
        let ours = pod.label(label::GROUP) == api::GROUP
            && pod.label(label::CONTROLLER) == label::CONTROLLER_VALUE;
        if ours && pod.job().is_some() {
            self.server.sources.cache.made(pod);
        }
    }
}

impl View for Seen<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.server.sources.cache.pod(namespace, name)
    }

    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        self.server.sources.cache.pods(namespace)
    }

    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        self.server.sources.cache.pods_of(namespace, job)
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>> {
        let own = self.job.as_ref();
        if let Some(own) = own.filter(|job| job.namespace() == namespace && job.name() == name) {
            return Some(Arc::clone(own));
        }
        let job = self.server.sources.jobs.named(namespace, name)?;
        job.read().ok().map(Arc::new)
    }

    fn aggregator(&self) -> Option<Arc<Template>> {
        let make = &self.server.jobs.make;
        let configs = &self.server.sources.configs;
        let config = configs.named(&make.aggregator_namespace, &make.aggregator_name)?;
        Some(Arc::new(config.read().ok()?.spec.aggregator.template))
    }

    fn devices(&self, resource: &str) -> Vec<u64> {
        let nodes = self.server.sources.nodes.all();
        let count = |node: &Arc<k8s_openapi::api::core::v1::Node>| {
            let amount = node.status.as_ref()?.allocatable.as_ref()?.get(resource)?;
            amount.0.parse().ok()
        };
        nodes.iter().map(|node| count(node).unwrap_or_default()).collect()
    }

    fn was_deleted(&self, namespace: &str, name: &str) -> bool {
        self.server.sources.cache.was_deleted(namespace, name)
    }
}
