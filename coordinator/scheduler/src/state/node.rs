//! What a node has left: vectors of what is idle, used and about to be free, and devices that pods share.

use std::sync::Arc;

use crate::snapshot::{
    Claimed, Class, Dimensions, GPU, GpuKind, GpuRequest, GroupId, Node, NodeId, PODS, Snapshot,
    Status, TaskId, Vector, add, at, ceil2, sub,
};

/// A pod on a node, as it was when it was put there.
#[derive(Clone, Debug, PartialEq)]
pub struct OnNode {
    /// The pod that is on the node.
    pub task: TaskId,
    /// How far it was.
    pub status: Status,
    /// The shared devices it had.
    pub groups: Vec<GroupId>,
    /// The NPUs it had.
    pub npus: Option<Arc<[u32]>>,
    /// The devices that its claims had.
    pub claims: Option<Arc<[Claimed]>>,
}

/// A device that pods share, in mebibytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedDevice {
    /// The group of pods that share the device.
    pub group: GroupId,
    /// By pods that are there or will be.
    pub used: i64,
    /// By pods that are there.
    pub allocated: i64,
    /// By pods that leave, less what is promised to others.
    pub releasing: i64,
    /// Whether any pod that was not promised has been there.
    pub real: bool,
    /// Whether it counts as a whole device that is about to be free.
    pub leaving: bool,
}

/// What a node has left.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// What no pod has.
    pub idle: Vector,
    /// What pods have.
    pub used: Vector,
    /// About to be free, less what is promised; can be negative.
    pub releasing: Vector,
    /// Devices that pods share.
    pub shared: Vec<SharedDevice>,
    /// The pods on the node.
    pub pods: Vec<OnNode>,
}

// === impl NodeState ===

