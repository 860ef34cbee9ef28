//! Signatures: groups with the same one ask the same of places, whatever amounts they ask for.

use std::collections::BTreeMap;

use super::{
    Class, ClassId, Constraint, Constraints, Job, JobId, PodSet, PodSetId, Table, Task, TaskId,
};

/// What a leaf asks of places: its constraints up to the root, and those of its pods that have no place yet.
type LeafSignature = (Vec<Option<(String, Option<String>, Option<String>)>>, Vec<u32>);

/// Gives each group its signature.
pub(super) fn sign(
    jobs: &mut Table<JobId, Job>,
    pod_sets: &Table<PodSetId, PodSet>,
    tasks: &Table<TaskId, Task>,
    classes: &Table<ClassId, Class>,
) {
    let mut alike: BTreeMap<&Constraints, u32> = BTreeMap::new();
    let mut kinds: Table<ClassId, u32> = Table::default();
    for class in classes.iter() {
        let next = alike.len() as u32;
        kinds.push(*alike.entry(&class.constraints).or_insert(next));
    }
    let mut known: BTreeMap<Vec<Option<LeafSignature>>, u32> = BTreeMap::new();
    for id in jobs.ids().collect::<Vec<_>>() {
        let job = &jobs[id];
        let mut leaves: Vec<_> =
            job.pod_sets.iter().map(|set| leaf(job, &pod_sets[*set], tasks, &kinds)).collect();
        leaves.sort();
        let next = known.len() as u32;
        jobs[id].signature = *known.entry(leaves).or_insert(next);
    }
}

fn leaf(
    job: &Job,
    set: &PodSet,
    tasks: &Table<TaskId, Task>,
    kinds: &Table<ClassId, u32>,
) -> Option<LeafSignature> {
    if set.tasks.iter().all(|task| tasks[*task].status.is_active()) {
        return None;
    }
    let mut chain = Vec::new();
    let mut at = Some(set.member);
    while let Some(member) = at.and_then(|at| job.members.get(at)) {
        chain.push(member.constraint.as_ref().map(|constraint: &Constraint| {
            (
                constraint.topology_name.clone(),
                constraint.required.clone(),
                constraint.preferred.clone(),
            )
        }));
        at = member.parent;
    }
    let mut pods: Vec<u32> = set
        .tasks
        .iter()
        .filter(|task| !tasks[**task].status.is_active())
        .map(|task| kinds[tasks[*task].class])
        .collect();
    pods.sort_unstable();
    Some((chain, pods))
}
