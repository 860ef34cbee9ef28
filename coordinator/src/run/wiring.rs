//! The parts of a coordinator, one per function.

mod caches;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use muster_program::heartbeat::{self, Heartbeats, LIMIT};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::leading::Leading;
use super::{Settings, election};
use crate::ranktables;
use crate::ranktables::webhook as pods;
use crate::workloads::dijob;
use crate::workloads::dijob::server::{self, DiServer};
use crate::workloads::dijob::webhook as dijobs;
use crate::workloads::modelserving;
use crate::workloads::modelserving::webhook as servings;
use crate::workloads::trainjob;
use crate::workloads::trainjob::progress::{self, Reports};
use crate::workloads::trainjob::runtime::holding_jobs as held;
use crate::workloads::trainjob::webhook as jobs;
use crate::workloads::trainjob::webhook::runtimes::Runtimes;
use muster_hub::Hub;
use muster_runtime::election::{Elector, Leadership};
use muster_runtime::reflector::{Watch, WatchAges};
use muster_runtime::{ObjectMetrics, ReconcileMetrics};
use muster_scheduling::admission::{self, Scheduling};
use muster_scheduling::grouper;
use muster_serving::certs::{CertReconciler, Certificates, ClientAuthorities};
use muster_serving::webhook::Webhooks;

pub(super) use caches::Caches;

/// A coordinator that is being put together.
pub(super) struct Wiring {
    /// What it has to know.
    pub settings: Settings,
    client: Client,
    /// All metrics.
    pub registry: Registry,
    metrics: Counters,
    definitions: HashMap<String, Watch<CustomResourceDefinition>>,
    /// Whether parts and the loops in them are alive.
    pub heartbeats: Heartbeats,
    /// How old what is known of the cluster is.
    pub ages: WatchAges,
    /// Tells all parts to end.
    pub stop: CancellationToken,
    /// What runs already.
    pub parts: JoinSet<&'static str>,
}

