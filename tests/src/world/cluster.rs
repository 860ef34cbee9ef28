//! A part of a real cluster: a namespace and simulated nodes of our own, taken away at the end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config, ResourceExt};
use muster_sandbox::clock::Clock;
use muster_sandbox::control::{Controllers, Which};
use muster_sandbox::kubelet::{Kubelets, names};
use rand::Rng;
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::plan::{Plan, WORLD};
use super::{Seen, scheduling, training, until};

/// Two schedulers of ours would give away the same devices twice, so worlds take turns.
static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

const PATIENCE: Duration = Duration::from_secs(60);

/// What others would act upon: owners before what they own.
const SEEN_BY_OTHERS: [(&str, &str, &str); 9] = [
    ("trainer.kubeflow.org", "v1alpha1", "trainjobs"),
    ("workload.kthena.io", "v1alpha1", "modelservings"),
    ("workload.serving.volcano.sh", "v1alpha1", "modelservings"),
    ("diengine.opendilab.org", "v1alpha1", "dijobs"),
    ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    ("batch", "v1", "jobs"),
    ("scheduling.run.ai", "v2alpha2", "podgroups"),
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
];

/// Our part of a real cluster.
pub(super) struct Cluster {
    client: Client,
    config: Config,
    url: String,
    kubeconfig: PathBuf,
    /// What all our names begin with.
    mark: String,
    namespace: String,
    kubelets: Option<Kubelets>,
    scheduler: Option<Controllers>,
    _turn: OwnedMutexGuard<()>,
}

// === impl Cluster ===

impl Cluster {
    /// Takes a namespace and starts nodes, and a scheduler where the cluster has none.
    pub async fn start(kubeconfig: PathBuf, plan: Plan, folder: &Path) -> anyhow::Result<Self> {
        let turn = TURN.clone().lock_owned().await;
        let read = Kubeconfig::read_from(&kubeconfig)
            .with_context(|| format!("kubeconfig {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config.clone())?;
        let mark: String = {
            let mut dice = rand::rng();
            ['w'].into_iter().chain((0..5).map(|_| dice.random_range('a'..='z'))).collect()
        };
        let namespace = format!("{mark}-world");
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("creating a namespace at {url}"))?;
        let mut cluster = Self {
            client,
            config,
            url,
            kubeconfig,
            mark,
            namespace,
            kubelets: None,
            scheduler: None,
            _turn: turn,
        };
        match cluster.furnish(plan, folder).await {
            Ok(()) => Ok(cluster),
            Err(error) => {
                cluster.stop().await;
                Err(error)
            }
        }
    }

    async fn furnish(&mut self, plan: Plan, folder: &Path) -> anyhow::Result<()> {
        let clock = Clock::machine();
        if !self.has_scheduler().await? {
            let which = Which { scheduler: true, ..Which::none() };
            self.scheduler = Some(Controllers::start(self.client.clone(), clock.clone(), which));
        }
        let nodes = plan.specs(folder, Some(&self.mark));
        if !nodes.is_empty() {
            let options = plan.kubelet_options();
            let kubelets = Kubelets::start(self.client.clone(), clock, nodes, options).await?;
            self.kubelets = Some(kubelets);
        }
        Ok(())
    }

    /// A scheduler that is alive holds this lease.
    async fn has_scheduler(&self) -> anyhow::Result<bool> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("kube-scheduler").await?;
        let spec = lease.and_then(|lease| lease.spec);
        let Some(renewed) = spec.and_then(|spec| spec.renew_time) else { return Ok(false) };
        let age = Clock::machine().now().duration_since(renewed.0);
        Ok(age.as_secs() < names::LEASE_SECONDS)
    }

    /// A client as whoever the kubeconfig says.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client that has nothing but this token.
    pub fn client_as(&self, token: &str) -> anyhow::Result<Client> {
        let mut config = self.config.clone();
        config.auth_info = Default::default();
        config.auth_info.token = Some(token.to_owned().into());
        Ok(Client::try_from(config)?)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn kubelets(&self) -> Option<&Kubelets> {
        self.kubelets.as_ref()
    }

    /// Takes everything away: first what is in the namespace, while there are kubelets to end its pods.
    pub async fn stop(self) {
        if let Err(error) = self.clear_namespace().await {
            tracing::warn!(namespace = self.namespace, "left behind: {error:#}");
        }
        if let Some(kubelets) = self.kubelets {
            kubelets.stop().await;
        }
        if let Some(scheduler) = self.scheduler {
            scheduler.stop().await;
        }
        if let Err(error) = training::clear(self.client.clone(), &self.mark).await {
            tracing::warn!(mark = self.mark, "runtimes left behind: {error:#}");
        }
        if let Err(error) = scheduling::clear(self.client.clone(), &self.mark).await {
            tracing::warn!(mark = self.mark, "queues left behind: {error:#}");
        }
        if let Err(error) = clear_nodes(&self.client, &self.mark).await {
            tracing::warn!(mark = self.mark, "nodes left behind: {error:#}");
        }
    }

    /// Deletes the namespace, and at once what coordinators and schedulers of the next world would see in it. The rest goes
    /// without us: the namespace controller waits 5 seconds before it looks.
    async fn clear_namespace(&self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        let now = DeleteParams::background().grace_period(0);
        until("the end of what is in the namespace", PATIENCE, async || {
            let mut left = Vec::new();
            for (group, version, plural) in SEEN_BY_OTHERS {
                let kind = GroupVersionKind::gvk(group, version, "");
                let resource = ApiResource::from_gvk_with_plural(&kind, plural);
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
                let there = match api.list_metadata(&ListParams::default()).await {
                    // The kind was never there.
                    Err(kube::Error::Api(refused)) if refused.code == 404 => continue,
                    list => list?.items,
                };
                if !there.is_empty() {
                    api.delete_collection(&now, &ListParams::default()).await?;
                    left.push(format!("{} {plural}", there.len()));
                }
            }
            Ok(if left.is_empty() { Seen::Yes(()) } else { Seen::NotYet(left.join(", ")) })
        })
        .await
    }
}

async fn clear_nodes(client: &Client, mark: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), names::LEASE_NAMESPACE);
    let ours = ListParams::default().labels(&format!("{WORLD}={mark}"));
    for node in nodes.list(&ours).await?.items {
        let name = node.name_any();
        nodes.delete(&name, &DeleteParams::default()).await?;
        match leases.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            other => drop(other?),
        }
    }
    Ok(())
}
