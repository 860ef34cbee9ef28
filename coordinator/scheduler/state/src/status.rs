//! What is to be said of pod groups and queues: how much they have and ask for, and what keeps them waiting.

use std::collections::{BTreeMap, BTreeSet};

use muster_kube::Quantity;
use muster_scheduler::decisions::Decisions;
use muster_scheduler::input::{Dialect, KAI_GROUP, Node, Phase, Pod, PodGroup, Preemptibility};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::object::{Name, name, name_of, shown};
use crate::reservation::share::{Asks, asks, count, portion};

/// The resource whose devices pods share.
const SHARED_DEVICE: &str = "nvidia.com/gpu";
/// Memory of shared devices that is asked for, in mebibytes.
const DEVICE_MEMORY: &str = "run.ai/gpu.memory";

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// How a pod group is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// What its pods ask for.
    pub requested: Amounts,
    /// What those have that have a node.
    pub allocated: Amounts,
    /// Whether nobody may take its place.
    pub stays: bool,
    /// Its queue.
    pub queue: String,
    /// Pods that have no node, and are not on their way to one.
    pub waiting: Vec<Name>,
    /// Pods that are being bound.
    pub under_way: usize,
    /// Pods that have one.
    pub placed: usize,
    /// What keeps it waiting: a reason, and words with numbers.
    pub reason: Option<(String, String)>,
    /// What is bad below its pods: a reason, and words.
    pub trouble: Option<(String, String)>,
    /// What it asks for and cannot have, such as a priority class that does not exist.
    pub remarks: Vec<String>,
}

/// How a queue is, with all queues below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStatus {
    /// Queues right below it.
    pub children: Vec<String>,
    /// What its groups ask for.
    pub requested: Amounts,
    /// What they have.
    pub allocated: Amounts,
    /// What of it nobody may take.
    pub allocated_staying: Amounts,
    /// What it is due now: devices, in thousandths.
    pub fair_share: Option<FairShare>,
}

/// What a queue is due now, in whole numbers so that two can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FairShare {
    /// Thousandths of devices, of all kinds; -1 is without end.
    pub milli_gpu: i64,
    /// Thousandths of processors; -1 is without end.
    pub milli_cpu: i64,
    /// Bytes; -1 is without end.
    pub memory: i64,
    /// Thousandths of devices by kind, where the cluster has several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub milli_devices: BTreeMap<String, i64>,
}

/// How all pod groups of the KAI dialect are.
pub fn groups(cluster: &Cluster, decisions: &Decisions) -> BTreeMap<Name, GroupStatus> {
    let input = cluster.input();
    let mut all: BTreeMap<Name, GroupStatus> = BTreeMap::new();
    for group in input.pod_groups.iter().filter(|group| group.dialect() == Dialect::Kai) {
        let key = name_of(&group.metadata);
        let reason = decisions.reasons.get(&shown(&key));
        let reason = reason.map(|why| (format!("{:?}", why.reason), why.message.clone()));
        let status = GroupStatus {
            queue: group.spec.queue.clone(),
            stays: stays(cluster, group),
            trouble: cluster
                .faults()
                .trouble(&(Dialect::Kai, key.clone()))
                .map(|trouble| (trouble.bad.word().to_owned(), trouble.message.clone())),
            reason,
            remarks: decisions.remarks.get(&shown(&key)).cloned().unwrap_or_default(),
            ..GroupStatus::default()
        };
        all.insert(key, status);
    }
    for pod in &input.pods {
        if matches!(pod.status.phase, Phase::Succeeded | Phase::Failed) {
            continue;
        }
        let Some(group) = pod.metadata.annotations.get(KAI_GROUP) else { continue };
        let Some(status) = all.get_mut(&name(&pod.metadata.namespace, group)) else { continue };
        add(&mut status.requested, pod);
        request_parts(&mut status.requested, pod);
        if pod.spec.node_name.is_empty() {
            let key = name_of(&pod.metadata);
            let binding = cluster.in_flight().of(&key);
            match binding.is_some_and(|binding| binding.uid == pod.metadata.uid) {
                true => status.under_way += 1,
                false => status.waiting.push(key),
            }
        } else {
            status.placed += 1;
            add(&mut status.allocated, pod);
            allocate_parts(&mut status.allocated, pod, cluster.node(&pod.spec.node_name));
        }
    }
    all
}

