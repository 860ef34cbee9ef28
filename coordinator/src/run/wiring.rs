//! The parts of a coordinator, one per function.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use muster_dijob::api;
use muster_dijob::names::label;
use muster_modelserving::naming;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::leading::Leading;
use super::trim::{trim, trim_definition, trim_pod, trim_serving_pod};
use super::{Settings, election};
use crate::certs::{Certificates, Keeper};
use crate::controllers::dijob;
use crate::controllers::modelserving::written::definition;
use crate::controllers::modelserving::{self, Sources};
use crate::controllers::ranktable;
use crate::controllers::runtime::holding_jobs as held;
use crate::controllers::trainjob::sources::{trim_config_map, trim_made, trim_secret};
use crate::controllers::trainjob::{self, kinds};
use crate::diserver::{self, DiServer};
use crate::lead::{Elector, Standing};
use crate::names;
use crate::placement;
use crate::placement::{bootstrap, grouper, live};
use crate::reports::{self, Reports};
use crate::templates::Templates;
use crate::watch::{Watch, watch};
use crate::webhook::runtimes::Runtimes;
use crate::webhook::scheduling::{self, Scheduling};
use crate::webhook::{Webhooks, dijob as dijobs, modelserving as servings, pods, trainjob as jobs};
use muster_hub::Hub;

/// A coordinator that is being put together.
pub(super) struct Wiring {
    /// What it has to know.
    pub settings: Settings,
    client: Client,
    /// All metrics.
    pub registry: Registry,
    metrics: Counters,
    /// Tells all parts to end.
    pub stop: CancellationToken,
    /// What runs already.
    pub parts: JoinSet<&'static str>,
}

