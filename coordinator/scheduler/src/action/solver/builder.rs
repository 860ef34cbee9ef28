//! Victims, one batch after the other, the least deserving first; with filters that say whether those so far can be
//! enough at all.

use std::collections::BTreeSet;

use crate::{
    session::{JobOrder, OrderOptions, Session},
    snapshot::TaskId,
    state::Gang,
};

use super::{Batch, Probe, Purpose, Solver, filter::Filters};

/// Victims that have been gathered.
pub(super) struct Builder {
    order: JobOrder,
    recorded: BTreeSet<TaskId>,
    /// Batches in the order in which they were gathered.
    pub(super) potential: Vec<Batch>,
    filters: Filters,
}

// === impl Builder ===

impl Builder {
    pub(super) fn new(session: &mut Session<'_>, solver: &Solver<'_>, probe: &Probe<'_>) -> Self {
        let strict = solver.purpose != Purpose::Consolidation;
        let options = OrderOptions {
            preemptible: strict,
            active: strict,
            victims: true,
            ..OrderOptions::default()
        };
        let order =
            JobOrder::new(session, solver.candidates.iter().map(|job| Gang::whole(*job)), options);
        let mut filters = Filters::new(session, probe);
        for batch in &probe.recorded {
            filters.add(session, batch);
        }
        let recorded =
            probe.recorded.iter().flat_map(|batch| batch.tasks.iter().copied()).collect();
        Self { order, recorded, potential: Vec::new(), filters }
    }

    /// Whether what has been gathered can be enough.
    pub(super) fn is_valid(&mut self, session: &Session<'_>) -> bool {
        self.filters.pass(session)
    }

    /// Gathers until it can be enough; says whether it can.
    pub(super) fn advance(&mut self, session: &mut Session<'_>) -> bool {
        while let Some(gang) = self.order.pop(session) {
            if self.gather(session, gang) && self.is_valid(session) {
                return true;
            }
        }
        false
    }

    fn gather(&mut self, session: &Session<'_>, gang: Gang) -> bool {
        let (tasks, more) = session.to_evict(&gang);
        let rest = |without: &dyn Fn(TaskId) -> bool| {
            let mine: BTreeSet<TaskId> = gang.all_tasks(session.snapshot, &session.state).collect();
            let keep = |task: TaskId| mine.contains(&task) && !without(task);
            let any = mine.iter().any(|task| keep(*task));
            any.then(|| Gang::of(session.snapshot, gang.job, keep, &session.state))
        };
        if tasks.iter().any(|task| self.recorded.contains(task)) {
            if let Some(gang) = rest(&|task| self.recorded.contains(&task)) {
                self.order.push(session, gang);
            }
            return false;
        }
        if more && let Some(gang) = rest(&|task| tasks.contains(&task)) {
            self.order.push(session, gang);
        }
        if !tasks.is_empty() {
            let batch = Batch { job: gang.job, tasks };
            self.filters.add(session, &batch);
            self.potential.push(batch);
        }
        true
    }
}
