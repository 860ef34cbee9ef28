//! Groups that can never run in this cluster: their pods ask for more than any node has, or together for more than all
//! nodes have. They do not claim a share, where the configuration says so; with KAI they do.

use std::collections::BTreeSet;

use crate::snapshot::{Class, JobId, PodSetId, Snapshot, Status, Vector, add, at};

/// Groups of a snapshot that can never run; none, if the configuration lets them claim a share all the same.
pub fn jobs(snapshot: &Snapshot) -> BTreeSet<JobId> {
    if !snapshot.parameters.ignore_impossible_groups {
        return BTreeSet::new();
    }
    let fits: Vec<bool> = snapshot.classes.iter().map(|class| fits(snapshot, class)).collect();
    let mut total: Option<Vector> = None;
    let mut out = BTreeSet::new();
    for (id, job) in snapshot.jobs.entries() {
        if job.too_large.is_some() {
            out.insert(id);
            continue;
        }
        let few = |set: &PodSetId| {
            let set = &snapshot.pod_sets[*set];
            let could = |task: &&crate::snapshot::TaskId| {
                let task = &snapshot.tasks[**task];
                let runs = task.status.is_active();
                runs || fits.get(task.class.0 as usize).copied().unwrap_or(true)
            };
            let waits = set.tasks.iter().any(|it| snapshot.tasks[*it].status == Status::Pending);
            waits && set.tasks.iter().filter(could).count() < set.min as usize
        };
        if job.pod_sets.iter().any(few) || {
            let total = total.get_or_insert_with(|| all(snapshot));
            exceeds(snapshot, id, total)
        } {
            out.insert(id);
        }
    }
    out
}

/// Whether some node could have a pod, were it empty.
fn fits(snapshot: &Snapshot, class: &Class) -> bool {
    class.request.iter().enumerate().all(|(i, asked)| *asked <= at(&snapshot.largest, i))
}

fn all(snapshot: &Snapshot) -> Vector {
    let mut total = snapshot.dimensions.zero();
    for node in snapshot.nodes.iter() {
        add(&mut total, &node.allocatable);
    }
    total
}

/// Whether what a group needs at least is more than all nodes have together. Pods of a leaf that differ are not looked
/// at: which of them it needs is not known.
fn exceeds(snapshot: &Snapshot, job: JobId, total: &[f64]) -> bool {
    let mut sum = snapshot.dimensions.zero();
    for set in &snapshot.jobs[job].pod_sets {
        let set = &snapshot.pod_sets[*set];
        let mut classes = set.tasks.iter().map(|task| snapshot.tasks[*task].class);
        let Some(first) = classes.next() else { continue };
        if classes.any(|class| class != first) {
            return false;
        }
        for (sum, asked) in sum.iter_mut().zip(snapshot.classes[first].request.iter()) {
            *sum += asked * f64::from(set.min);
        }
    }
    sum.iter().enumerate().any(|(i, asked)| *asked > at(total, i))
}
