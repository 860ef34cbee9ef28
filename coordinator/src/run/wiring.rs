//! The parts of a coordinator, one per function.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use muster_dijob::api;
use muster_dijob::names::label;
use muster_modelserving::naming;
use muster_pipeline::plugin;
use muster_program::heartbeat::{self, Heartbeats, LIMIT};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::leading::Leading;
use super::trim::{trim, trim_definition, trim_pod, trim_serving, trim_serving_pod};
use super::{Settings, election};
use crate::names;
use crate::ranktables;
use crate::ranktables::templates::Templates;
use crate::ranktables::webhook as pods;
use crate::workloads::dijob;
use crate::workloads::dijob::server::{self, DiServer};
use crate::workloads::dijob::webhook as dijobs;
use crate::workloads::lws;
use crate::workloads::modelserving;
use crate::workloads::modelserving::webhook as servings;
use crate::workloads::modelserving::written::definition;
use crate::workloads::trainjob::owned::{self, OwnedKind, OwnedKinds};
use crate::workloads::trainjob::progress::{self, Reports};
use crate::workloads::trainjob::runtime::holding_jobs as held;
use crate::workloads::trainjob::webhook as jobs;
use crate::workloads::trainjob::webhook::runtimes::Runtimes;
use crate::workloads::trainjob::{self, kinds};
use muster_hub::Hub;
use muster_runtime::any_object::{AnyKind, AnyObject};
use muster_runtime::election::{Elector, Leadership};
use muster_runtime::reflector::{Watch, WatchAges, watch, watch_kind};
use muster_runtime::{ObjectMetrics, ReconcileMetrics};
use muster_scheduling::admission::{self, Scheduling};
use muster_scheduling::{bootstrap, grouper, live};
use muster_serving::certs::{CertReconciler, Certificates, ClientAuthorities};
use muster_serving::webhook::Webhooks;

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

/// What is known of the cluster.
#[derive(Clone)]
pub(super) struct Caches {
    /// Pods of rank groups.
    pub pods: Watch<Pod>,
    /// Records of tables.
    pub records: Watch<ConfigMap>,
    /// Templates.
    pub templates: Templates,
    /// ModelServings and what they have.
    pub servings: modelserving::Caches,
    /// LeaderWorkerSets, if we make ModelServings of them.
    pub lws: Option<lws::Caches>,
    /// DIJobs and what they have.
    pub dijobs: dijob::Caches,
    /// TrainJobs, their runtimes and what they have.
    pub jobs: trainjob::Caches,
    /// Whether the cluster knows queues.
    pub queues: Watch<CustomResourceDefinition>,
    /// The scheduler's configuration, as it changes.
    pub live: live::Objects,
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

    /// One reflector per kind.
    pub fn caches(&mut self, plugins: &muster_pipeline::Registry) -> Caches {
        let labelled = |label: &str| watcher::Config::default().labels(label);
        let api = Api::all(self.client.clone());
        let (pods, follow) = watch(api, labelled(names::RANK_GROUP), trim_pod);
        self.start("pods", follow.run(self.stop.clone()));
        let api = Api::all(self.client.clone());
        let (records, follow) = watch(api, labelled(names::RECORD), trim);
        self.start("records", follow.run(self.stop.clone()));
        let namespace = self.settings.template_namespace.clone();
        let api = Api::namespaced(self.client.clone(), &namespace);
        let (maps, follow) = watch(api, watcher::Config::default(), trim);
        self.start("templates", follow.run(self.stop.clone()));
        let templates = Templates::new(&namespace, maps);
        let servings = self.servings(records.clone(), templates.clone());
        let lws = self.settings.leader_worker_sets.then(|| self.lws(&servings));
        let jobs = self.jobs(plugins, templates.clone());
        let dijobs = self.dijobs();
        let queues = self.definition(bootstrap::DEFINITION);
        let live = self.live();
        for (name, age) in [
            ("pods of rank groups", pods.age()),
            ("records of tables", records.age()),
            ("trainjobs", jobs.jobs.age()),
            ("dijobs", dijobs.jobs.age()),
        ] {
            self.ages.add(name, age);
        }
        Caches { pods, records, templates, servings, lws, jobs, dijobs, queues, live }
    }

