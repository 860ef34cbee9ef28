//! Trying a way to make room.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    framework::{Scenario, Victim},
    session::{JobOrder, OrderOptions, Session},
    snapshot::{JobId, Status, TaskId},
    state::Gang,
    statement::Statement,
};

use super::{Batch, Probe, Purpose};

/// A way that works.
pub(super) struct Solution {
    /// It, done.
    pub(super) statement: Statement,
    /// Whom it costs.
    pub(super) recorded: Vec<Batch>,
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
        let recorded = batches.into_iter().filter(|batch| batch.tasks.iter().any(gone)).collect();
        return Some(Solution { statement, recorded });
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
        probe.feasible.with(victims.iter().filter_map(|task| session.snapshot.tasks[*task].node));
    let mut concerned: BTreeSet<JobId> = batches.iter().map(|batch| batch.job).collect();
    let preemptor = probe.gang.job;
    concerned.insert(preemptor);
    let waiting = session.snapshot.jobs.ids().filter(|job| session.state.jobs[*job].pending > 0);
    let jobs: BTreeSet<JobId> = waiting.chain(concerned.iter().copied()).collect();
    let gangs = jobs
        .into_iter()
        .map(|job| if job == preemptor { probe.gang.clone() } else { Gang::whole(job) });
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