/// How all queues are.
pub fn queues(
    cluster: &Cluster,
    decisions: &Decisions,
    groups: &BTreeMap<Name, GroupStatus>,
) -> BTreeMap<String, QueueStatus> {
    let input = cluster.input();
    let parents: BTreeMap<&str, &str> = input
        .queues
        .iter()
        .map(|queue| (queue.metadata.name.as_str(), queue.spec.parent_queue.as_str()))
        .collect();
    let mut all: BTreeMap<String, QueueStatus> = BTreeMap::new();
    for queue in parents.keys() {
        let fair_share = decisions.fair_share.get(*queue).map(|share| FairShare {
            milli_gpu: milli(share.gpu, 1000.0),
            milli_cpu: milli(share.cpu, 1.0),
            memory: milli(share.memory, 1.0),
            milli_devices: share
                .kinds
                .iter()
                .map(|(kind, devices)| (kind.clone(), milli(*devices, 1000.0)))
                .collect(),
        });
        all.entry((*queue).to_owned()).or_default().fair_share = fair_share;
    }
    for (queue, parent) in &parents {
        if let Some(parent) = all.get_mut(*parent) {
            parent.children.push((*queue).to_owned());
        }
    }
    for group in groups.values() {
        let (mut queue, mut seen) = (group.queue.as_str(), BTreeSet::new());
        // Queues above each other may be a ring, if somebody writes one.
        while let Some(status) = all.get_mut(queue).filter(|_| seen.insert(queue.to_owned())) {
            join(&mut status.requested, &group.requested);
            join(&mut status.allocated, &group.allocated);
            if group.stays {
                join(&mut status.allocated_staying, &group.allocated);
            }
            queue = parents.get(queue).copied().unwrap_or_default();
        }
    }
    all
}

/// Whether nobody may take the place of a group.
fn stays(cluster: &Cluster, group: &PodGroup) -> bool {
    match group.spec.preemptibility {
        Preemptibility::Preemptible => false,
        Preemptibility::NonPreemptible => true,
        Preemptibility::ByPriority => {
            let classes = &cluster.input().priority_classes;
            let named = &group.spec.priority_class_name;
            let own = classes.iter().find(|class| class.metadata.name == *named);
            let class = own.or_else(|| classes.iter().find(|class| class.global_default));
            class.is_some_and(|class| class.value >= 100)
        }
    }
}

fn add(amounts: &mut Amounts, pod: &Pod) {
    for container in &pod.spec.containers {
        for (resource, amount) in container.resources.requests.iter() {
            put(amounts, resource, amount);
        }
    }
}

/// Parts of devices, which no container requests: an annotation does. Named as KAI names them.
fn request_parts(amounts: &mut Amounts, pod: &Pod) {
    match asks(pod) {
        Some(Asks::Fraction(each)) => put_parts(amounts, each * count(pod) as f64),
        Some(Asks::Memory(each)) => {
            let all = each.saturating_mul(count(pod)).to_string();
            if let Ok(amount) = Quantity::amount(&all) {
                put(amounts, DEVICE_MEMORY, amount);
            }
        }
        None => {}
    }
}

/// What a pod that shares devices has of them: its memory as a part of those of its node.
fn allocate_parts(amounts: &mut Amounts, pod: &Pod, node: Option<&Node>) {
    if asks(pod).is_some() {
        put_parts(amounts, portion(pod, node) * count(pod) as f64);
    }
}

fn put_parts(amounts: &mut Amounts, devices: f64) {
    let milli = (devices * 1000.0).round() as i64;
    if let Ok(amount) = Quantity::amount(&format!("{milli}m")) {
        put(amounts, SHARED_DEVICE, amount);
    }
}

fn join(into: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        put(into, resource, *amount);
    }
}

fn put(amounts: &mut Amounts, resource: &str, amount: Quantity) {
    match amounts.get_mut(resource) {
        // What cannot be written any more stays as it is.
        Some(sum) => *sum = sum.checked_add(amount).unwrap_or(*sum),
        None => drop(amounts.insert(resource.to_owned(), amount)),
    }
}

fn milli(amount: f64, factor: f64) -> i64 {
    let scaled = (amount * factor).round();
    if scaled >= i64::MAX as f64 || scaled < 0.0 { -1 } else { scaled as i64 }
}
