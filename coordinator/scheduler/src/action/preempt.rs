//! Takes for a group what less important groups of its queue have.

use std::collections::BTreeMap;

use crate::{
    config::ActionName,
    decisions::Cause,
    session::{JobOrder, OrderOptions, Session},
    snapshot::{JobId, QueueId},
    state::Gang,
};

use super::{
    representative::Representatives,
    solver::{Purpose, Solver},
};

pub(super) fn run(session: &mut Session<'_>) {
    let options = OrderOptions {
        ready: true,
        pending: true,
        past_delay: true,
        depth: session.config.queue_depth.get(&ActionName::Preempt).copied(),
        ..OrderOptions::default()
    };
    let jobs = session.snapshot.jobs.ids().map(Gang::whole);
    let mut order = JobOrder::new(session, jobs, options);
    let mut failed: BTreeMap<Option<QueueId>, Representatives> = BTreeMap::new();
    while let Some(gang) = order.pop(session) {
        let queue = session.snapshot.jobs[gang.job].queue;
        let known = failed.entry(queue).or_default();
        if !known.may_succeed(session, gang.job) || !super::could_run_alone(session, &gang) {
            continue;
        }
        let tasks = session.to_allocate(&gang, false);
        if let Err(refusal) = session.non_preemptible_over_quota(&gang, &tasks) {
            session.ledger.refuse(gang.job, refusal);
            known.note(session, gang.job);
            continue;
        }
        let candidates = candidates(session, &gang);
        let solver = Solver { purpose: Purpose::Preempt, candidates: &candidates };
        match solver.solve(session, gang.job) {
            Some(statement) => {
                session
                    .commit(statement, &Cause { action: "preempt", beneficiary: Some(gang.job) });
                session.ledger.forgive(gang.job);
            }
            None => known.note(session, gang.job),
        }
    }
}

/// Less important groups of the same queue.
fn candidates(session: &Session<'_>, gang: &Gang) -> Vec<JobId> {
    let jobs = &session.snapshot.jobs;
    let own = &jobs[gang.job];
    jobs.entries()
        .filter(|(id, job)| {
            *id != gang.job
                && job.preemptible
                && job.priority < own.priority
                && job.queue == own.queue
        })
        .filter(|(id, _)| Gang::whole(*id).active(session.snapshot, &session.state) > 0)
        .map(|(id, _)| id)
        .filter(|id| session.preempt_victim(gang, *id))
        .collect()
}
