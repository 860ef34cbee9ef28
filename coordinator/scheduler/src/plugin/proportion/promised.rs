//! Whether queues still have room for groups that were promised a place, at the moment when they are to be bound there.
//!
//! Between promise and binding minutes can pass. Limits and quotas may have been lowered, queues moved below others,
//! and pods bound by somebody else.

use std::collections::HashMap;

use crate::{
    config::Config,
    reason::Refusal,
    snapshot::{NOTHING, QueueId, Snapshot, Status, Table, TaskId, plus},
    state::weight,
};

use super::{QueueShare, ancestors, capacity};

/// Which of some groups may not be bound, and why: each is looked at as if those before it that may were bound.
///
/// `groups` are pods (`namespace/name`) that the snapshot has as being bound. Promises to others do not count here:
/// they are looked at when their turn comes.
pub fn over_capacity(
    snapshot: &Snapshot,
    config: &Config,
    groups: &[Vec<String>],
) -> Vec<Option<Refusal>> {
    if !config.plugins.iter().any(|plugin| plugin.name == "proportion") {
        return vec![None; groups.len()];
    }
    let mut group_of: HashMap<&str, usize> = HashMap::new();
    for (at, pods) in groups.iter().enumerate() {
        group_of.extend(pods.iter().map(|pod| (pod.as_str(), at)));
    }
    let mut members: Vec<Vec<TaskId>> = vec![Vec::new(); groups.len()];
    let bounds = snapshot.queues.iter().map(|queue| QueueShare {
        deserved: queue.deserved,
        limit: queue.limit,
        ..QueueShare::default()
    });
    let mut queues: Table<QueueId, QueueShare> = bounds.collect();
    for (id, task) in snapshot.tasks.entries() {
        if task.job.is_none() || task.pod_set.is_none() {
            continue;
        }
        let group = group_of.get(task.key.as_str()).and_then(|at| members.get_mut(*at));
        match group {
            Some(group) => group.push(id),
            None => add(snapshot, &mut queues, id),
        }
    }
    let look = |tasks: Vec<TaskId>| {
        let job = tasks.iter().find_map(|task| snapshot.tasks[*task].job)?;
        let asked =
            tasks.iter().map(|task| weight(snapshot, &snapshot.tasks[*task])).fold(NOTHING, plus);
        let lawful = capacity::check(snapshot, &queues, job, asked, true);
        if lawful.is_ok() {
            for task in tasks {
                add(snapshot, &mut queues, task);
            }
        }
        lawful.err()
    };
    members.into_iter().map(look).collect()
}

fn add(snapshot: &Snapshot, queues: &mut Table<QueueId, QueueShare>, task: TaskId) {
    let spec = &snapshot.tasks[task];
    let Some(job) = spec.job.map(|job| &snapshot.jobs[job]) else { return };
    let evicting = spec.status == Status::Releasing && spec.eviction_ordered;
    if !evicting && !spec.status.is_allocated() {
        return;
    }
    let amount = weight(snapshot, spec);
    for queue in ancestors(snapshot, job.queue) {
        let share = &mut queues[queue];
        let sum = if evicting { &mut share.evicting } else { &mut share.allocated };
        *sum = plus(*sum, amount);
        if !evicting && !job.preemptible {
            share.fixed = plus(share.fixed, amount);
        }
    }
}
