//! No gang is placed by half.

use std::collections::BTreeMap;

use muster_scheduler::input::{Input, PodGroup};

use super::{Cycle, newly_placed};

pub fn violations(input: &Input, cycle: &Cycle) -> Vec<String> {
    let new = newly_placed(cycle);
    let mut counts: BTreeMap<&str, BTreeMap<String, u32>> = BTreeMap::new();
    let mut touched: BTreeMap<&str, bool> = BTreeMap::new();
    for pod in &input.pods {
        let Some((_, group)) = pod.group() else { continue };
        let key = pod.key();
        let Some(placed) = cycle.pods.get(&key) else { continue };
        // Pods that move are placed anew, but nobody chose to start their gang.
        let moved = cycle.evicted_for.contains_key(&key);
        *touched.entry(group).or_default() |= new.contains(key.as_str()) && !moved;
        if placed.stays() || placed.status == "Succeeded" {
            let part = pod.metadata.labels.get("kai.scheduler/subgroup-name").unwrap_or_default();
            *counts.entry(group).or_default().entry(part.to_owned()).or_default() += 1;
        }
    }
    let mut wrong = Vec::new();
    for group in &input.pod_groups {
        let name = group.metadata.name.as_str();
        if touched.get(name).copied().unwrap_or_default()
            && !satisfied(group, None, counts.get(name).unwrap_or(&BTreeMap::new()))
        {
            wrong.push(format!("{name}: placed by half: {:?}", counts.get(name)));
        }
    }
    wrong
}

/// Whether a part of a group, or the whole of it, has enough.
fn satisfied(group: &PodGroup, part: Option<&str>, counts: &BTreeMap<String, u32>) -> bool {
    let parts = &group.spec.sub_groups;
    if parts.is_empty() {
        let all: u32 = counts.values().sum();
        return all >= group.spec.min_member.unwrap_or(1);
    }
    let below: Vec<_> = parts
        .iter()
        .filter(|child| child.parent.as_deref().filter(|parent| !parent.is_empty()) == part)
        .collect();
    let own = parts.iter().find(|candidate| Some(candidate.name.as_str()) == part);
    if let (true, Some(own)) = (below.is_empty(), own) {
        return counts.get(&own.name).copied().unwrap_or_default() >= own.min_member.unwrap_or(0);
    }
    let least = own.map_or(group.spec.min_sub_group, |own| own.min_sub_group);
    let least = least.map_or(below.len(), |least| least as usize);
    below.iter().filter(|child| satisfied(group, Some(&child.name), counts)).count() >= least
}