impl NodeState {
    /// An empty node.
    pub fn new(node: &Node, dimensions: &Dimensions) -> Self {
        Self {
            idle: node.allocatable.clone(),
            used: dimensions.zero(),
            releasing: dimensions.zero(),
            shared: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// The pod as it is there.
    pub fn find(&self, task: TaskId) -> Option<&OnNode> {
        self.pods.iter().find(|pod| pod.task == task)
    }

    /// Free now or soon, in one dimension.
    pub fn free(&self, dimension: usize) -> f64 {
        at(&self.idle, dimension) + at(&self.releasing, dimension)
    }

    pub(super) fn add(&mut self, snapshot: &Snapshot, id: NodeId, pod: OnNode) {
        let spec = &snapshot.tasks[pod.task];
        let class = &snapshot.classes[spec.class];
        let node = &snapshot.nodes[id];
        let tracked = tracked(class, node, spec.reservation);
        add(&mut self.used, &tracked);
        match pod.status {
            Status::Releasing => {
                add(&mut self.releasing, &tracked);
                sub(&mut self.idle, &tracked);
            }
            Status::Pipelined => sub(&mut self.releasing, &tracked),
            _ => sub(&mut self.idle, &tracked),
        }
        if class.gpu.is_shared() {
            let memory = memory_of(&class.gpu, node);
            for group in &pod.groups {
                self.share(node, *group, pod.status, memory);
            }
        }
        self.change_claims(snapshot, class, |pods| pods.push(pod));
    }

    /// Changes who is there. Devices of a claim that several pods use count once, as the pod among them that is there
    /// most firmly.
    fn change_claims(
        &mut self,
        snapshot: &Snapshot,
        class: &Class,
        change: impl FnOnce(&mut Vec<OnNode>),
    ) {
        let shared = &class.constraints.shared_gpus;
        let before: Vec<[f64; 3]> = shared.iter().map(|it| self.share_of(snapshot, *it)).collect();
        change(&mut self.pods);
        for (claim, [idle, used, releasing]) in shared.iter().zip(before) {
            let after = self.share_of(snapshot, *claim);
            Self::shift(&mut self.idle, after[0] - idle);
            Self::shift(&mut self.used, after[1] - used);
            Self::shift(&mut self.releasing, after[2] - releasing);
        }
    }

    /// What a claim that several pods use adds to what is idle, used and about to be free.
    fn share_of(&self, snapshot: &Snapshot, (claim, gpus): (u32, i64)) -> [f64; 3] {
        let (mut firm, mut leaves, mut comes) = (false, false, false);
        for pod in &self.pods {
            if uses(&snapshot.classes[snapshot.tasks[pod.task].class], claim) {
                match pod.status {
                    Status::Releasing => leaves = true,
                    Status::Pipelined => comes = true,
                    _ => firm = true,
                }
            }
        }
        let n = gpus as f64;
        match (firm, leaves, comes) {
            (true, ..) | (false, true, true) => [-n, n, 0.0],
            (false, true, false) => [-n, n, n],
            (false, false, true) => [0.0, n, -n],
            (false, false, false) => [0.0; 3],
        }
    }

    /// Devices that a pod need not find on the node, since others that are there share them with it.
    fn shared_already(&self, class: &Class) -> f64 {
        let there = |claim: u32| {
            self.pods.iter().filter(|pod| pod.status != Status::Releasing).any(|pod| {
                let mut claims = pod.claims.iter().flat_map(|claims| claims.iter());
                claims.any(|it| it.claim.0 == claim)
            })
        };
        let shared = class.constraints.shared_gpus.iter().filter(|(claim, _)| there(*claim));
        shared.map(|(_, gpus)| *gpus as f64).sum()
    }

    pub(super) fn remove(&mut self, snapshot: &Snapshot, id: NodeId, task: TaskId) -> bool {
        let Some(at) = self.pods.iter().position(|pod| pod.task == task) else { return false };
        let spec = &snapshot.tasks[task];
        let class = &snapshot.classes[spec.class];
        let mut gone = None;
        self.change_claims(snapshot, class, |pods| gone = Some(pods.swap_remove(at)));
        let Some(pod) = gone else { return false };
        let node = &snapshot.nodes[id];
        let tracked = tracked(class, node, spec.reservation);
        sub(&mut self.used, &tracked);
        match pod.status {
            Status::Releasing => {
                sub(&mut self.releasing, &tracked);
                add(&mut self.idle, &tracked);
            }
            Status::Pipelined => add(&mut self.releasing, &tracked),
            _ => add(&mut self.idle, &tracked),
        }
        if class.gpu.is_shared() {
            let memory = memory_of(&class.gpu, node);
            for group in &pod.groups {
                self.unshare(node, *group, pod.status, memory);
            }
        }
        true
    }

    /// What is promised beyond what leaves has to be idle already: nobody else gets it.
    pub(super) fn hold_promised(&mut self) {
        for (idle, releasing) in self.idle.iter_mut().zip(self.releasing.iter_mut()) {
            if *releasing < 0.0 {
                *idle += *releasing;
                *releasing = 0.0;
            }
        }
    }

    fn device(&mut self, group: GroupId) -> &mut SharedDevice {
        let at = match self.shared.iter().position(|device| device.group == group) {
            Some(at) => at,
            None => {
                self.shared.push(SharedDevice {
                    group,
                    used: 0,
                    allocated: 0,
                    releasing: 0,
                    real: false,
                    leaving: false,
                });
                self.shared.len() - 1
            }
        };
        &mut self.shared[at]
    }

    fn devices_in_use(&self) -> i64 {
        at(&self.used, GPU) as i64
            + self.shared.iter().filter(|device| device.used > 0).count() as i64
    }

    fn shift(vector: &mut Vector, by: f64) {
        if let Some(gpus) = vector.get_mut(GPU) {
            *gpus += by;
        }
    }

    fn share(&mut self, node: &Node, group: GroupId, status: Status, memory: i64) {
        let device = self.device(group);
        device.used += memory;
        match status {
            Status::Releasing => {
                device.releasing += memory;
                device.allocated += memory;
                device.real = true;
                if device.used == device.releasing {
                    let first = !device.leaving;
                    device.leaving = true;
                    if first {
                        Self::shift(&mut self.releasing, 1.0);
                    }
                    if node.gpu_count < at(&self.idle, GPU) as i64 + self.devices_in_use() {
                        Self::shift(&mut self.idle, -1.0);
                    }
                }
            }
            Status::Pipelined => {
                device.releasing -= memory;
                if device.used - memory == device.releasing + memory {
                    Self::shift(&mut self.releasing, -1.0);
                }
            }
            _ => {
                device.allocated += memory;
                device.real = true;
                let (first, leaving) = (device.used <= memory, device.leaving);
                device.leaving = false;
                if first && node.gpu_count < at(&self.idle, GPU) as i64 + self.devices_in_use() {
                    Self::shift(&mut self.idle, -1.0);
                }
                if leaving {
                    Self::shift(&mut self.releasing, -1.0);
                }
            }
        }
    }

    fn unshare(&mut self, node: &Node, group: GroupId, status: Status, memory: i64) {
        let device = self.device(group);
        device.used -= memory;
        match status {
            Status::Releasing => {
                device.releasing -= memory;
                device.allocated -= memory;
                if device.used <= 0 {
                    let leaving = device.leaving;
                    device.leaving = false;
                    if node.gpu_count >= at(&self.idle, GPU) as i64 + self.devices_in_use() {
                        Self::shift(&mut self.idle, 1.0);
                    }
                    if leaving {
                        Self::shift(&mut self.releasing, -1.0);
                    }
                }
            }
            Status::Pipelined => {
                device.releasing += memory;
                let was_leaving = device.used + memory == device.releasing - memory;
                let empty = device.used == 0 && device.releasing == 0;
                if was_leaving || empty {
                    Self::shift(&mut self.releasing, 1.0);
                }
            }
            _ => {
                device.allocated -= memory;
                let (empty, leaves) = (
                    device.used <= 0,
                    device.used > 0 && device.used == device.releasing && !device.leaving,
                );
                if leaves {
                    device.leaving = true;
                }
                if empty && node.gpu_count >= at(&self.idle, GPU) as i64 + self.devices_in_use() {
                    Self::shift(&mut self.idle, 1.0);
                }
                if leaves {
                    Self::shift(&mut self.releasing, 1.0);
                }
            }
        }
    }

    /// Whether a pod fits what is free now.
    pub fn fits_idle(&self, class: &Class, node: &Node) -> bool {
        self.fits(class, node, false)
    }

    /// Whether a pod fits what is free now or soon.
    pub fn fits_soon(&self, class: &Class, node: &Node) -> bool {
        self.fits(class, node, true)
    }

    fn fits(&self, class: &Class, node: &Node, soon: bool) -> bool {
        let room = |i: usize| if soon { self.free(i) } else { at(&self.idle, i) };
        if portion_of(&class.gpu, node) > 1.0 && class.gpu.is_shared() {
            return false;
        }
        let shared = class.gpu.is_shared();
        let plain = class.request.iter().enumerate().all(|(i, asked)| {
            (shared && i == GPU)
                || *asked <= room(i)
                || (i == GPU && *asked - self.shared_already(class) <= room(i))
        });
        if !plain || !shared {
            return plain;
        }
        let whole = room(GPU).floor() as i64;
        whole + self.fitting_devices(&class.gpu, node) >= class.gpu.count
    }

    /// The dimension that a pod lacks, if it lacks one.
    pub fn lacks(&self, class: &Class, node: &Node) -> Option<usize> {
        if self.fits_soon(class, node) {
            return None;
        }
        let shared = class.gpu.is_shared();
        let short = |i: &usize| !(shared && *i == GPU) && at(&class.request, *i) > self.free(*i);
        [GPU, CPU_FIRST, 1].into_iter().chain(3..class.request.len()).find(short).or(Some(GPU))
    }

    fn fitting_devices(&self, gpu: &GpuRequest, node: &Node) -> i64 {
        let fitting = self.shared.iter().filter(|device| device.fits(gpu, node)).count() as i64;
        fitting.min(gpu.count)
    }

    /// Whether a shared device has room for such a request.
    pub fn shares(&self, gpu: &GpuRequest, node: &Node) -> bool {
        self.shared.iter().any(|device| device.fits(gpu, node))
    }

    /// Devices free now, parts added up, and mebibytes of them.
    pub fn idle_gpus(&self, node: &Node, dimensions: &Dimensions) -> (f64, i64) {
        let (mut gpus, mut memory) = (0.0, 0);
        for device in self.shared.iter().filter(|device| device.allocated > 0) {
            gpus += 1.0 - ceil2(device.allocated as f64 / node.gpu_memory as f64);
            memory += node.gpu_memory - device.allocated;
        }
        let whole = dimensions.accelerators(&self.idle);
        (gpus + whole, (whole as i64).saturating_mul(node.gpu_memory).saturating_add(memory))
    }

    /// Devices about to be free, parts added up, and mebibytes of them.
    pub fn releasing_gpus(&self, node: &Node, dimensions: &Dimensions) -> (f64, i64) {
        let (mut gpus, mut memory) = (0.0, 0);
        for device in
            self.shared.iter().filter(|device| device.releasing > 0 && !device.all_leaves())
        {
            gpus += ceil2(device.releasing as f64 / node.gpu_memory as f64);
            memory += device.releasing;
        }
        let whole = dimensions.accelerators(&self.releasing);
        (gpus + whole, (whole as i64).saturating_mul(node.gpu_memory).saturating_add(memory))
    }

    /// Devices free now or soon, parts added up.
    pub fn free_gpus(&self, node: &Node, dimensions: &Dimensions) -> f64 {
        self.idle_gpus(node, dimensions).0 + self.releasing_gpus(node, dimensions).0
    }

    /// What is left of devices that pods share, in devices.
    pub fn shared_rest(&self, node: &Node) -> f64 {
        if node.gpu_memory <= 0 {
            return 0.0;
        }
        self.shared
            .iter()
            .filter(|device| device.used > 0)
            .map(|device| node.gpu_memory - device.allocated + device.releasing)
            .filter(|rest| *rest > 0)
            .map(|rest| rest as f64 / node.gpu_memory as f64)
            .sum()
    }

    /// Pod slots free now or soon.
    pub fn pod_slots(&self) -> f64 {
        self.free(PODS)
    }
}

const CPU_FIRST: usize = crate::snapshot::CPU;

// === impl SharedDevice ===

impl SharedDevice {
    /// Whether it has room, some of it perhaps soon, and somebody stays on it. One that is closed has none.
    pub fn fits(&self, gpu: &GpuRequest, node: &Node) -> bool {
        self.used != 0
            && node.gpu_memory - self.allocated + self.releasing - memory_of(gpu, node) >= 0
            && self.allocated != self.releasing
            && !node.closed.contains(&self.group)
    }

    /// Whether it has room now.
    pub fn fits_now(&self, gpu: &GpuRequest, node: &Node) -> bool {
        self.real && node.gpu_memory - self.allocated - memory_of(gpu, node) >= 0
    }

    fn all_leaves(&self) -> bool {
        self.used != 0 && self.releasing == self.used
    }
}

/// Mebibytes of each device that a request takes on a node.
pub fn memory_of(gpu: &GpuRequest, node: &Node) -> i64 {
    if gpu.memory > 0 { gpu.memory } else { (gpu.portion * node.gpu_memory as f64) as i64 }
}

fn portion_of(gpu: &GpuRequest, node: &Node) -> f64 {
    if gpu.memory > 0 { ceil2(gpu.memory as f64 / node.gpu_memory as f64) } else { gpu.portion }
}

/// What a pod takes from a node's vectors: no parts of devices, no device that it only holds for others, nothing that
/// the node does not count.
fn tracked(class: &Class, node: &Node, reservation: bool) -> Vector {
    let mut vector = class.request.clone();
    for (i, amount) in vector.iter_mut().enumerate() {
        let shared =
            i == GPU && (class.gpu.kind == GpuKind::Fraction || class.gpu.kind == GpuKind::Memory);
        if shared || (i == GPU && reservation) || at(&node.allocatable, i) == 0.0 {
            *amount = 0.0;
        }
    }
    if let Some(gpus) = vector.get_mut(GPU).filter(|gpus| **gpus > 0.0) {
        *gpus -= class.constraints.shared_gpus.iter().map(|(_, gpus)| *gpus as f64).sum::<f64>();
    }
    vector
}

fn uses(class: &Class, claim: u32) -> bool {
    class.constraints.shared_gpus.iter().any(|(of, _)| *of == claim)
}