/// What the controllers count.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Of rank tables.
    pub tables: ranktable::Metrics,
    /// Of ModelServings.
    pub servings: modelserving::Metrics,
    /// Of DIJobs.
    pub dijobs: dijob::Metrics,
    /// Of TrainJobs.
    pub jobs: trainjob::Metrics,
    /// Of scheduling.
    pub placement: placement::Metrics,
    /// Of the grouping of pods.
    pub grouping: grouper::Metrics,
    /// Of trainers' reports.
    pub reports: reports::Metrics,
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
    pub servings: modelserving::Sources,
    /// DIJobs and what they have.
    pub dijobs: dijob::Sources,
    /// TrainJobs, their runtimes and what they have.
    pub jobs: trainjob::Sources,
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
        metrics.dijobs.register(&mut registry);
        metrics.jobs.register(&mut registry);
        metrics.placement.register(&mut registry);
        metrics.grouping.register(&mut registry);
        metrics.reports.register(&mut registry);
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
        let (records, follow) = watch(api, labelled(names::RECORD), trim);
        self.start("records", follow.run(self.stop.clone()));
        let namespace = self.settings.template_namespace.clone();
        let api = Api::namespaced(self.client.clone(), &namespace);
        let (maps, follow) = watch(api, watcher::Config::default(), trim);
        self.start("templates", follow.run(self.stop.clone()));
        let templates = Templates::new(&namespace, maps);
        let servings = self.servings(records.clone(), templates.clone());
        let volcano = servings.pod_group_definition.clone();
        let jobs = self.jobs(volcano, templates.clone());
        let dijobs = self.dijobs();
        let queues = self.definition(bootstrap::DEFINITION);
        let live = self.live();
        Caches { pods, records, templates, servings, jobs, dijobs, queues, live }
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
    fn dijobs(&mut self) -> dijob::Sources {
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
        let few = all.page_size(placement::kinds::NODES);
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
        dijob::Sources { jobs, configs, nodes, cache, definition }
    }

    /// What is read to place pods, and what is shown of it.
    pub fn placement(
        &mut self,
        hub: &Hub,
        live: live::Objects,
    ) -> (placement::Sources, placement::Shown) {
        let definitions = placement::Definitions {
            queues: self.definition("queues.scheduling.run.ai"),
            pod_groups: self.definition("podgroups.scheduling.run.ai"),
            bind_requests: self.definition("bindrequests.scheduling.run.ai"),
            topologies: self.definition("topologies.kai.scheduler"),
            coscheduling: self.definition("podgroups.scheduling.x-k8s.io"),
            volcano: self.definition(definition::POD_GROUP),
            zones: self.definition("noderesourcetopologies.topology.node.k8s.io"),
        };
        let secrets = placement::usage::Secrets::new(self.client.clone(), &self.settings.namespace);
        let sources = placement::Sources { definitions, live, hub: hub.clone(), secrets };
        (sources, placement::Shown::default())
    }

    /// Where coordinators of DIJobs call.
    pub fn di_server(
        &mut self,
        listener: TcpListener,
        sources: dijob::Sources,
        standing: watch::Receiver<Standing>,
    ) -> anyhow::Result<()> {
        let (client, jobs) = (self.client.clone(), self.settings.dijob.clone());
        let parts = diserver::Parts { sources, client, standing, jobs };
        let port = listener.local_addr()?.port();
        let server = DiServer::new(parts, self.settings.diserver.clone(), port);
        server.metrics().register(&mut self.registry);
        self.start("di server", server.serve(listener, self.stop.clone()));
        Ok(())
    }

    /// ModelServings and what they have. The cluster may not know all of these kinds, or not yet.
    fn servings(&mut self, records: Watch<ConfigMap>, templates: Templates) -> Sources {
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let kthena_definition = self.definition(definition::KTHENA);
        let seed_definition = self.definition(definition::SEED);
        let pod_group_definition = self.definition(definition::POD_GROUP);
        let all = watcher::Config::default();
        let labelled = all.clone().labels(naming::NAME);
        let (kthena, follow) = watch(Api::all(client.clone()), all.clone(), trim);
        self.start("servings", follow.run_once_defined(kthena_definition, stop.clone()));
        let (seed, follow) = watch(Api::all(client.clone()), all, trim);
        self.start("short servings", follow.run_once_defined(seed_definition, stop.clone()));
        let (pods, follow) = watch(Api::all(client.clone()), labelled.clone(), trim_serving_pod);
        self.start("pods of servings", follow.run(stop.clone()));
        let (services, follow) = watch(Api::all(client.clone()), labelled.clone(), trim);
        self.start("services of servings", follow.run(stop.clone()));
        let (revisions, follow) = watch(Api::all(client.clone()), labelled.clone(), trim);
        self.start("revisions of servings", follow.run(stop.clone()));
        let (pod_groups, follow) = watch(Api::all(client), labelled, trim);
        let definition = pod_group_definition.clone();
        self.start("pod groups of servings", follow.run_once_defined(definition, stop));
        Sources {
            kthena,
            seed,
            pods,
            services,
            revisions,
            pod_groups,
            pod_group_definition,
            records,
            templates,
        }
    }

    /// TrainJobs, their runtimes and what they have. Nothing is watched before the cluster knows TrainJobs.
    fn jobs(
        &mut self,
        volcano: Watch<CustomResourceDefinition>,
        templates: Templates,
    ) -> trainjob::Sources {
        use kinds::definition;
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let all = watcher::Config::default;
        let job = self.definition(definition::TRAIN_JOB);
        let runtime = self.definition(definition::RUNTIME);
        let cluster_runtime = self.definition(definition::CLUSTER_RUNTIME);
        let job_set = self.definition(definition::JOB_SET);
        let coscheduling = self.definition(definition::COSCHEDULING);
        let kai = self.definition(definition::KAI);
        let definitions =
            vec![job.clone(), job_set.clone(), coscheduling.clone(), volcano.clone(), kai.clone()];
        macro_rules! follow {
            ($name:literal, $trim:expr, $once:expr) => {{
                let (found, follow) = watch(Api::all(client.clone()), all(), $trim);
                self.start($name, follow.run_once_defined($once.clone(), stop.clone()));
                found
            }};
        }
        trainjob::Sources {
            jobs: follow!("jobs", trim, job),
            runtimes: follow!("runtimes", trim, runtime),
            cluster_runtimes: follow!("cluster runtimes", trim, cluster_runtime),
            job_sets: follow!("job sets", trim_made, job_set),
            config_maps: follow!("config maps of jobs", trim_config_map, job),
            secrets: follow!("secrets of jobs", trim_secret, job),
            coscheduling: follow!("pod groups of scheduler plugins", trim_made, coscheduling),
            volcano: follow!("pod groups of jobs", trim_made, volcano),
            kai: follow!("pod groups with queues", trim_made, kai),
            limit_ranges: follow!("limit ranges", trim, job),
            runtime_classes: follow!("runtime classes", trim, job),
            priority_classes: follow!("priority classes", trim, job),
            definitions,
            templates,
            read: trainjob::sources::Read::default(),
        }
    }

    /// One custom kind, if the cluster knows it.
    fn definition(&mut self, name: &str) -> Watch<CustomResourceDefinition> {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let (definition, follow) = watch(Api::all(self.client.clone()), config, trim_definition);
        self.start("definitions", follow.run(self.stop.clone()));
        definition
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
            .inquiring(scheduling::QUEUES, move |request| queues.clone().queue(request))
            .inquiring(scheduling::POD_GROUPS, move |request| groups.clone().pod_group(request))
            .on(scheduling::TOPOLOGIES, scheduling::Rules::topology)
            .on(scheduling::MUTATE_PODS, move |request| sharing.rules(&own).mutate_pod(request))
            .on(scheduling::VISIBLE_DEVICES, move |request| {
                seeing.rules(&seen).visible_devices(request)
            })
            .on(scheduling::PODS, move |request| judging.rules(&others).pod(request));
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

    /// Where trainers report their progress.
    pub fn reports(
        &mut self,
        listener: TcpListener,
        certificates: &Certificates,
    ) -> anyhow::Result<()> {
        let reports = Reports::new(self.client.clone(), self.metrics.reports.clone());
        let tls = certificates.server_config(&[b"http/1.1"])?;
        let (certificates, stop) = (certificates.clone(), self.stop.clone());
        self.start("reports", async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = certificates.ready() => {}
            }
            reports.serve(listener, tls, stop).await;
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
