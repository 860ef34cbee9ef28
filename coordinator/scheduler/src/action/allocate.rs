//! Places what fits, group by group, in the order of queues.

use crate::{
    config::ActionName,
    decisions::Cause,
    framework::NodeSet,
    session::{JobOrder, OrderOptions, Session},
    snapshot::{JobId, Snapshot},
    state::{Gang, State},
    statement::Statement,
};

pub(super) fn run(session: &mut Session<'_>) {
    let options = OrderOptions {
        ready: true,
        pending: true,
        depth: session.config.queue_depth.get(&ActionName::Allocate).copied(),
        ..OrderOptions::default()
    };
    let jobs = session.snapshot.jobs.ids().map(Gang::whole);
    let mut order = JobOrder::new(session, jobs, options);
    while let Some(gang) = order.pop(session) {
        let mut statement = Statement::default();
        let had = has_allocated(session.snapshot, &session.state, gang.job);
        if !session.allocate_gang(&mut statement, &NodeSet::All, &gang, false) {
            session.discard(&mut statement);
            continue;
        }
        let promised = must_wait(session.snapshot, &session.state, gang.job);
        if promised {
            session.only_promise(&mut statement, gang.job);
        }
        session.commit(statement, &Cause { action: "allocate", beneficiary: Some(gang.job) });
        session.ledger.forgive(gang.job);
        if !promised && !had {
            session.state.jobs[gang.job].last_start = Some(session.snapshot.now);
        }
        if session.state.jobs[gang.job].pending > 0 {
            order.push(session, gang);
        }
    }
}

fn has_allocated(snapshot: &Snapshot, state: &State, job: JobId) -> bool {
    let sets = &snapshot.jobs[job].pod_sets;
    sets.iter().any(|set| state.pod_sets[*set].active > state.pod_sets[*set].pipelined)
}

/// Whether a leaf has pods that wait for others to leave, and without them too few.
fn must_wait(snapshot: &Snapshot, state: &State, job: JobId) -> bool {
    snapshot.jobs[job].pod_sets.iter().any(|set| {
        let count = state.pod_sets[*set];
        count.pipelined > 0 && count.active - count.pipelined < snapshot.pod_sets[*set].min as usize
    })
}
