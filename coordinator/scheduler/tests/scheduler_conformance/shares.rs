//! Fair shares without the engine: what queues have and want, straight from the objects.

use std::collections::BTreeMap;

use muster_scheduler::{
    config::Config,
    input::{Input, Phase, Pod, Quota},
    plugin::proportion::division::{Claimant, divide},
};

use crate::case::Share;

pub fn of(input: &Input, config: &Config) -> BTreeMap<String, Share> {
    let mut total = [0.0; 3];
    let pool = &config.params.node_pool;
    let mut memory = BTreeMap::new();
    for node in input.nodes.iter().filter(|node| pool.takes(&node.metadata.labels)) {
        let ready = !node.spec.unschedulable
            && node.status.conditions.iter().all(|condition| match condition.kind.as_str() {
                "Ready" => condition.status == "True",
                _ => condition.status == "False",
            });
        let size: f64 = node
            .metadata
            .labels
            .get("nvidia.com/gpu.memory")
            .map_or(100.0, |text| text.parse().unwrap());
        memory.insert(node.metadata.name.as_str(), (size / 100.0).floor() * 100.0);
        if !ready {
            continue;
        }
        for (name, amount) in node.status.allocatable.iter() {
            add(&mut total, name, amount);
        }
    }
    let least = memory.values().copied().filter(|size| *size > 100.0).fold(f64::INFINITY, f64::min);
    let names: BTreeMap<&str, usize> = input
        .queues
        .iter()
        .enumerate()
        .map(|(at, queue)| (queue.metadata.name.as_str(), at))
        .collect();
    let mut request = vec![[0.0; 3]; input.queues.len()];
    let groups: BTreeMap<_, _> =
        input.pod_groups.iter().map(|group| (group.metadata.name.as_str(), group)).collect();
    for pod in &input.pods {
        let bound = !pod.spec.node_name.is_empty();
        let mut wants = wants(pod);
        if let Some(text) = pod.metadata.annotations.get("gpu-memory") {
            let asked: f64 = text.parse().unwrap();
            wants[2] = match memory.get(pod.spec.node_name.as_str()) {
                Some(size) => (asked / size * 100.0).ceil() / 100.0,
                None => asked / least,
            };
        }
        let ours = pod.spec.scheduler_name == config.params.scheduler_name;
        let active = bound && matches!(pod.status.phase, Phase::Running | Phase::Pending);
        if active && !ours {
            for (total, wants) in total.iter_mut().zip(wants) {
                *total -= wants;
            }
        }
        let Some(group) = pod.group().and_then(|(_, name)| groups.get(name)) else { continue };
        let pending =
            pod.status.phase == Phase::Pending && !bound && pod.spec.scheduling_gates.is_empty();
        let counts = pod.metadata.deletion_timestamp.is_none() && (active || pending);
        if !counts {
            continue;
        }
        let mut at = names.get(group.spec.queue.as_str());
        while let Some(&queue) = at {
            for (sum, wants) in request[queue].iter_mut().zip(wants) {
                *sum += wants;
            }
            at = names.get(input.queues[queue].spec.parent_queue.as_str());
        }
    }
    let usage: BTreeMap<_, _> =
        input.usage.iter().map(|(name, usage)| (name.as_str(), *usage)).collect();
    let claimants: Vec<_> = input
        .queues
        .iter()
        .zip(&request)
        .map(|(queue, request)| {
            let three = |read: fn(&Quota) -> f64, scale: f64| {
                let of = &queue.spec.resources;
                [read(&of.cpu), (read(&of.memory) * scale).max(-1.0), read(&of.gpu)]
            };
            let name = queue.metadata.name.as_str();
            let usage = usage.get(name).copied().unwrap_or_default();
            let parent = queue.spec.parent_queue.as_str();
            Claimant {
                name,
                parent: (!parent.is_empty())
                    .then(|| names.get(parent).copied().unwrap_or(usize::MAX / 2)),
                created: queue.metadata.creation_timestamp,
                priority: queue.spec.priority.unwrap_or(100),
                deserved: three(|quota| quota.quota, 1e6),
                limit: three(|quota| quota.limit, 1e6),
                weight: three(|quota| quota.over_quota_weight, 1.0),
                request: *request,
                usage: [usage.cpu, usage.memory, usage.gpu],
            }
        })
        .collect();
    let k = config
        .arguments("proportion")
        .and_then(|arguments| arguments.get("kValue"))
        .map_or(1.0, |text| text.parse().unwrap());
    let shares = divide(&claimants, total, k);
    claimants
        .iter()
        .zip(shares)
        .map(|(queue, [cpu, memory, gpu])| (queue.name.to_owned(), Share { gpu, cpu, memory }))
        .collect()
}

fn wants(pod: &Pod) -> [f64; 3] {
    let mut wants = [0.0; 3];
    let sidecars = pod.spec.init_containers.iter().filter(|init| init.restart_policy == "Always");
    for container in pod.spec.containers.iter().chain(sidecars) {
        for (name, amount) in container.resources.requests.iter() {
            add(&mut wants, name, amount);
        }
    }
    if let Some(text) = pod.metadata.annotations.get("gpu-fraction") {
        let devices: f64 = pod
            .metadata
            .annotations
            .get("gpu-fraction-num-devices")
            .map_or(1.0, |text| text.parse().unwrap());
        wants[2] = (text.parse::<f64>().unwrap() * 100.0).round() * devices / 100.0;
    }
    wants
}

fn add(amounts: &mut [f64; 3], name: &str, amount: muster_scheduler::quantity::Quantity) {
    match name {
        "cpu" => amounts[0] += amount.milli() as f64,
        "memory" => amounts[1] += amount.value() as f64,
        _ if name.ends_with("gpu") => amounts[2] += amount.value() as f64,
        _ => {
            if let Some(rest) = name.strip_prefix("nvidia.com/mig-") {
                let slices: f64 =
                    rest.split_once('g').map_or(0.0, |(slices, _)| slices.parse().unwrap());
                amounts[2] += slices * amount.value() as f64;
            }
        }
    }
}
