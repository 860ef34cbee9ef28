//! Takes back for a queue what other queues have above their share.

use crate::{config::ActionName, session::Session, snapshot::JobId, state::Gang};

use super::{solve_each::solve_each, solver::Purpose};

pub(super) fn run(session: &mut Session<'_>) {
    let action = (ActionName::Reclaim, Purpose::Reclaim);
    solve_each(
        session,
        action,
        |session, gang| session.can_reclaim(gang),
        |session, gang| {
            session.job_solution_start();
            Some(candidates(session, gang))
        },
    );
}

/// Groups of other queues that may lose pods.
fn candidates(session: &Session<'_>, gang: &Gang) -> Vec<JobId> {
    let jobs = &session.snapshot.jobs;
    let others = jobs
        .entries()
        .filter(|(_, job)| job.queue != jobs[gang.job].queue && job.preemptible)
        .filter(|(id, _)| Gang::whole(*id).active(session.snapshot, &session.state) > 0)
        .map(|(id, _)| id);
    session.reclaim_victims(gang, others)
}