    /// The scheduler's configuration, where the cluster knows its kinds.
    fn live(&mut self) -> live::Objects {
        let shard = self.definition(live::definition::SHARD);
        let config = self.definition(live::definition::CONFIG);
        let (version, all) = (live::definition::VERSION, watcher::Config::default);
        let (shards, follow) = watch(Api::all(self.client.clone()), all(), trim);
        self.start("shards", follow.run_once_served(shard, version, self.stop.clone()));
        let (configs, follow) = watch(Api::all(self.client.clone()), all(), trim);
        self.start("configs", follow.run_once_served(config, version, self.stop.clone()));
        live::Objects { shards, configs }
    }

    /// DIJobs and what they have. Nothing of it is looked at as long as the cluster does not know them.
    fn dijobs(&mut self) -> dijob::Caches {
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let version = api::VERSION;
        let definition = self.definition(api::DEFINITION);
        let config_definition = self.definition(api::AGGREGATOR_DEFINITION);
        let all = watcher::Config::default();
        let (controller, group) = (label::CONTROLLER_VALUE, api::GROUP);
        let labelled = format!("{}={controller},{}={group}", label::CONTROLLER, label::GROUP);
        let labelled = all.clone().labels(&labelled);
        let (jobs, follow) = watch(Api::all(client.clone()), all.clone(), trim);
        self.start("dijobs", follow.run_once_served(definition.clone(), version, stop.clone()));
        let (configs, follow) = watch(Api::all(client.clone()), all.clone(), trim);
        self.start(
            "aggregator configs",
            follow.run_once_served(config_definition, version, stop.clone()),
        );
        // Nodes are large as they come: they list their images.
        let few = all.page_size(muster_scheduling::kinds::NODES);
        let (nodes, follow) = watch(Api::all(client.clone()), few, dijob::kinds::trim_node);
        self.start("nodes", follow.run_once_served(definition.clone(), version, stop.clone()));
        let trim_pod = dijob::kinds::trim_pod;
        let (pods, follow) = watch(Api::all(client.clone()), labelled.clone(), trim_pod);
        self.start(
            "pods of dijobs",
            follow.run_once_served(definition.clone(), version, stop.clone()),
        );
        let (services, follow) = watch(Api::all(client), labelled, trim);
        self.start(
            "services of dijobs",
            follow.run_once_served(definition.clone(), version, stop.clone()),
        );
        let cache = dijob::Cache::new(pods, services);
        self.start("cache of dijobs", cache.clone().run(stop));
        dijob::Caches { jobs, configs, nodes, cache, definition }
    }

