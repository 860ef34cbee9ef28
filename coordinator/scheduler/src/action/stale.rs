//! Evicts groups that have run with too few pods for too long.

use crate::{
    decisions::Cause,
    session::Session,
    snapshot::{JobId, TaskId},
    statement::Statement,
};

pub(super) fn run(session: &mut Session<'_>) {
    for job in session.snapshot.jobs.ids() {
        if !is_stale(session, job) {
            session.state.jobs[job].stale_since = None;
            continue;
        }
        let now = session.snapshot.now;
        // A mark that another clock has written may be of the future: the wait begins now then, not when that comes.
        let since = session.state.jobs[job].stale_since.map_or(now, |since| since.min(now));
        session.state.jobs[job].stale_since = Some(since);
        let spec = &session.snapshot.jobs[job];
        let grace = spec
            .staleness_grace
            .unwrap_or(session.snapshot.parameters.default_staleness_grace_period);
        if grace.is_negative() || now.duration_since(since) < grace {
            continue;
        }
        let active: Vec<TaskId> = spec
            .pod_sets
            .iter()
            .flat_map(|set| session.state.ordered[*set].iter().copied())
            .filter(|task| session.state.tasks[*task].status.is_active())
            .collect();
        let mut statement = Statement::default();
        for task in active {
            session.evict(&mut statement, task);
        }
        session.commit(statement, &Cause { action: "stalegangeviction", beneficiary: None });
    }
}

/// Whether a group has pods, none that ended well, and a leaf with too few.
fn is_stale(session: &Session<'_>, job: JobId) -> bool {
    session.state.jobs[job].succeeded == 0
        && session.used(job) > 0
        && !session.is_gang_satisfied(job)
}
