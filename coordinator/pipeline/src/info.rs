//! What becomes of a runtime's template for one job: labels, policies, and its pods. Plugins change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::metadata::TemplateMetadata;
use muster_api::names::{NODE, TRAINER};
use muster_api::runtime::{MlPolicy, PodGroupPolicy};
use serde_json::{Map, Value};

use crate::patch;
use crate::pod_set::{self, PodSet};
use crate::requests;
use crate::resources::{self, NodeResources};
use crate::runtime::Runtime;
use crate::tidy::tidied;

/// What becomes of a runtime's template for one job.
#[derive(Clone, Debug)]
pub struct Info {
    /// Labels of the JobSet.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the JobSet.
    pub annotations: BTreeMap<String, String>,
    /// The runtime that the job names.
    pub runtime: Arc<Runtime>,
    /// Labels of all pods.
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of all pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// The JobSet's spec without its jobs.
    pub rest: Map<String, Value>,
    /// The jobs, in their order.
    pub pod_sets: Vec<PodSet>,
    /// The command of the container that trains, if it is not simply the job's.
    pub command: Option<Vec<String>>,
    /// Whether the job's arguments are part of that command already.
    pub args_taken: bool,
}

// === impl Info ===

impl Info {
    /// The template with the job's patches and resources, before any plugin.
    pub fn new(runtime: &Arc<Runtime>, job: &TrainJob) -> Self {
        let mut info = Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            runtime: runtime.clone(),
            pod_labels: BTreeMap::new(),
            pod_annotations: BTreeMap::new(),
            rest: Map::new(),
            pod_sets: Vec::new(),
            command: None,
            args_taken: false,
        };
        info.mark(runtime.spec.template.metadata.as_ref());
        for patch in job.patches() {
            let spec = patch.training_runtime_spec.as_ref();
            info.mark(
                spec.and_then(|spec| spec.template.as_ref()).and_then(|t| t.metadata.as_ref()),
            );
        }
        let jobs = info.patched(job);
        let node = resources::of_job(job);
        let mpi = info.ml().and_then(|ml| ml.mpi.as_ref());
        let launcher_trains = mpi.is_some_and(|mpi| mpi.run_launcher_as_node == Some(true));
        let nodes = info.ml().map(|ml| ml.num_nodes.unwrap_or(1));
        let build = |job: Value| {
            let Value::Object(mut job) = job else { return None };
            pod_set::forget_none(&mut job);
            let mut pods = PodSet::new(job);
            let trains = pods.is(TRAINER) && nodes.is_some();
            if let (true, Some(nodes)) = (trains, nodes) {
                pods.count = nodes;
            }
            pods.count = pods.count.max(1);
            if let Some(node) = &node
                && (trains || (launcher_trains && pods.name == NODE))
                && let Some(container) = pods.node_mut()
            {
                resources::overlay(container, node);
            }
            Some(pods)
        };
        info.pod_sets = jobs.into_iter().filter_map(build).collect();
        info
    }

    /// The policy of learning, if there is one.
    pub fn ml(&self) -> Option<&MlPolicy> {
        self.runtime.spec.ml_policy.as_ref()
    }

    /// The policy of scheduling, if there is one.
    pub fn gang(&self) -> Option<&PodGroupPolicy> {
        self.runtime.spec.pod_group_policy.as_ref()
    }

    /// Pods that name no scheduler get this one, unless the runtime's policy hands them to another.
    pub fn name_scheduler(&mut self, scheduler: Option<&str>) {
        let Some(scheduler) = scheduler.filter(|_| self.gang().is_none()) else { return };
        for pods in &mut self.pod_sets {
            pods.pod_spec_mut().entry("schedulerName").or_insert_with(|| scheduler.into());
        }
    }

    /// The schedulers that pods name.
    pub fn schedulers(&self) -> impl Iterator<Item = &str> {
        let specs = self.pod_sets.iter().filter_map(PodSet::pod_spec);
        specs.filter_map(|spec| spec.get("schedulerName")?.as_str())
    }

    /// A job by its name.
    pub fn pod_set(&self, name: &str) -> Option<&PodSet> {
        self.pod_sets.iter().find(|pods| pods.name == name)
    }

    /// A job by its name.
    pub fn pod_set_mut(&mut self, name: &str) -> Option<&mut PodSet> {
        self.pod_sets.iter_mut().find(|pods| pods.name == name)
    }

    /// The first job that trains.
    pub fn trainer(&self) -> Option<&PodSet> {
        self.pod_sets.iter().find(|pods| pods.is(TRAINER))
    }

    /// The first job that trains.
    pub fn trainer_mut(&mut self) -> Option<&mut PodSet> {
        self.pod_sets.iter_mut().find(|pods| pods.is(TRAINER))
    }

    /// The first container `node` of the first job that trains.
    pub fn trainer_container_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.trainer_mut()?.node_mut()
    }

    /// Gives the first job that trains as many pods as the job says.
    pub fn count_nodes(&mut self, job: &TrainJob) {
        let nodes = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes);
        if let (Some(nodes), Some(pods)) = (nodes, self.trainer_mut()) {
            pods.count = nodes;
        }
    }

    /// What a node has for its processes: what the job says, else what the runtime does. They are not mixed.
    pub fn node_resources(&self, job: &TrainJob) -> NodeResources {
        resources::of_job(job).unwrap_or_else(|| {
            let mut nodes =
                self.pod_sets.iter().filter(|pods| pods.name == NODE || pods.is(TRAINER));
            let container = nodes.find_map(|pods| pods.container(NODE));
            container.map(NodeResources::of_container).unwrap_or_default()
        })
    }

    /// Counts what one pod of each job asks for.
    pub fn count_requests(&mut self) {
        for pods in &mut self.pod_sets {
            pods.requests = pods.pod_spec().map(requests::of_pod).unwrap_or_default();
        }
    }

    /// All pods together: how many, and what they ask for.
    pub fn all_pods(&self) -> (i32, resources::Resources) {
        let mut count = 0i32;
        let mut sum = resources::Resources::new();
        for pods in &self.pod_sets {
            count = count.saturating_add(pods.count);
            requests::add(&mut sum, &requests::times(&pods.requests, pods.count));
        }
        (count, sum)
    }

    fn mark(&mut self, metadata: Option<&TemplateMetadata>) {
        let Some(metadata) = metadata else { return };
        self.labels.extend(metadata.labels.iter().flatten().map(owned));
        self.annotations.extend(metadata.annotations.iter().flatten().map(owned));
    }

    /// The jobs of the template with the job's patches.
    fn patched(&mut self, job: &TrainJob) -> Vec<Value> {
        let runtime = self.runtime.clone();
        self.rest = runtime.rest.clone();
        let patches = job.patches().iter().filter_map(|patch| {
            patch.training_runtime_spec.as_ref()?.template.as_ref()?.spec.as_ref()?.as_object()
        });
        let mut patches = patches.peekable();
        if patches.peek().is_none() {
            return runtime.jobs.clone();
        }
        self.rest.insert("replicatedJobs".to_owned(), Value::Array(runtime.jobs.clone()));
        for patch in patches {
            patch::merge(&mut self.rest, &tidied(patch));
        }
        let Some(Value::Array(mut jobs)) = self.rest.remove("replicatedJobs") else {
            return Vec::new();
        };
        jobs.iter_mut().for_each(resources::normalize);
        // Jobs that the runtime does not know stand beside its first.
        let place = |job: &Value| {
            runtime.jobs.iter().position(|known| known["name"] == job["name"]).unwrap_or_default()
        };
        jobs.sort_by_key(place);
        jobs
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}