    /// What is read to place pods, and what is shown of it.
    pub fn placement(
        &mut self,
        hub: &Hub,
        live: live::Objects,
    ) -> (muster_scheduling::Caches, muster_scheduling::StatusView) {
        let definitions = muster_scheduling::Definitions {
            queues: self.definition("queues.scheduling.run.ai"),
            pod_groups: self.definition("podgroups.scheduling.run.ai"),
            bind_requests: self.definition("bindrequests.scheduling.run.ai"),
            topologies: self.definition("topologies.kai.scheduler"),
            coscheduling: self.definition("podgroups.scheduling.x-k8s.io"),
            volcano: self.definition(definition::POD_GROUP),
            zones: self.definition("noderesourcetopologies.topology.node.k8s.io"),
        };
        let secrets =
            muster_scheduling::usage::Secrets::new(self.client.clone(), &self.settings.namespace);
        let sources = muster_scheduling::Caches { definitions, live, hub: hub.clone(), secrets };
        (sources, muster_scheduling::StatusView::default())
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

    /// ModelServings and what they have. The cluster may not know all of these kinds, or not yet.
    fn servings(
        &mut self,
        records: Watch<ConfigMap>,
        templates: Templates,
    ) -> modelserving::Caches {
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let kthena_definition = self.definition(definition::KTHENA);
        let short_definition = self.definition(definition::SHORT);
        let pod_group_definition = self.definition(definition::POD_GROUP);
        let all = watcher::Config::default();
        let labelled = all.clone().labels(naming::NAME);
        let (kthena, follow) = watch(Api::all(client.clone()), all.clone(), trim_serving);
        self.start("servings", follow.run_once_defined(kthena_definition, stop.clone()));
        let (short, follow) = watch(Api::all(client.clone()), all, trim);
        self.start("short servings", follow.run_once_defined(short_definition, stop.clone()));
        let (pods, follow) = watch(Api::all(client.clone()), labelled.clone(), trim_serving_pod);
        self.start("pods of servings", follow.run(stop.clone()));
        let (services, follow) = watch(Api::all(client.clone()), labelled.clone(), trim);
        self.start("services of servings", follow.run(stop.clone()));
        let (revisions, follow) = watch(Api::all(client.clone()), labelled.clone(), trim);
        self.start("revisions of servings", follow.run(stop.clone()));
        let (pod_groups, follow) = watch(Api::all(client), labelled, trim);
        let definition = pod_group_definition.clone();
        self.start("pod groups of servings", follow.run_once_defined(definition, stop));
        modelserving::Caches {
            kthena,
            short,
            pods,
            services,
            revisions,
            pod_groups,
            pod_group_definition,
            records,
            templates,
        }
    }

    /// LeaderWorkerSets, once the cluster knows them.
    fn lws(&mut self, servings: &modelserving::Caches) -> lws::Caches {
        let definition = self.definition(muster_modelserving::lws::DEFINITION);
        let (sets, follow) = watch(Api::all(self.client.clone()), watcher::Config::default(), trim);
        let (version, stop) = (lws::kinds::Set::VERSION, self.stop.clone());
        self.start("leader worker sets", follow.run_once_served(definition, version, stop));
        lws::Caches { sets, servings: servings.kthena.clone() }
    }

    /// TrainJobs, their runtimes and what they have. Nothing is watched before the cluster knows TrainJobs.
    fn jobs(
        &mut self,
        plugins: &muster_pipeline::Registry,
        templates: Templates,
    ) -> trainjob::Caches {
        use kinds::definition;
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let all = watcher::Config::default;
        let job = self.definition(definition::TRAIN_JOB);
        let runtime = self.definition(definition::RUNTIME);
        let cluster_runtime = self.definition(definition::CLUSTER_RUNTIME);
        let mut definitions = vec![job.clone()];
        macro_rules! follow {
            ($name:literal, $once:expr) => {{
                let (found, follow) = watch(Api::all(client.clone()), all(), trim);
                self.start($name, follow.run_once_defined($once.clone(), stop.clone()));
                found
            }};
        }
        let jobs = follow!("jobs", job);
        let runtimes = follow!("runtimes", runtime);
        let cluster_runtimes = follow!("cluster runtimes", cluster_runtime);
        let priority_classes = follow!("priority classes", job);
        let watches = plugins.watches();
        let asked = |watch| watches.contains(&watch);
        let limit_ranges = asked(plugin::Watch::LimitRange).then(|| follow!("limit ranges", job));
        let runtime_classes =
            asked(plugin::Watch::RuntimeClass).then(|| follow!("runtime classes", job));
        let mut owned = Vec::new();
        for (api_version, kind) in owned::kinds(plugins) {
            let any = AnyKind::new(kinds::resource(api_version, kind));
            let api = Api::all_with(client.clone(), &any);
            let trim = owned::trim_of((api_version, kind));
            let (objects, follow) = watch_kind::<AnyObject>(any, api, all(), trim);
            let definition = owned::definition(api_version, kind).map(|it| self.definition(&it));
            definitions.extend(definition.clone());
            // Kinds of Kubernetes itself are there, but of no use without TrainJobs.
            let definition = definition.unwrap_or_else(|| job.clone());
            self.start("objects of jobs", follow.run_once_defined(definition, stop.clone()));
            owned.push(OwnedKind { api_version, kind, objects });
        }
        trainjob::Caches {
            jobs,
            runtimes,
            cluster_runtimes,
            owned: OwnedKinds::new(owned),
            limit_ranges,
            runtime_classes,
            priority_classes,
            definitions,
            templates,
            read: trainjob::caches::ReadRuntimes::default(),
        }
    }

    /// One custom kind, if the cluster knows it. Each is watched once.
    fn definition(&mut self, name: &str) -> Watch<CustomResourceDefinition> {
        if let Some(known) = self.definitions.get(name) {
            return known.clone();
        }
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let (definition, follow) = watch(Api::all(self.client.clone()), config, trim_definition);
        self.start("definitions", follow.run(self.stop.clone()));
        self.definitions.insert(name.to_owned(), definition.clone());
        definition
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