/// What the controllers count.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Of all controllers.
    pub reconciled: ReconcileMetrics,
    /// Of rank tables.
    pub tables: ranktables::Metrics,
    /// Of ModelServings.
    pub servings: modelserving::Metrics,
    /// Of LeaderWorkerSets.
    pub lws: ObjectMetrics,
    /// Of DIJobs.
    pub dijobs: ObjectMetrics,
    /// Of TrainJobs.
    pub jobs: trainjob::Metrics,
    /// Of scheduling.
    pub placement: muster_scheduling::Metrics,
    /// Of the grouping of pods.
    pub grouping: grouper::Metrics,
    /// Of trainers' reports.
    pub progress: progress::Metrics,
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
        let metrics = Counters::default();
        metrics.tables.register(&mut registry);
        metrics.servings.register(&mut registry);
        metrics.reconciled.register(&mut registry);
        metrics.lws.register(&mut registry, "muster_leaderworkerset", "LeaderWorkerSets");
        metrics.dijobs.register(&mut registry, "muster_dijob", "DIJobs");
        metrics.jobs.register(&mut registry);
        metrics.placement.register(&mut registry);
        metrics.grouping.register(&mut registry);
        metrics.progress.register(&mut registry);
        let (stop, parts) = (CancellationToken::new(), JoinSet::new());
        let (definitions, heartbeats) = (HashMap::new(), Heartbeats::default());
        let ages = WatchAges::default();
        Self { settings, client, registry, metrics, definitions, heartbeats, ages, stop, parts }
    }

    /// Starts a part that ends when told to.
    fn start(&mut self, name: &'static str, body: impl Future<Output = ()> + Send + 'static) {
        let heart = self.heartbeats.register(name, LIMIT);
        self.parts.spawn(async move {
            heartbeat::beating(heart, body).await;
            name
        });
    }

    /// Where coordinators of DIJobs call.
    pub fn di_server(
        &mut self,
        listener: TcpListener,
        caches: dijob::Caches,
        leadership: watch::Receiver<Leadership>,
        certificates: Certificates,
    ) -> anyhow::Result<()> {
        let (client, jobs) = (self.client.clone(), self.settings.dijob.clone());
        let parts = server::Parts { caches, client, leadership, jobs, certificates };
        let port = listener.local_addr()?.port();
        let server = DiServer::new(parts, self.settings.diserver.clone(), port);
        server.metrics().register(&mut self.registry);
        self.start("di server", server.serve(listener, self.stop.clone()));
        Ok(())
    }

    /// Certificates, as whoever leads makes them.
    pub fn certificates(&mut self) -> (CertReconciler, Certificates) {
        let Settings { namespace, names, .. } = &self.settings;
        let (keeper, certificates) =
            CertReconciler::new(self.client.clone(), namespace, names.clone());
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
        caches: &Caches,
        rules: Arc<trainjob::Rules>,
    ) -> anyhow::Result<()> {
        let injection = self.settings.injection.clone();
        let templates = caches.templates.clone();
        let of_servings = rules.settings.schedulers.clone();
        let of_dijobs = of_servings.clone();
        let runtimes = Runtimes::new(self.client.clone(), caches.jobs.clone());
        let (filling, by) = (runtimes.clone(), rules.clone());
        let (local, cluster) = (caches.jobs.clone(), caches.jobs.clone());
        let rule = self.settings.runtime_holds;
        let schedulers = self.settings.placement.cluster.scheduler_names.clone();
        let admission = self.settings.admission.clone().for_schedulers(schedulers);
        let placed = Scheduling::new(self.client.clone(), admission);
        let (own, others, seen) = (placed.rules(), placed.rules(), placed.rules());
        let (queues, groups) = (placed.clone(), placed);
        let live = || caches.live.clone();
        let (sharing, judging, seeing) = (live(), live(), live());
        let hooks = Webhooks::new()
            .on("/mutate-pods", move |request| pods::mutate(request, &templates, &injection))
            .on(servings::PATH, move |request| servings::validate_with_queue(request, &of_servings))
            .on(dijobs::MUTATE, dijobs::mutate)
            .on(dijobs::VALIDATE_CONFIG, dijobs::validate_config)
            .on(dijobs::VALIDATE, move |request| dijobs::validate_with_queue(request, &of_dijobs))
            .inquiring(jobs::DEFAULTS, move |request| filling.clone().mutate(request, by.clone()))
            .inquiring(jobs::JOBS, move |request| runtimes.clone().validate(request, rules.clone()))
            .on(jobs::RUNTIMES, move |request| {
                jobs::validate_new_runtime(request, |runtime| held(&local, rule, runtime))
            })
            .on(jobs::CLUSTER_RUNTIMES, move |request| {
                jobs::validate_runtime(request, |runtime| held(&cluster, rule, runtime))
            })
            .inquiring(admission::QUEUES, move |request| queues.clone().queue(request))
            .inquiring(admission::POD_GROUPS, move |request| groups.clone().pod_group(request))
            .on(admission::TOPOLOGIES, admission::Rules::topology)
            .on(admission::MUTATE_PODS, move |request| sharing.rules(&own).mutate_pod(request))
            .on(admission::VISIBLE_DEVICES, move |request| {
                seeing.rules(&seen).visible_devices(request)
            })
            .on(admission::PODS, move |request| judging.rules(&others).pod(request));
        hooks.metrics().register(&mut self.registry);
        let alpn: [&[u8]; 2] = [b"h2", b"http/1.1"];
        let tls = match self.settings.webhook_client_ca.as_deref() {
            Some(file) => {
                let clients = ClientAuthorities::read(file).context("--webhook-client-ca")?;
                self.start("authorities of clients", clients.clone().follow(self.stop.clone()));
                certificates.server_config_for(clients, &alpn)?
            }
            None => certificates.server_config(&alpn)?,
        };
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

    /// Where trainers report their progress.
    pub fn progress(
        &mut self,
        listener: TcpListener,
        certificates: &Certificates,
    ) -> anyhow::Result<()> {
        let server = Reports::new(self.client.clone(), self.metrics.progress.clone());
        let tls = certificates.server_config(&[b"http/1.1"])?;
        let (certificates, stop) = (certificates.clone(), self.stop.clone());
        self.start("progress", async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = certificates.ready() => {}
            }
            server.serve(listener, tls, stop).await;
        });
        Ok(())
    }

    /// Who leads.
    pub fn election(&mut self, hub: SocketAddr) -> watch::Receiver<Leadership> {
        let (elector, leadership) =
            Elector::new(self.client.clone(), election(&self.settings, hub));
        elector.metrics().register(&mut self.registry);
        let stop = self.stop.clone();
        self.start("election", async move { elector.run(stop).await });
        leadership
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
                caches.servings.ready().await;
                caches.jobs.ready().await;
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
