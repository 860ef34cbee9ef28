//! Trying a way to make room.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    framework::{Scenario, Victim},
    session::{JobOrder, OrderOptions, Session},
    snapshot::{JobId, QueueId, Status, TaskId},
    state::Gang,
    statement::Statement,
};

use super::{Batch, Probe, Purpose};

/// A way that works.
pub(super) struct Solution {
    pub(super) statement: Statement,
    /// Whom it costs.
    pub(super) recorded: Vec<Batch>,
    /// Whether everybody whose place was taken has lost or changed it: then there is nobody to spare.
    pub(super) all_gone: bool,
}

/// Evicts victims, places everybody concerned anew, and looks whether that is what was wanted.
pub(super) fn run(
    session: &mut Session<'_>,
    purpose: Purpose,
    probe: &Probe<'_>,
    potential: Vec<Batch>,
) -> Option<Solution> {
    let batches: Vec<Batch> = probe.recorded.iter().cloned().chain(potential).collect();
    if batches.is_empty() {
        return None;
    }
    let mut statement = Statement::default();
    let mut victims: BTreeSet<TaskId> = BTreeSet::new();
    for task in batches.iter().flat_map(|batch| batch.tasks.iter().copied()) {
        if victims.insert(task) && !session.evict(&mut statement, task) {
            session.discard(&mut statement);
            return None;
        }
    }
    if place_anew(session, probe, &batches, &victims, &mut statement)
        && spares_settled(session, &statement)
        && is_lawful(session, purpose, probe, &batches)
    {
        let gone = |task: &TaskId| {
            matches!(session.state.tasks[*task].status, Status::Releasing | Status::Pipelined)
        };
        let all_gone = victims.iter().all(gone);
        let recorded = batches.into_iter().filter(|batch| batch.tasks.iter().any(gone)).collect();
        return Some(Solution { statement, recorded, all_gone });
    }
    session.discard(&mut statement);
    None
}

/// Places the group and its victims in the order of queues. Victims that find no place stay evicted.
fn place_anew(
    session: &mut Session<'_>,
    probe: &Probe<'_>,
    batches: &[Batch],
    victims: &BTreeSet<TaskId>,
    statement: &mut Statement,
) -> bool {
    let nodes =
        probe.feasible.with(victims.iter().filter_map(|task| session.state.tasks[*task].node));
    let mut concerned: BTreeSet<JobId> = batches.iter().map(|batch| batch.job).collect();
    let preemptor = probe.gang.job;
    concerned.insert(preemptor);
    // Others that wait count as far as they are before somebody concerned in the same queue: they say where the queue is.
    let gang_of = |job: JobId| if job == preemptor { probe.gang.clone() } else { Gang::whole(job) };
    let mut last: BTreeMap<QueueId, Gang> = BTreeMap::new();
    for job in &concerned {
        let Some(queue) = session.snapshot.jobs[*job].queue else { continue };
        let gang = gang_of(*job);
        match last.get(&queue) {
            Some(known) if session.job_order(known, &gang).is_ge() => {}
            _ => {
                last.insert(queue, gang);
            }
        }
    }
    let counts = |job: &JobId| {
        let Some(last) = session.snapshot.jobs[*job].queue.and_then(|queue| last.get(&queue))
        else {
            return false;
        };
        session.job_order(&Gang::whole(*job), last).is_lt()
    };
    let waiting = session.snapshot.jobs.ids().filter(|job| session.state.jobs[*job].pending > 0);
    let jobs: BTreeSet<JobId> = waiting.filter(counts).chain(concerned.iter().copied()).collect();
    let gangs: Vec<Gang> = jobs.into_iter().map(gang_of).collect();
    let gangs = gangs.into_iter();
    let mut order = JobOrder::new(session, gangs, OrderOptions::default());
    let mut placed = false;
    while !concerned.is_empty() {
        let Some(gang) = order.pop(session) else { break };
        if !concerned.remove(&gang.job) {
            continue;
        }
        let before = statement.checkpoint();
        let success = session.allocate_gang(statement, &nodes, &gang, true);
        if gang.job == preemptor {
            if !success {
                return false;
            }
            placed = true;
        } else if !success {
            session.rollback(statement, before);
        }
    }
    placed
}

/// Whether groups of which pods were bound or evicted earlier in this cycle keep what they have.
fn spares_settled(session: &Session<'_>, statement: &Statement) -> bool {
    statement
        .evicted()
        .filter_map(|task| session.snapshot.tasks[task].job)
        .all(|job| !session.ledger.is_settled(job))
}

fn is_lawful(
    session: &Session<'_>,
    purpose: Purpose,
    probe: &Probe<'_>,
    batches: &[Batch],
) -> bool {
    let mut by_job: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
    for batch in batches {
        let tasks = by_job.entry(batch.job).or_default();
        for task in &batch.tasks {
            if !tasks.contains(task) {
                tasks.push(*task);
            }
        }
    }
    let victims: Vec<Victim> =
        by_job.into_iter().map(|(job, tasks)| Victim { job, tasks }).collect();
    let scenario = Scenario { preemptor: &probe.gang, request: probe.request, victims: &victims };
    match purpose {
        Purpose::Reclaim => session.reclaim_scenario(&scenario),
        Purpose::Preempt => session.preempt_scenario(&scenario),
        Purpose::Consolidation => victims
            .iter()
            .flat_map(|victim| &victim.tasks)
            .all(|task| session.state.tasks[*task].status != Status::Releasing),
    }
}
