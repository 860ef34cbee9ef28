//! No node is over its capacity.

use std::collections::BTreeMap;

use muster_scheduler::input::{Input, Node, Phase, Pod};

use super::{Cycle, Placed, newly_placed};

type Amounts = BTreeMap<String, f64>;

pub fn violations(input: &Input, cycle: &Cycle) -> Vec<String> {
    let new = newly_placed(cycle);
    let mut wrong = Vec::new();
    for node in &input.nodes {
        let here: Vec<(&Pod, &Placed)> = input
            .pods
            .iter()
            .filter_map(|pod| Some((pod, cycle.pods.get(&pod.key())?)))
            .filter(|(_, placed)| placed.node == node.metadata.name)
            .collect();
        if !here.iter().any(|(pod, _)| new.contains(pod.key().as_str())) {
            continue;
        }
        // A node that was over its capacity before may stay so, but nothing may be added to it.
        let there = before(input, node);
        let there = || there.iter().map(|(pod, placed)| (*pod, placed));
        let before = used(node, there());
        let bound = here.iter().copied().filter(|(_, placed)| placed.status == "Binding");
        let bound = bound.filter(|(pod, _)| pod.spec.node_name.is_empty());
        wrong.extend(over(node, there().chain(bound), &before, "now"));
        let later = here.iter().filter(|(_, placed)| placed.stays());
        wrong.extend(over(node, later.copied(), &before, "when evicted pods have left"));
    }
    wrong
}

/// Pods that were on a node before the cycle.
fn before<'a>(input: &'a Input, node: &Node) -> Vec<(&'a Pod, Placed)> {
    let here = input.pods.iter().filter(|pod| pod.spec.node_name == node.metadata.name);
    let active = here.filter(|pod| matches!(pod.status.phase, Phase::Running | Phase::Pending));
    active
        .map(|pod| {
            let group = |(name, value): (&str, &str)| {
                name.starts_with("runai-gpu-group").then(|| value.to_owned())
            };
            let shares = ["gpu-fraction", "gpu-memory"]
                .iter()
                .any(|name| pod.metadata.annotations.get(name).is_some());
            let gpu_groups =
                pod.metadata.labels.iter().filter_map(group).filter(|_| shares).collect();
            (pod, Placed { gpu_groups, ..Placed::default() })
        })
        .collect()
}

/// What pods use of a node, in thousandths, and of shared devices.
fn used<'a>(node: &Node, pods: impl Iterator<Item = (&'a Pod, &'a Placed)>) -> Amounts {
    let mut sums = Amounts::new();
    for (pod, placed) in pods {
        *sums.entry("pods".to_owned()).or_default() += 1000.0;
        for (name, amount) in requests(pod) {
            *sums.entry(name).or_default() += amount;
        }
        for group in &placed.gpu_groups {
            let device = sums.entry(format!("device {group}")).or_default();
            if *device == 0.0 {
                *device += portion(pod, node);
                *sums.entry("nvidia.com/gpu".to_owned()).or_default() += 1000.0;
            } else {
                *device += portion(pod, node);
            }
        }
    }
    sums
}

/// What a node has too little of, and had not.
fn over<'a>(
    node: &Node,
    pods: impl Iterator<Item = (&'a Pod, &'a Placed)>,
    before: &Amounts,
    when: &str,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, sum) in used(node, pods) {
        let has = match node.status.allocatable.get(&name) {
            Some(amount) => amount.milli() as f64,
            None if name.starts_with("device ") => 1.0,
            // What a node does not speak of at all, claims and classes of devices may serve.
            None => continue,
        };
        let had = before.get(&name).copied().unwrap_or_default();
        if sum > has + 1e-6 && sum > had + 1e-6 {
            wrong.push(format!(
                "{} {when}: {sum} of {has} {name} (thousandths)",
                node.metadata.name
            ));
        }
    }
    wrong
}

/// What a pod's containers ask for, in thousandths.
pub fn requests(pod: &Pod) -> Amounts {
    let mut sums = Amounts::new();
    let sidecars = pod.spec.init_containers.iter().filter(|init| init.restart_policy == "Always");
    for container in pod.spec.containers.iter().chain(sidecars) {
        for (name, amount) in container.resources.requests.iter() {
            *sums.entry(name.to_owned()).or_default() += amount.milli() as f64;
        }
    }
    for (name, amount) in pod.spec.overhead.iter() {
        *sums.entry(name.to_owned()).or_default() += amount.milli() as f64;
    }
    sums
}

/// How much of one shared device a pod has.
fn portion(pod: &Pod, node: &Node) -> f64 {
    let number = |name: &str| pod.metadata.annotations.get(name)?.parse::<f64>().ok();
    let memory =
        node.metadata.labels.get("nvidia.com/gpu.memory").and_then(|text| text.parse::<f64>().ok());
    match (number("gpu-fraction"), number("gpu-memory"), memory) {
        (Some(fraction), ..) => fraction,
        (None, Some(asked), Some(memory)) => asked / ((memory / 100.0).floor() * 100.0),
        _ => 0.0,
    }
}
