//! Whether it can be enough at all: what would be free if everybody left who may.
//!
//! Room is counted as pods that ask for the least that any pod of the group asks for, node by node. A group for which
//! even that is too little, in the cluster or in every domain of a level that it requires, need not be tried.

use std::collections::BTreeMap;

use crate::{
    session::Session,
    snapshot::{GPU, Id, JobId, NodeId, PodSetId, TaskId, TopologyId, Vector, add, at},
    state::Gang,
};

/// What candidates would free, by node.
pub(super) type Freed = BTreeMap<NodeId, Vector>;

/// Whether a group's pods could be placed if all candidates left.
pub(super) fn can_be_enough(
    session: &Session<'_>,
    job: JobId,
    tasks: &[TaskId],
    candidates: &[JobId],
) -> bool {
    let snapshot = session.snapshot;
    let Some(least) = least(session, tasks) else { return true };
    let spec = &snapshot.jobs[job];
    let free = spec.members.iter().all(|member| member.constraint.is_none());
    if free && grows_enough(session, &least, tasks.len() as i64, candidates) {
        return true;
    }
    let freed = freed(session, candidates);
    let room: Vec<i64> =
        snapshot.nodes.ids().map(|node| room(session, node, &least, freed.get(&node))).collect();
    if room.iter().sum::<i64>() < tasks.len() as i64 {
        return false;
    }
    spec.members.iter().enumerate().all(|(at, member)| {
        let required =
            member.constraint.as_ref().and_then(|it| Some((it.topology?, it.required.as_ref()?)));
        let Some((id, level)) = required else { return true };
        let mut leaves: Vec<PodSetId> = Vec::new();
        spec.leaves(at, &mut leaves);
        let inside = |task: &&TaskId| {
            snapshot.tasks[**task].pod_set.is_some_and(|set| leaves.contains(&set))
        };
        let wanted = tasks.iter().filter(inside).count() as i64;
        wanted == 0 || most_in_domain(session, id, level, &room).is_none_or(|most| most >= wanted)
    })
}

/// Whether the first candidates free enough already, where it does not matter on which nodes.
fn grows_enough(session: &Session<'_>, least: &[f64], wanted: i64, candidates: &[JobId]) -> bool {
    let mut freed = Freed::new();
    let mut sum = 0;
    for job in candidates {
        for task in Gang::whole(*job).all_tasks(session.snapshot, &session.state) {
            let Some(node) = session.state.tasks[task].node else { continue };
            let before =
                freed.get(&node).map_or(0, |freed| room(session, node, least, Some(freed)));
            free_of(session, task, &mut freed);
            sum += freed.get(&node).map_or(0, |freed| room(session, node, least, Some(freed)))
                - before;
            if sum >= wanted {
                return true;
            }
        }
    }
    false
}

/// The least of each dimension that pods ask for; none if they share devices, whose room is not a number of pods.
pub(super) fn least(session: &Session<'_>, tasks: &[TaskId]) -> Option<Vector> {
    let snapshot = session.snapshot;
    let mut least: Option<Vector> = None;
    for task in tasks {
        let class = &snapshot.classes[snapshot.tasks[*task].class];
        if class.gpu.is_shared() || !class.constraints.shared_gpus.is_empty() {
            return None;
        }
        match &mut least {
            None => least = Some(class.request.clone()),
            Some(least) => {
                for (x, y) in least.iter_mut().zip(class.request.iter()) {
                    *x = x.min(*y);
                }
            }
        }
    }
    least
}

/// What groups would free if they left.
pub(super) fn freed(session: &Session<'_>, candidates: &[JobId]) -> Freed {
    let snapshot = session.snapshot;
    let mut freed: Freed = BTreeMap::new();
    for job in candidates {
        for task in Gang::whole(*job).all_tasks(snapshot, &session.state) {
            free_of(session, task, &mut freed);
        }
    }
    freed
}

/// Adds what a pod would free.
pub(super) fn free_of(session: &Session<'_>, task: TaskId, freed: &mut Freed) {
    let (snapshot, state) = (session.snapshot, &session.state.tasks[task]);
    let (Some(node), true) = (state.node, state.status.is_active()) else { return };
    let class = &snapshot.classes[snapshot.tasks[task].class];
    let sum = freed.entry(node).or_insert_with(|| snapshot.dimensions.zero());
    add(sum, &class.request);
    if class.gpu.is_shared()
        && let Some(gpus) = sum.get_mut(GPU)
    {
        // At best whole devices become free.
        *gpus += class.gpu.count as f64 - at(&class.request, GPU);
    }
}

/// How many pods a node would have room for.
pub(super) fn room(
    session: &Session<'_>,
    node: NodeId,
    least: &[f64],
    freed: Option<&Vector>,
) -> i64 {
    let state = &session.state.nodes[node];
    let mut pods = i64::MAX;
    for (i, asked) in least.iter().enumerate().filter(|(_, asked)| **asked > 0.0) {
        let free = state.free(i) + freed.map_or(0.0, |freed| at(freed, i));
        pods = pods.min((free / asked) as i64).max(0);
        if pods == 0 {
            break;
        }
    }
    pods
}

fn most_in_domain(session: &Session<'_>, id: TopologyId, level: &str, room: &[i64]) -> Option<i64> {
    let topology = &session.snapshot.topologies[id];
    let depth = topology.depth_of(level)?;
    let domains = topology.domains.iter().filter(|domain| domain.depth == depth);
    let sum = |nodes: &[NodeId]| nodes.iter().filter_map(|node| room.get(node.row())).sum::<i64>();
    Some(domains.map(|domain| sum(&domain.nodes)).max().unwrap_or(0))
}
