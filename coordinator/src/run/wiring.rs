//! The parts of a coordinator, one per function.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodSpec, PodStatus};
use kube::Client;
use kube::api::Api;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::leading::Leading;
use super::{Settings, election};
use crate::certs::{Certificates, Keeper};
use crate::controllers::ranktable;
use crate::hub::Hub;
use crate::lead::{Elector, Standing};
use crate::names;
use crate::templates::Templates;
use crate::watch::{Watch, watch};
use crate::webhook::{Webhooks, pods};

/// A coordinator that is being put together.
pub(super) struct Wiring {
    /// What it has to know.
    pub settings: Settings,
    client: Client,
    /// All metrics.
    pub registry: Registry,
    metrics: ranktable::Metrics,
    /// Tells all parts to end.
    pub stop: CancellationToken,
    /// What runs already.
    pub parts: JoinSet<&'static str>,
}

/// What is known of the cluster.
#[derive(Clone)]
pub(super) struct Caches {
    /// Pods of rank groups.
    pub pods: Watch<Pod>,
    /// Records of tables.
    pub records: Watch<ConfigMap>,
    /// Templates.
    pub templates: Templates,
}

// === impl Wiring ===

impl Wiring {
    pub fn new(settings: Settings, client: Client) -> Self {
        let mut registry = Registry::default();
        let info = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        info.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register(
            "muster_coordinator_build_info",
            "The coordinator's version; the value is always 1",
            info,
        );
        let metrics = ranktable::Metrics::default();
        metrics.register(&mut registry);
        let (stop, parts) = (CancellationToken::new(), JoinSet::new());
        Self { settings, client, registry, metrics, stop, parts }
    }

    /// Starts a part that ends when told to.
    fn start(&mut self, name: &'static str, body: impl Future<Output = ()> + Send + 'static) {
        self.parts.spawn(async move {
            body.await;
            name
        });
    }

    /// One reflector per kind.
    pub fn caches(&mut self) -> Caches {
        let labelled = |label: &str| watcher::Config::default().labels(label);
        let api = Api::all(self.client.clone());
        let (pods, follow) = watch(api, labelled(names::RANK_GROUP), trim_pod);
        self.start("pods", follow.run(self.stop.clone()));
        let api = Api::all(self.client.clone());
        let (records, follow) = watch(api, labelled(names::RECORD), trim_map);
        self.start("records", follow.run(self.stop.clone()));
        let namespace = self.settings.template_namespace.clone();
        let api = Api::namespaced(self.client.clone(), &namespace);
        let (maps, follow) = watch(api, watcher::Config::default(), trim_map);
        self.start("templates", follow.run(self.stop.clone()));
        Caches { pods, records, templates: Templates::new(&namespace, maps) }
    }

    /// Certificates, as whoever leads makes them.
    pub fn certificates(&mut self) -> (Keeper, Certificates) {
        let Settings { namespace, names, .. } = &self.settings;
        let (keeper, certificates) = Keeper::new(self.client.clone(), namespace, names.clone());
        let (follow, stop) = (keeper.clone(), self.stop.clone());
        self.start("certificates", async move { follow.follow(stop).await });
        (keeper, certificates)
    }

    /// Where agents call.
    pub fn hub(
        &mut self,
        hub: &Hub,
        listener: TcpListener,
        certificates: &Certificates,
    ) -> anyhow::Result<()> {
        let (hub, tls) = (hub.clone(), certificates.server_config(&[b"h2"])?);
        let (certificates, stop) = (certificates.clone(), self.stop.clone());
        self.start("hub", async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = certificates.ready() => {}
            }
            if let Err(error) = hub.serve(listener, Some(tls), stop).await {
                tracing::error!("the hub ended: {error}");
            }
        });
        Ok(())
    }

    /// Where the API server calls.
    pub fn webhooks(
        &mut self,
        listener: TcpListener,
        certificates: &Certificates,
        templates: Templates,
    ) -> anyhow::Result<()> {
        let injection = self.settings.injection.clone();
        let hooks = Webhooks::new()
            .on("/mutate-pods", move |request| pods::mutate(request, &templates, &injection));
        hooks.metrics().register(&mut self.registry);
        let tls = certificates.server_config(&[b"h2", b"http/1.1"])?;
        let (certificates, stop) = (certificates.clone(), self.stop.clone());
        self.start("webhooks", async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = certificates.ready() => {}
            }
            hooks.serve(listener, tls, stop).await;
        });
        Ok(())
    }

    /// Who leads.
    pub fn election(&mut self, hub: SocketAddr) -> watch::Receiver<Standing> {
        let (elector, standing) = Elector::new(self.client.clone(), election(&self.settings, hub));
        elector.metrics().register(&mut self.registry);
        let stop = self.stop.clone();
        self.start("election", async move { elector.run(stop).await });
        standing
    }

    /// What only the leader does.
    pub fn lead(&mut self, leading: Leading) {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        let (metrics, stop) = (self.metrics.clone(), self.stop.clone());
        self.start("leading", async move { leading.run(client, settings, metrics, stop).await });
    }

    /// True when webhooks can be answered and groups can be judged.
    pub fn ready(&mut self, caches: &Caches, certificates: &Certificates) -> watch::Receiver<bool> {
        let (ready, seen) = watch::channel(false);
        let (caches, certificates, stop) =
            (caches.clone(), certificates.clone(), self.stop.clone());
        self.start("readiness", async move {
            let all = async {
                caches.pods.ready().await;
                caches.records.ready().await;
                caches.templates.maps().ready().await;
                certificates.ready().await;
                ready.send_replace(true);
                // Somebody may ask for as long as the coordinator runs.
                ready.closed().await;
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = all => stop.cancelled().await,
            }
        });
        seen
    }
}

/// Of a pod only this is looked at.
fn trim_pod(pod: &mut Pod) {
    trim_meta(&mut pod.metadata);
    if let Some(spec) = pod.spec.take() {
        let volumes = spec.volumes.map(|volumes| {
            volumes.into_iter().filter(|volume| volume.name == names::VOLUME).collect()
        });
        pod.spec = Some(PodSpec { node_name: spec.node_name, volumes, ..PodSpec::default() });
    }
    if let Some(status) = pod.status.take() {
        let (phase, pod_ip, host_ip) = (status.phase, status.pod_ip, status.host_ip);
        pod.status = Some(PodStatus { phase, pod_ip, host_ip, ..PodStatus::default() });
    }
}

fn trim_map(map: &mut ConfigMap) {
    trim_meta(&mut map.metadata);
}

fn trim_meta(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
}
