//! When pods got their nodes, and when they were told to go. Only names are read, so that looking costs little.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;

use crate::world::{Seen, until};

/// How long anything may take; it ends as soon as it is so.
const PATIENCE: Duration = Duration::from_secs(300);

/// When each pod was first seen to have a node, and to go.
pub struct Arrivals {
    seen: Arc<Mutex<Times>>,
    watching: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Times {
    bound: HashMap<String, Instant>,
    leaving: HashMap<String, Instant>,
}

// === impl Arrivals ===

impl Arrivals {
    /// Looks from now on.
    pub fn watch(client: Client, namespace: &str) -> Self {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client, namespace);
        let seen = Arc::new(Mutex::new(Times::default()));
        let times = seen.clone();
        let watching = tokio::spawn(async move {
            let config = watcher::Config::default().fields("spec.nodeName!=");
            let mut stream = std::pin::pin!(watcher(api, config));
            while let Some(event) = stream.next().await {
                let (pod, gone) = match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => (pod, false),
                    Ok(watcher::Event::Delete(pod)) => (pod, true),
                    _ => continue,
                };
                let (name, now) = (pod.name_any(), Instant::now());
                let mut times = times.lock();
                if gone || pod.metadata.deletion_timestamp.is_some() {
                    times.leaving.entry(name).or_insert(now);
                } else {
                    times.bound.entry(name).or_insert(now);
                }
            }
        });
        Self { seen, watching }
    }

    /// How long it took until so many pods of this beginning had nodes.
    pub async fn bound(
        &self,
        prefix: &str,
        count: usize,
        since: Instant,
    ) -> anyhow::Result<Duration> {
        self.reached(prefix, count, since, |times| &times.bound).await
    }

    /// How long it took until so many were told to go.
    pub async fn leaving(
        &self,
        prefix: &str,
        count: usize,
        since: Instant,
    ) -> anyhow::Result<Duration> {
        self.reached(prefix, count, since, |times| &times.leaving).await
    }

    async fn reached(
        &self,
        prefix: &str,
        count: usize,
        since: Instant,
        of: fn(&Times) -> &HashMap<String, Instant>,
    ) -> anyhow::Result<Duration> {
        until(&format!("{count} pods of {prefix}"), PATIENCE, async || {
            let times = self.seen.lock();
            let mine = of(&times).iter().filter(|(name, _)| name.starts_with(prefix));
            let found: HashSet<&String> = mine.map(|(name, _)| name).collect();
            Ok(if found.len() >= count {
                let mut all: Vec<Instant> = of(&times)
                    .iter()
                    .filter(|(name, _)| name.starts_with(prefix))
                    .map(|(_, at)| *at)
                    .collect();
                all.sort();
                let last = all.get(count - 1).copied().context("counted")?;
                Seen::Yes(last.saturating_duration_since(since))
            } else {
                Seen::NotYet(format!("{} are", found.len()))
            })
        })
        .await
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
