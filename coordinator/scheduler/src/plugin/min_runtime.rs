//! `minruntime`: nobody loses its place before it has run for a while.
//!
//! Surplus pods of elastic groups may go any time; what a group needs is kept for that long.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use muster_kube::duration;

use crate::{
    framework::{Plugin, Point, Scenario, View},
    snapshot::{JobId, Quantities, QueueId},
    state::Gang,
};

/// Nobody is evicted before it has run for a while.
pub struct MinRuntime {
    reclaim: SignedDuration,
    preempt: SignedDuration,
    by_queue: bool,
}

// === impl MinRuntime ===

impl MinRuntime {
    /// With `defaultReclaimMinRuntime`, `defaultPreemptMinRuntime` and `reclaimResolveMethod`.
    pub fn new(arguments: &BTreeMap<String, String>) -> Self {
        let read = |name: &str| {
            let text = arguments.get(name).map(String::as_str).unwrap_or("0s");
            duration::parse_long(text).unwrap_or_default().max(SignedDuration::ZERO)
        };
        Self {
            reclaim: read("defaultReclaimMinRuntime"),
            preempt: read("defaultPreemptMinRuntime"),
            by_queue: arguments.get("reclaimResolveMethod").is_some_and(|method| method == "queue"),
        }
    }

    fn is_protected(&self, view: View<'_>, victim: JobId, runtime: SignedDuration) -> bool {
        let Some(start) = view.state.jobs[victim].last_start else { return false };
        start.checked_add(runtime).is_ok_and(|until| view.snapshot.now < until)
    }

    fn preempt_runtime(&self, view: View<'_>, victim: JobId) -> SignedDuration {
        let queue = view.snapshot.jobs[victim].queue;
        upwards(view, queue, |queue| view.snapshot.queues[queue].preempt_min_runtime)
            .unwrap_or(self.preempt)
    }

    fn reclaim_runtime(&self, view: View<'_>, pending: JobId, victim: JobId) -> SignedDuration {
        let jobs = &view.snapshot.jobs;
        let own = |queue: QueueId| view.snapshot.queues[queue].reclaim_min_runtime;
        if self.by_queue {
            return upwards(view, jobs[victim].queue, own).unwrap_or(self.reclaim);
        }
        let (mine, theirs) = (path(view, jobs[pending].queue), path(view, jobs[victim].queue));
        let shared = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        if shared == 0 {
            return theirs.first().and_then(|top| own(*top)).unwrap_or(self.reclaim);
        }
        let from = theirs.get(shared).or(theirs.last()).copied();
        upwards(view, from, own).unwrap_or(self.reclaim)
    }

    fn keeps_minimum(
        view: View<'_>,
        scenario: &Scenario<'_>,
        protected: impl Fn(JobId) -> bool,
    ) -> bool {
        scenario
            .victims
            .iter()
            .filter(|victim| is_elastic(view, victim.job) && protected(victim.job))
            .all(|victim| {
                view.snapshot.jobs[victim.job].pod_sets.iter().all(|set| {
                    let lost = victim
                        .tasks
                        .iter()
                        .filter(|task| view.snapshot.tasks[**task].pod_set == Some(*set))
                        .count();
                    let min = view.snapshot.pod_sets[*set].min as usize;
                    lost == 0 || view.state.pod_sets[*set].used >= min + lost
                })
            })
    }
}

impl Plugin for MinRuntime {
    fn name(&self) -> &'static str {
        "minruntime"
    }

    fn points(&self) -> &'static [Point] {
        &[
            Point::ReclaimVictimFilter,
            Point::PreemptVictimFilter,
            Point::ReclaimScenarioValidator,
            Point::PreemptScenarioValidator,
        ]
    }

    fn reclaim_victim(&self, view: View<'_>, pending: &Gang, _: Quantities, victim: JobId) -> bool {
        is_elastic(view, victim)
            || !self.is_protected(view, victim, self.reclaim_runtime(view, pending.job, victim))
    }

    fn preempt_victim(&self, view: View<'_>, _: &Gang, victim: JobId) -> bool {
        is_elastic(view, victim)
            || !self.is_protected(view, victim, self.preempt_runtime(view, victim))
    }

    fn reclaim_scenario(&self, view: View<'_>, scenario: &Scenario<'_>) -> bool {
        Self::keeps_minimum(view, scenario, |victim| {
            self.is_protected(
                view,
                victim,
                self.reclaim_runtime(view, scenario.preemptor.job, victim),
            )
        })
    }

    fn preempt_scenario(&self, view: View<'_>, scenario: &Scenario<'_>) -> bool {
        Self::keeps_minimum(view, scenario, |victim| {
            self.is_protected(view, victim, self.preempt_runtime(view, victim))
        })
    }
}

fn is_elastic(view: View<'_>, job: JobId) -> bool {
    let sets = &view.snapshot.jobs[job].pod_sets;
    sets.iter()
        .any(|set| (view.snapshot.pod_sets[*set].min as usize) < view.state.pod_sets[*set].all)
}

/// The first value from a queue upwards.
fn upwards<T>(
    view: View<'_>,
    from: Option<QueueId>,
    own: impl Fn(QueueId) -> Option<T>,
) -> Option<T> {
    let mut at = from;
    while let Some(queue) = at {
        if let Some(value) = own(queue) {
            return Some(value);
        }
        at = view.snapshot.queues[queue].parent;
    }
    None
}

/// Queues from the top down to one.
fn path(view: View<'_>, queue: Option<QueueId>) -> Vec<QueueId> {
    let mut path = Vec::new();
    let mut at = queue;
    while let Some(queue) = at {
        path.push(queue);
        at = view.snapshot.queues[queue].parent;
    }
    path.reverse();
    path
}
