//! Groups that failed, so that those that are no easier are not tried.

use std::collections::BTreeMap;

use crate::{
    session::Session,
    snapshot::{JobId, Status, Vector, less_equal},
};

/// The easiest group that failed, for each signature.
#[derive(Default)]
pub(super) struct Representatives {
    failed: BTreeMap<u32, JobId>,
}

// === impl Representatives ===

impl Representatives {
    /// Whether a group may succeed where others like it failed.
    pub(super) fn may_succeed(&self, session: &Session<'_>, job: JobId) -> bool {
        if !session.snapshot.parameters.use_scheduling_signatures {
            return true;
        }
        match self.failed.get(&session.snapshot.jobs[job].signature) {
            None => true,
            Some(other) => is_easier(session, job, *other),
        }
    }

    /// Notes that a group failed.
    pub(super) fn note(&mut self, session: &Session<'_>, job: JobId) {
        let signature = session.snapshot.jobs[job].signature;
        if let Some(known) = self.failed.get(&signature)
            && !is_smaller(session, job, *known)
        {
            return;
        }
        self.failed.insert(signature, job);
    }
}

fn requests(session: &Session<'_>, job: JobId) -> Vec<Vector> {
    let mut requests: Vec<Vector> = session.snapshot.jobs[job]
        .pod_sets
        .iter()
        .flat_map(|set| session.state.ordered[*set].iter())
        .filter(|task| session.state.tasks[**task].status == Status::Pending)
        .map(|task| session.snapshot.classes[session.snapshot.tasks[*task].class].request.clone())
        .collect();
    // Smaller first where that can be said, else by dimension: any order does that keeps the first.
    requests.sort_by(|a, b| {
        a.iter()
            .zip(b.iter())
            .map(|(x, y)| x.total_cmp(y))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    requests
}

/// Whether some pod of the one asks for less than its counterpart of the other.
fn is_easier(session: &Session<'_>, one: JobId, other: JobId) -> bool {
    let (one, other) = (requests(session, one), requests(session, other));
    if one.is_empty() || other.is_empty() {
        return false;
    }
    if other.len() > one.len() {
        return true;
    }
    for (at, mine) in one.iter().enumerate() {
        let Some(theirs) = other.get(at) else { return false };
        if less_equal(mine, theirs) && !less_equal(theirs, mine) {
            return true;
        }
    }
    false
}

/// Whether each pod of the one asks for no more than its counterpart of the other.
fn is_smaller(session: &Session<'_>, one: JobId, other: JobId) -> bool {
    let (one, other) = (requests(session, one), requests(session, other));
    !one.is_empty()
        && !other.is_empty()
        && one.len() <= other.len()
        && one.iter().zip(&other).all(|(mine, theirs)| less_equal(mine, theirs))
}
