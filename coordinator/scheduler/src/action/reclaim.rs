//! Takes back for a queue what other queues have above their share.

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
        depth: session.config.queue_depth.get(&ActionName::Reclaim).copied(),
        ..OrderOptions::default()
    };
    let jobs = session.snapshot.jobs.ids().map(Gang::whole);
    let mut order = JobOrder::new(session, jobs, options);
    let mut failed: BTreeMap<Option<QueueId>, Representatives> = BTreeMap::new();
    while let Some(gang) = order.pop(session) {
        let queue = session.snapshot.jobs[gang.job].queue;
        let known = failed.entry(queue).or_default();
        if !session.can_reclaim(&gang)
            || !known.may_succeed(session, gang.job)
            || !super::could_run_alone(session, &gang)
        {
            continue;
        }
        session.job_solution_start();
        let candidates = candidates(session, &gang);
        let solver = Solver { purpose: Purpose::Reclaim, candidates: &candidates };
        match solver.solve(session, gang.job) {
            Some(statement) => {
                session
                    .commit(statement, &Cause { action: "reclaim", beneficiary: Some(gang.job) });
                session.ledger.forgive(gang.job);
            }
            None => known.note(session, gang.job),
        }
    }
}

/// Groups of other queues that may lose pods.
fn candidates(session: &Session<'_>, gang: &Gang) -> Vec<JobId> {
    let jobs = &session.snapshot.jobs;
    let request = session.request(gang);
    // Whether a queue may lose anything is the same for all its groups that are alike: ask only for those with pods.
    jobs.entries()
        .filter(|(_, job)| job.queue != jobs[gang.job].queue && job.preemptible)
        .filter(|(id, _)| Gang::whole(*id).active(session.snapshot, &session.state) > 0)
        .map(|(id, _)| id)
        .filter(|id| session.reclaim_victim(gang, request, *id))
        .collect()
}
