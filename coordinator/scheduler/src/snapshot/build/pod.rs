//! Pods: their state, their shape, their place in a group.

use std::collections::{BTreeMap, HashMap};

use crate::{
    input::{self, BindRequest, Container, Phase, Pod},
    snapshot::{
        CPU, Class, ClassId, Constraints, Dimensions, GPU, GpuKind, GpuRequest, Job, JobId, MEMORY,
        Node, NodeId, PODS, PodSet, PodSetId, Status, Table, Task, TaskId, Vector,
        class::AlignedContainer, slice_profile,
    },
};

use super::{
    Builder, class_id,
    group::{PLAIN, group_key},
    node::amount_of,
};

/// Mebibytes of a device that a pod can ask for: more is as good as this.
const MOST_MEMORY: i64 = 1 << 40;
/// Devices that a pod can share: a number outside of 1 to this is not read.
const MOST_DEVICES: i64 = 1 << 16;

/// What makes two pods one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    request: Vec<u64>,
    kind: GpuKind,
    count: i64,
    portion: u64,
    memory: i64,
    claimed: i64,
    slices: Vec<(usize, i64)>,
    by_annotation: bool,
    constraints: Constraints,
    containers: Vec<(bool, Vec<(usize, u64)>)>,
    guaranteed: bool,
}

/// Pods without anything special are compared by this before their shape is worked out.
#[derive(PartialEq)]
struct Plain<'a> {
    requests: &'a input::ResourceList,
    limits: &'a input::ResourceList,
    selector: &'a input::Labels,
    tolerations: &'a [input::Toleration],
}

/// How many kinds of such pods are remembered.
const PLAIN_KINDS: usize = 32;

