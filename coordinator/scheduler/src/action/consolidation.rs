//! Moves pods together so that something fits. Nobody loses its place for good.

use std::collections::BTreeMap;

use crate::{
    config::ActionName,
    session::Session,
    snapshot::{JobId, at},
    state::Gang,
};

use super::{solve_each::solve_each, solver::Purpose};

pub(super) fn run(session: &mut Session<'_>) {
    let most = session.snapshot.parameters.max_consolidation_preemptees;
    if most == 0 {
        return;
    }
    let action = (ActionName::Consolidation, Purpose::Consolidation);
    solve_each(
        session,
        action,
        |_, _| true,
        |session, gang| is_enough(session, gang).then(|| candidates(session, gang, most)),
    );
}

/// Groups that may move. More than the bound by one, as in the original.
fn candidates(session: &Session<'_>, gang: &Gang, most: i64) -> Vec<JobId> {
    let movable = session
        .snapshot
        .jobs
        .entries()
        .filter(|(id, job)| *id != gang.job && job.preemptible)
        .map(|(id, _)| id)
        .filter(|id| Gang::whole(*id).active(session.snapshot, &session.state) > 0);
    match usize::try_from(most) {
        Ok(most) => movable.take(most + 1).collect(),
        Err(_) => movable.collect(),
    }
}

/// Whether the cluster has devices enough, wherever they are.
fn is_enough(session: &Session<'_>, gang: &Gang) -> bool {
    let snapshot = session.snapshot;
    let (mut gpus, mut memory) = (0.0, 0);
    for (id, node) in snapshot.nodes.entries().filter(|(_, node)| node.ready) {
        let state = &session.state.nodes[id];
        for (more, mebibytes) in [
            state.idle_gpus(node, &snapshot.dimensions),
            state.releasing_gpus(node, &snapshot.dimensions),
        ] {
            gpus += more;
            memory = i64::saturating_add(memory, mebibytes);
        }
    }
    let (mut asked_gpus, mut asked_memory) = (0.0, 0);
    for task in session.to_allocate(gang, false).iter() {
        let gpu = &snapshot.classes[snapshot.tasks[*task].class].gpu;
        asked_gpus += gpu.quota();
        asked_memory = gpu.memory.saturating_add(gpu.slice_memory).saturating_add(asked_memory);
    }
    gpus >= asked_gpus && memory >= asked_memory && has_npus(session, gang)
}

/// Whether there are NPUs enough, wherever they are: to move pods makes no more of them.
fn has_npus(session: &Session<'_>, gang: &Gang) -> bool {
    let snapshot = session.snapshot;
    let mut asked: BTreeMap<usize, f64> = BTreeMap::new();
    for task in session.to_allocate(gang, false).iter() {
        let class = &snapshot.classes[snapshot.tasks[*task].class];
        if snapshot.dimensions.is_npu(class.primary) {
            *asked.entry(class.primary).or_default() += at(&class.request, class.primary);
        }
    }
    asked.iter().all(|(resource, asked)| {
        let ready = snapshot.nodes.entries().filter(|(_, node)| node.ready);
        let free: f64 = ready.map(|(id, _)| session.state.nodes[id].free(*resource).max(0.0)).sum();
        free >= *asked
    })
}
