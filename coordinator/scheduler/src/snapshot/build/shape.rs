//! Shapes of pods: what a pod asks for, worked out once for all that ask for the same.

use crate::{
    input::{self, Container, Pod},
    snapshot::{
        CPU, Class, Constraints, Dimensions, GPU, GpuKind, GpuRequest, MEMORY, PODS, Vector,
        class::AlignedContainer, slice_profile,
    },
};

use super::{Builder, node::amount_of};

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
    pub(super) constraints: Constraints,
    containers: Vec<(bool, Vec<(usize, u64)>)>,
    guaranteed: bool,
}

/// Pods without anything special are compared by this before their shape is worked out.
#[derive(PartialEq)]
pub(super) struct Plain<'a> {
    requests: &'a input::ResourceList,
    limits: &'a input::ResourceList,
    selector: &'a input::Labels,
    tolerations: &'a [input::Toleration],
}

/// How many kinds of such pods are remembered.
pub(super) const PLAIN_KINDS: usize = 32;

/// What a list of containers asks for: amounts, whole devices, slices.
#[derive(Clone, Debug)]
struct Asked {
    vector: Vector,
    gpus: i64,
}

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn shape(&self, pod: &Pod, keep_labels: bool, claimed: i64) -> Shape {
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
        gpu.claimed = claimed;
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
                asked.gpus = asked.gpus.saturating_add(amount.units());
            } else if let Some(place) = asked.vector.get_mut(index) {
                *place += amount_of(&self.dimensions, name, index, amount);
            }
        }
        asked
    }
}

// === impl Plain ===

impl<'a> Plain<'a> {
    pub(super) fn of(pod: &'a Pod) -> Option<Self> {
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

pub(super) fn class(shape: &Shape, dimensions: &Dimensions) -> Class {
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