/// What a list of containers asks for: amounts, whole devices, slices.
#[derive(Clone, Debug)]
struct Asked {
    vector: Vector,
    gpus: i64,
}

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn tasks(
        &mut self,
        jobs: &HashMap<String, JobId>,
        job_table: &mut Table<JobId, Job>,
        pod_sets: &mut Table<PodSetId, PodSet>,
        nodes: &Table<NodeId, Node>,
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
        let keep_labels = input.pods.iter().any(|pod| {
            pod.spec.affinity.as_ref().is_some_and(|affinity| {
                affinity.pod_affinity != input::PodAffinity::default()
                    || affinity.pod_anti_affinity != input::PodAffinity::default()
            })
        });
        let mut order: Vec<&Pod> = input.pods.iter().collect();
        order.sort_by(|a, b| {
            (&a.metadata.namespace, &a.metadata.name)
                .cmp(&(&b.metadata.namespace, &b.metadata.name))
        });
        let scoped = self.parameters.groups_by_namespace;
        let mut tasks: Table<TaskId, Task> = Table::default();
        let mut classes = Table::default();
        let mut known = BTreeMap::new();
        let mut plain: Vec<(Plain<'_>, ClassId)> = Vec::new();
        for pod in order {
            let request = if requests.is_empty() {
                None
            } else {
                requests
                    .get(&(pod.metadata.namespace.as_str(), pod.metadata.name.as_str()))
                    .copied()
            };
            let key = if keep_labels { None } else { Plain::of(pod) };
            let seen = key.as_ref().and_then(|key| plain.iter().find(|(other, _)| other == key));
            let class = match seen {
                Some((_, class)) => *class,
                None => {
                    let shape = self.shape(pod, keep_labels);
                    let dimensions = &self.dimensions;
                    let id =
                        class_id(&mut classes, &mut known, shape, |shape| class(shape, dimensions));
                    plain.extend(key.filter(|_| plain.len() < PLAIN_KINDS).map(|key| (key, id)));
                    id
                }
            };
            let job = pod.group().and_then(|(dialect, name)| match dialect {
                input::Dialect::Kai if !scoped => jobs.get(name).copied(),
                _ => {
                    let key = group_key(scoped, dialect, &pod.metadata.namespace, name);
                    jobs.get(key.as_str()).copied()
                }
            });
            let mut task = self.task(pod, class, request, nodes);
            task.job = job;
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
        let role = meta.labels.get("training.kubeflow.org/job-role").unwrap_or("");
        Task {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            class,
            job: None,
            pod_set: None,
            status: self.status(pod, request),
            node,
            groups: names.iter().map(|name| self.group(name)).collect(),
            created: meta.creation_timestamp,
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
            numa: crate::plugin::numa::placement_of(meta, &self.dimensions, zones),
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

    fn shape(&self, pod: &Pod, keep_labels: bool) -> Shape {
        let mut asked = self.request(pod);
        let mut gpu = GpuRequest::whole(asked.gpus);
        gpu.slices = slices(&asked.vector, &self.dimensions);
        let annotation = |name: &str| pod.metadata.annotations.get(name);
        let memory = annotation("gpu-memory")
            .and_then(|text| text.parse::<i64>().ok())
            .filter(|memory| *memory > 0)
            .map(|memory| memory.min(MOST_MEMORY));
        let fraction = annotation("gpu-fraction")
            .and_then(|text| text.trim().parse::<f64>().ok())
            .filter(|fraction| *fraction > 0.0 && *fraction <= 1.0);
        if let Some(memory) = memory {
            let slices = std::mem::take(&mut gpu.slices);
            gpu =
                GpuRequest { kind: GpuKind::Memory, count: 1, portion: 0.0, memory, slices, ..gpu };
        }
        if let Some(portion) = fraction {
            gpu = GpuRequest { kind: GpuKind::Fraction, count: 1, portion, memory: 0, ..gpu };
        }
        if gpu.is_shared()
            && let Some(count) = annotation("gpu-fraction-num-devices")
                .and_then(|text| text.parse::<i64>().ok())
                .filter(|count| (1..=MOST_DEVICES).contains(count))
        {
            gpu.count = count;
            gpu.memory = if fraction.is_some() { 0 } else { memory.unwrap_or(0) };
        }
        gpu.claimed = self.claimed_gpus(pod);
        for (name, value) in pod.metadata.annotations.iter() {
            if name.starts_with("nvidia.com/mig-") && value.parse::<i64>().is_ok() {
                gpu.by_annotation = true;
            }
        }
        if gpu.by_annotation || !gpu.slices.is_empty() {
            gpu.kind = GpuKind::Slice;
        }
        if let Some(place) = asked.vector.get_mut(GPU) {
            *place = gpu.gpus() + gpu.claimed as f64;
        }
        let (containers, guaranteed) = crate::plugin::numa::needs_of(pod, &self.dimensions);
        Shape {
            request: asked.vector.iter().map(|amount| amount.to_bits()).collect(),
            kind: gpu.kind,
            count: gpu.count,
            portion: gpu.portion.to_bits(),
            memory: gpu.memory,
            claimed: gpu.claimed,
            slices: gpu.slices,
            by_annotation: gpu.by_annotation,
            constraints: self.constraints(pod, keep_labels),
            containers: containers
                .into_iter()
                .map(|(init, needs)| {
                    (init, needs.into_iter().map(|(i, x)| (i, x.to_bits())).collect())
                })
                .collect(),
            guaranteed,
        }
    }

    /// What runs together, or the most that is needed before.
    fn request(&self, pod: &Pod) -> Asked {
        let mut sum = self.nothing();
        for container in &pod.spec.containers {
            sum.add(&self.asked(container));
        }
        let (mut beside, mut peak) = (self.nothing(), self.nothing());
        for container in &pod.spec.init_containers {
            let mut asked = self.asked(container);
            if container.restart_policy == "Always" {
                beside.add(&asked);
            } else {
                asked.add(&beside);
                peak.max(&asked);
            }
        }
        sum.add(&beside);
        sum.max(&peak);
        for (name, amount) in pod.spec.overhead.iter() {
            let Some(index) = self.dimensions.find(name).filter(|index| *index != GPU) else {
                continue;
            };
            if let Some(place) = sum.vector.get_mut(index) {
                *place += amount_of(&self.dimensions, name, index, amount);
            }
        }
        if let Some(pods) = sum.vector.get_mut(PODS) {
            *pods = 1.0;
        }
        sum
    }

    fn nothing(&self) -> Asked {
        Asked { vector: self.dimensions.zero(), gpus: 0 }
    }

    fn asked(&self, container: &Container) -> Asked {
        let mut asked = self.nothing();
        for (name, amount) in container.resources.requests.iter() {
            let Some(index) = self.dimensions.find(name) else { continue };
            if index == GPU {
                asked.gpus = asked.gpus.saturating_add(amount.value());
            } else if let Some(place) = asked.vector.get_mut(index) {
                *place += amount_of(&self.dimensions, name, index, amount);
            }
        }
        asked
    }
}

// === impl Plain ===

impl<'a> Plain<'a> {
    fn of(pod: &'a Pod) -> Option<Self> {
        let spec = &pod.spec;
        let [container] = spec.containers.as_slice() else { return None };
        let plain = spec.init_containers.is_empty()
            && spec.ephemeral_containers.is_empty()
            && spec.volumes.is_empty()
            && spec.resource_claims.is_empty()
            && spec.overhead.is_empty()
            && spec.affinity.is_none()
            && container.ports.is_empty()
            && container.env.is_empty()
            && container.env_from.is_empty()
            && pod.metadata.annotations.iter().all(|(name, _)| {
                !name.starts_with("gpu-")
                    && !name.starts_with("nvidia.com/")
                    && !name.starts_with("runai/")
            });
        plain.then_some(Self {
            requests: &container.resources.requests,
            limits: &container.resources.limits,
            selector: &spec.node_selector,
            tolerations: &spec.tolerations,
        })
    }
}

// === impl Asked ===

impl Asked {
    fn add(&mut self, other: &Self) {
        crate::snapshot::add(&mut self.vector, &other.vector);
        self.gpus = self.gpus.saturating_add(other.gpus);
    }

    fn max(&mut self, other: &Self) {
        for (x, y) in self.vector.iter_mut().zip(other.vector.iter()) {
            *x = x.max(*y);
        }
        self.gpus = self.gpus.max(other.gpus);
    }
}

fn slices(vector: &[f64], dimensions: &Dimensions) -> Vec<(usize, i64)> {
    vector
        .iter()
        .enumerate()
        .filter(|(index, amount)| **amount > 0.0 && dimensions.is_slice(*index))
        .map(|(index, amount)| (index, *amount as i64))
        .collect()
}

fn class(shape: &Shape, dimensions: &Dimensions) -> Class {
    let request: Vector = shape.request.iter().map(|bits| f64::from_bits(*bits)).collect();
    let profile = |index: usize| slice_profile(dimensions.name(index)).unwrap_or((0, 0));
    let gpu = GpuRequest {
        kind: shape.kind,
        count: shape.count,
        portion: f64::from_bits(shape.portion),
        memory: shape.memory,
        claimed: shape.claimed,
        slices: shape.slices.clone(),
        slice_quota: shape.slices.iter().map(|(i, n)| f64::from(profile(*i).0) * *n as f64).sum(),
        slice_memory: shape
            .slices
            .iter()
            .map(|(i, n)| i64::from(profile(*i).1).saturating_mul(*n))
            .fold(0, i64::saturating_add),
        by_annotation: shape.by_annotation,
    };
    let npu = (0..dimensions.len())
        .find(|index| dimensions.is_npu(*index) && crate::snapshot::at(&request, *index) > 0.0);
    let affinity = shape.constraints.affinity.as_deref();
    let pods = |affinity: &input::PodAffinity| {
        !affinity.required.is_empty() || !affinity.preferred.is_empty()
    };
    let mut class = Class {
        quantities: dimensions.quantities(&request),
        request,
        gpu,
        cpu_only: false,
        primary: GPU,
        pod_affinity: affinity.is_some_and(|a| pods(&a.pod_affinity) || pods(&a.pod_anti_affinity)),
        constraints: shape.constraints.clone(),
        containers: shape
            .containers
            .iter()
            .map(|(init, needs)| AlignedContainer {
                init: *init,
                needs: needs.iter().map(|(i, bits)| (*i, f64::from_bits(*bits))).collect(),
            })
            .collect(),
        guaranteed: shape.guaranteed,
    };
    class.cpu_only = !class.needs_gpu() && npu.is_none();
    class.primary = match npu {
        Some(index) if !class.needs_gpu() => index,
        _ if class.cpu_only => CPU,
        _ => GPU,
    };
    debug_assert!(class.request.len() > MEMORY);
    class
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
