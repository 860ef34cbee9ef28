//! What a cluster looks like after a cycle, if everything goes as decided.
//!
//! Pods that were bound run. Pods that were evicted are made again by whoever owns them, and wait. What was promised
//! a place has to be decided again: nothing remembers it.

mod claims;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    decisions::{Action, Decisions, Marks},
    input::{Input, Phase, Pod, PodGroup},
};

/// Label that says which shared device a pod has a part of.
const GPU_GROUP: &str = "runai-gpu-group";
/// Annotation that says in which way a pod has its devices.
const RECEIVED: &str = "received-resource-type";
/// Annotation of a group: when it started.
pub const LAST_START: &str = "kai.scheduler/last-start-timestamp";
/// When it lost a pod.
pub const LAST_EVICTION: &str = "kai.scheduler/last-eviction-timestamp";
/// Since when it runs with too few pods.
pub const STALE: &str = "kai.scheduler/stale-podgroup-timestamp";

/// Changes a cluster as a cycle has decided. `now` is the instant of the next cycle.
pub fn apply(input: &mut Input, decisions: &Decisions, now: Timestamp) {
    input.now = Some(now);
    let mut pods: BTreeMap<String, &mut Pod> =
        input.pods.iter_mut().map(|pod| (pod.key(), pod)).collect();
    // Requests of earlier cycles have come true by now.
    for request in std::mem::take(&mut input.bind_requests) {
        let key = format!("{}/{}", request.metadata.namespace, request.spec.pod_name);
        let pod =
            pods.get_mut(&key).filter(|pod| pod.spec.node_name.is_empty() && !request.is_failed());
        if let Some(pod) = pod {
            bind(pod, &request.spec.selected_node, &request.spec.selected_gpu_groups);
        }
    }
    for decision in &decisions.decisions {
        let Some(pod) = pods.get_mut(&decision.pod) else { continue };
        match decision.action {
            Action::Bind => bind(pod, &decision.node, &decision.gpu_groups),
            Action::Evict => evict(pod, now),
            Action::Pipeline => {}
        }
    }
    claims::apply(input, decisions);
    for group in &mut input.pod_groups {
        let key = format!("{}/{}", group.metadata.namespace, group.metadata.name);
        if let Some(marks) = decisions.marks.get(&key) {
            mark(group, marks);
        }
    }
}

fn bind(pod: &mut Pod, node: &str, gpu_groups: &[String]) {
    node.clone_into(&mut pod.spec.node_name);
    pod.status.phase = Phase::Running;
    let shared = !gpu_groups.is_empty();
    pod.metadata.annotations.insert(RECEIVED, if shared { "Fraction" } else { "Regular" });
    match gpu_groups {
        [] => {}
        [group] => pod.metadata.labels.insert(GPU_GROUP, group.as_str()),
        groups => {
            for group in groups {
                pod.metadata.labels.insert(format!("{GPU_GROUP}/{group}"), group.as_str());
            }
        }
    }
}

/// Its owner makes it anew: the same name, another pod. What had no node is not touched.
fn evict(pod: &mut Pod, now: Timestamp) {
    if pod.spec.node_name.is_empty() {
        return;
    }
    pod.spec.node_name.clear();
    pod.metadata.uid.push_str("-again");
    pod.metadata.creation_timestamp = Some(now);
    pod.status.phase = Phase::Pending;
    pod.metadata.annotations.remove(RECEIVED);
    let shared: Vec<String> = pod
        .metadata
        .labels
        .iter()
        .filter(|(name, _)| name.starts_with(GPU_GROUP))
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in shared {
        pod.metadata.labels.remove(&name);
    }
}

/// Puts timestamps on a group.
pub fn mark(group: &mut PodGroup, marks: &Marks) {
    let annotations = &mut group.metadata.annotations;
    for (name, instant) in [
        (LAST_START, marks.last_start),
        (LAST_EVICTION, marks.last_eviction),
        (STALE, marks.stale_since),
    ] {
        match instant {
            Some(instant) => annotations.insert(name, instant.to_string()),
            None => annotations.remove(name),
        }
    }
}
