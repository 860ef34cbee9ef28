//! The loop of the actions that evict: group after group, in the order of queues, they look for whom to evict.

use std::collections::BTreeMap;

use crate::{
    config::ActionName,
    decisions::Cause,
    session::{JobOrder, OrderOptions, Session},
    snapshot::{JobId, QueueId},
    state::Gang,
};

use super::{
    could_run_alone,
    representative::Representatives,
    solver::{Purpose, Solver},
};

/// Makes room for each group that waits and `may_try`. `candidates` are the groups that may lose pods for it, or none if nobody's
/// going would help.
pub(super) fn solve_each(
    session: &mut Session<'_>,
    (action, purpose): (ActionName, Purpose),
    may_try: impl Fn(&Session<'_>, &Gang) -> bool,
    mut candidates: impl FnMut(&mut Session<'_>, &Gang) -> Option<Vec<JobId>>,
) {
    let options = OrderOptions {
        ready: true,
        pending: true,
        preemptible: purpose == Purpose::Consolidation,
        past_delay: true,
        depth: session.config.queue_depth.get(&action).copied(),
        ..OrderOptions::default()
    };
    let jobs = session.snapshot.jobs.ids().map(Gang::whole);
    let mut order = JobOrder::new(session, jobs, options);
    let mut failed: BTreeMap<Option<QueueId>, Representatives> = BTreeMap::new();
    while let Some(gang) = order.pop(session) {
        // Where pods move only, a failure says the same to groups of all queues.
        let queue = session.snapshot.jobs[gang.job].queue;
        let alike = failed.entry(queue.filter(|_| purpose != Purpose::Consolidation)).or_default();
        if !may_try(session, &gang)
            || !alike.may_succeed(session, gang.job)
            || !could_run_alone(session, &gang)
        {
            continue;
        }
        let solved = candidates(session, &gang).and_then(|candidates| {
            Solver { purpose, candidates: &candidates }.solve(session, gang.job)
        });
        match solved {
            Some(statement) => {
                let cause = Cause { action: action.name(), beneficiary: Some(gang.job) };
                session.commit(statement, &cause);
                session.ledger.forgive(gang.job);
            }
            None => alike.note(session, gang.job),
        }
    }
}
