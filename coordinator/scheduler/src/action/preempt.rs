//! Takes for a group what less important groups of its queue have.

use crate::{config::ActionName, session::Session, snapshot::JobId, state::Gang};

use super::{solve_each::solve_each, solver::Purpose};

pub(super) fn run(session: &mut Session<'_>) {
    let action = (ActionName::Preempt, Purpose::Preempt);
    solve_each(
        session,
        action,
        |_, _| true,
        |session, gang| {
            let tasks = session.to_allocate(gang, false);
            if let Err(refusal) = session.non_preemptible_over_quota(gang, &tasks) {
                session.ledger.refuse(gang.job, refusal);
                return None;
            }
            Some(candidates(session, gang))
        },
    );
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
