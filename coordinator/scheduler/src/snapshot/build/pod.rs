//! Pods: their state, their shape, their place in a group.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    input::{self, BindRequest, Phase, Pod},
    snapshot::{
        Class, ClassId, Devices, Job, JobId, Node, NodeId, PodKey, PodSet, PodSetId, Status, Table,
        Task, TaskId,
    },
};

use super::{
    Builder, class_id,
    group::{PLAIN, group_key},
    shape::{self, Plain, class},
};

/// Annotation with the NPUs that a device plugin has mounted.
const MOUNTED_NPUS: &str = "huawei.com/AscendReal";
/// NPUs of a node that are read from an annotation.
const MOST_NPUS: usize = 1024;

/// A group as a pod names it: dialect, namespace, name.
type Group<'a> = (input::Dialect, &'a str, &'a str);

// === impl Builder ===

impl<'a> Builder<'a> {
    pub(super) fn tasks(
        &mut self,
        pods: &[&'a Pod],
        jobs: &HashMap<String, JobId>,
        job_table: &mut Table<JobId, Job>,
        pod_sets: &mut Table<PodSetId, PodSet>,
        nodes: &Table<NodeId, Node>,
        devices: &mut Devices,
    ) -> (Table<TaskId, Task>, Table<ClassId, Class>) {
        let input = self.input;
        let mut requests: BTreeMap<(&str, &str), &BindRequest> = BTreeMap::new();
        for request in &input.bind_requests {
            if !request.is_failed()
                && self.node_ids.contains_key(request.spec.selected_node.as_str())
            {
                let key = (request.metadata.namespace.as_str(), request.spec.pod_name.as_str());
                requests.insert(key, request);
            }
        }
        let keep_labels = pods.iter().any(|pod| {
            pod.spec.affinity.as_ref().is_some_and(|affinity| {
                affinity.pod_affinity != input::PodAffinity::default()
                    || affinity.pod_anti_affinity != input::PodAffinity::default()
            })
        });
        let scoped = self.parameters.groups_by_namespace;
        let mut tasks: Table<TaskId, Task> = Table::with_capacity(pods.len());
        let mut classes = Table::default();
        let mut known = BTreeMap::new();
        let mut plain: Vec<(Plain<'_>, ClassId)> = Vec::new();
        let mut last: Option<(Group<'a>, Option<JobId>)> = None;
        for pod in pods.iter().copied() {
            let request =
                if requests.is_empty() { None } else { requests.get(&pod.name()).copied() };
            let claims = self.task_claims(devices, pod);
            let key = if keep_labels { None } else { Plain::of(pod) };
            let seen = key.as_ref().and_then(|key| plain.iter().find(|(other, _)| other == key));
            let class = match seen {
                Some((_, class)) => *class,
                None => {
                    let mut shape =
                        self.shape(pod, keep_labels, self.claimed_gpus(devices, &claims));
                    self.constrain_claims(devices, pod, &claims, &mut shape.constraints);
                    let dimensions = &self.dimensions;
                    let id =
                        class_id(&mut classes, &mut known, shape, |shape| class(shape, dimensions));
                    plain.extend(
                        key.filter(|_| plain.len() < shape::PLAIN_KINDS).map(|key| (key, id)),
                    );
                    id
                }
            };
            // Most pods are of the group that the one before is of.
            let job = pod.group().and_then(|(dialect, name)| {
                let group = (dialect, pod.metadata.namespace.as_str(), name);
                if let Some((before, job)) = last
                    && before == group
                {
                    return job;
                }
                let job = match dialect {
                    input::Dialect::Kai if !scoped => jobs.get(name).copied(),
                    _ => jobs.get(group_key(scoped, dialect, group.1, name).as_str()).copied(),
                };
                last = Some((group, job));
                job
            });
            let mut task = self.task(pod, class, request, nodes);
            task.job = job;
            task.claims = claims;
            let id = TaskId(tasks.len() as u32);
            // A pod that failed is nobody's any more.
            if let Some(job) = job.filter(|_| task.status != Status::Failed) {
                let labels = &pod.metadata.labels;
                let name = labels
                    .get("kai.scheduler/subgroup-name")
                    .or_else(|| pod.metadata.annotations.get(input::VOLCANO_TASK))
                    .filter(|name| !name.is_empty())
                    .unwrap_or(PLAIN);
                let sets = &job_table[job].pod_sets;
                task.pod_set = sets.iter().copied().find(|set| pod_sets[*set].name == name);
                if task.pod_set.is_none()
                    && sets.len() == 1
                    && labels.get("kai.scheduler/subgroup-name").is_none()
                {
                    task.pod_set = sets.iter().copied().find(|set| pod_sets[*set].name == PLAIN);
                }
                match task.pod_set {
                    Some(set) => pod_sets[set].tasks.push(id),
                    None => job_table[job].strays.push(id),
                }
            }
            tasks.push(task);
        }
        (tasks, classes)
    }

    fn task(
        &mut self,
        pod: &Pod,
        class: ClassId,
        request: Option<&BindRequest>,
        nodes: &Table<NodeId, Node>,
    ) -> Task {
        let meta = &pod.metadata;
        let app = meta.labels.get("app").unwrap_or("");
        let reservation = app == self.parameters.resource_reservation_app_label;
        let node_name = match (&pod.spec.node_name, request) {
            (name, _) if !name.is_empty() => name.as_str(),
            (_, Some(request)) => request.spec.selected_node.as_str(),
            (name, None) => name.as_str(),
        };
        let names: Vec<String> = match request {
            Some(request) if !request.spec.selected_gpu_groups.is_empty() => {
                request.spec.selected_gpu_groups.clone()
            }
            _ => gpu_groups(pod),
        };
        let node = self.node_ids.get(node_name).copied();
        let zones = node.and_then(|node| nodes[node].numa.as_deref());
        let text = |name: &str| meta.annotations.get(name);
        let role = meta.labels.get("training.kubeflow.org/job-role").unwrap_or("");
        Task {
            key: PodKey::new(&meta.namespace, &meta.name),
            uid: meta.uid.as_str().into(),
            class,
            job: None,
            pod_set: None,
            status: self.status(pod, request),
            node,
            groups: names.iter().map(|name| self.group(name)).collect(),
            created: meta.creation_timestamp,
            eviction_ordered: false,
            foreign: pod.spec.scheduler_name != self.parameters.scheduler_name,
            reservation,
            utility: reservation || app == "scaling-pod",
            leads: matches!(role, "master" | "launcher"),
            head: meta.labels.get("ray.io/node-type") == Some("head"),
            task_priority: meta
                .labels
                .get("kai.scheduler/task-priority")
                .map(|text| text.parse().map_err(|_| ())),
            nominated: self.node_ids.get(pod.status.nominated_node_name.as_str()).copied(),
            numa: crate::plugin::numa::placement_of(text, &self.dimensions, zones),
            npus: npus(pod),
            claims: Vec::new(),
        }
    }

    fn status(&self, pod: &Pod, request: Option<&BindRequest>) -> Status {
        let deleted = pod.metadata.deletion_timestamp;
        match pod.status.phase {
            Phase::Running => match deleted {
                Some(at)
                    if self.now.duration_since(at)
                        > self.parameters.stuck_in_releasing_threshold =>
                {
                    Status::StuckInReleasing
                }
                Some(_) => Status::Releasing,
                None => Status::Running,
            },
            Phase::Pending if deleted.is_some() => Status::Releasing,
            Phase::Pending if !pod.spec.node_name.is_empty() => Status::Bound,
            Phase::Pending if request.is_some() => Status::Binding,
            Phase::Pending if !pod.spec.scheduling_gates.is_empty() => Status::Gated,
            Phase::Pending => Status::Pending,
            Phase::Succeeded => Status::Succeeded,
            Phase::Failed => Status::Failed,
            Phase::Unknown => Status::Unknown,
        }
    }
}

/// NPUs that a pod has: those that were mounted, or those that a scheduler chose.
fn npus(pod: &Pod) -> Option<Arc<[u32]>> {
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let annotations = &pod.metadata.annotations;
    let requests = pod.spec.containers.iter().flat_map(|it| it.resources.requests.iter());
    let mut chosen = requests.filter_map(|(resource, _)| annotations.get(resource));
    let text = annotations.get(MOUNTED_NPUS).or_else(|| chosen.next())?;
    let number = |name: &str| name.trim().rsplit('-').next().and_then(|id| id.parse().ok());
    text.split(',').take(MOST_NPUS).map(number).collect()
}

fn gpu_groups(pod: &Pod) -> Vec<String> {
    let labels = &pod.metadata.labels;
    let Some(first) = labels.get("runai-gpu-group") else {
        return labels
            .iter()
            .filter(|(name, _)| name.starts_with("runai-gpu-group/"))
            .map(|(_, value)| value.to_owned())
            .collect();
    };
    let more = labels.iter().filter(|(name, _)| name.starts_with("runai-gpu-group/"));
    std::iter::once(first.to_owned()).chain(more.map(|(_, value)| value.to_owned())).collect()
}
