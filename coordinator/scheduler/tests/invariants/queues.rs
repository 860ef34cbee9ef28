//! No queue is over its limit.

use std::collections::BTreeMap;

use muster_scheduler::input::Input;

use super::{Cycle, newly_placed, nodes::requests};

pub fn violations(input: &Input, cycle: &Cycle) -> Vec<String> {
    let queues: BTreeMap<&str, _> =
        input.queues.iter().map(|queue| (queue.metadata.name.as_str(), queue)).collect();
    let groups: BTreeMap<&str, &str> = input
        .pod_groups
        .iter()
        .map(|group| (group.metadata.name.as_str(), group.spec.queue.as_str()))
        .collect();
    let new = newly_placed(cycle);
    let mut sums: BTreeMap<&str, ([f64; 3], [bool; 3])> = BTreeMap::new();
    for pod in &input.pods {
        let key = pod.key();
        let Some((_, group)) = pod.group() else { continue };
        let Some(placed) = cycle.pods.get(&key).filter(|placed| placed.stays()) else { continue };
        let asked = requests(pod);
        let of = |name: &str| asked.get(name).copied().unwrap_or_default();
        let fraction =
            pod.metadata.annotations.get("gpu-fraction").and_then(|text| text.parse::<f64>().ok());
        let gpu = fraction.map_or(of("nvidia.com/gpu") / 1000.0, |part| {
            part * placed.gpu_groups.len().max(1) as f64
        });
        let amounts = [of("cpu"), of("memory") / 1000.0, gpu];
        let fresh = new.contains(key.as_str()) && !cycle.evicted_for.contains_key(&key);
        let mut at = groups.get(group).copied().unwrap_or_default();
        let mut steps = 0;
        while let Some(queue) = queues.get(at).filter(|_| steps < 64) {
            let (sum, grown) = sums.entry(at).or_default();
            for ((sum, grown), amount) in sum.iter_mut().zip(grown).zip(amounts) {
                *sum += amount;
                *grown |= fresh && amount > 0.0;
            }
            at = queue.spec.parent_queue.as_str();
            steps += 1;
        }
    }
    let mut wrong = Vec::new();
    for (name, (sum, grown)) in sums {
        let of = &queues[name].spec.resources;
        let limits = [of.cpu.limit, of.memory.limit * 1e6, of.gpu.limit];
        for ((sum, grown), limit) in sum.into_iter().zip(grown).zip(limits) {
            if grown && limit >= 0.0 && sum > limit + 1e-6 * limit.max(1.0) {
                wrong.push(format!("queue {name}: {sum} is over its limit of {limit}"));
            }
        }
    }
    wrong
}
