//! No node is over its capacity.

use std::collections::BTreeMap;

use muster_scheduler::input::{Input, Node, Pod};

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
        let now = here.iter().filter(|(_, placed)| placed.occupies());
        wrong.extend(over(node, now.copied(), "now"));
        let later = here.iter().filter(|(_, placed)| placed.stays());
        wrong.extend(over(node, later.copied(), "when evicted pods have left"));
    }
    wrong
}

/// What a node has too little of.
fn over<'a>(
    node: &Node,
    pods: impl Iterator<Item = (&'a Pod, &'a Placed)>,
    when: &str,
) -> Vec<String> {
    let has =
        |name: &str| node.status.allocatable.get(name).map_or(0.0, |amount| amount.milli() as f64);
    let mut sums = Amounts::new();
    let mut shared: BTreeMap<&str, f64> = BTreeMap::new();
    for (pod, placed) in pods {
        *sums.entry("pods".to_owned()).or_default() += 1000.0;
        for (name, amount) in requests(pod) {
            *sums.entry(name).or_default() += amount;
        }
        for group in &placed.gpu_groups {
            *shared.entry(group).or_default() += portion(pod, node);
        }
    }
    let mut wrong = Vec::new();
    for (group, sum) in &shared {
        if *sum > 1.0 + 1e-9 {
            wrong.push(format!("{} {when}: {sum} of shared device {group}", node.metadata.name));
        }
    }
    if !shared.is_empty() {
        *sums.entry("nvidia.com/gpu".to_owned()).or_default() += shared.len() as f64 * 1000.0;
    }
    for (name, sum) in sums {
        // What a node does not speak of at all, claims and classes of devices may serve.
        let known = node.status.allocatable.get(&name).is_some();
        if known && sum > has(&name) + 1e-6 {
            wrong.push(format!(
                "{} {when}: {sum} of {} {name} (thousandths)",
                node.metadata.name,
                has(&name)
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
