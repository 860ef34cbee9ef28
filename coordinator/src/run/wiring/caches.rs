//! What is known of the cluster: one reflector per kind.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::runtime::watcher;
use muster_dijob::api;
use muster_dijob::names::label;
use muster_hub::Hub;
use muster_modelserving::naming;
use muster_pipeline::plugin;
use muster_runtime::any_object::{AnyKind, AnyObject};
use muster_runtime::reflector::{Watch, watch, watch_kind};
use muster_scheduling::{bootstrap, live};

use super::super::trim::{trim, trim_definition, trim_pod, trim_serving, trim_serving_pod};
use super::Wiring;
use crate::names;
use crate::ranktables::templates::Templates;
use crate::workloads::dijob;
use crate::workloads::lws;
use crate::workloads::modelserving;
use crate::workloads::modelserving::written::definition;
use crate::workloads::trainjob::owned::{self, OwnedKind, OwnedKinds};
use crate::workloads::trainjob::{self, kinds};

/// What is known of the cluster.
#[derive(Clone)]
pub(in crate::run) struct Caches {
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
}
