//! Logic learners of which only a part is left: their aggregator is gone, or they were never finished because the
//! coordinator died while it made them. Nobody can use them, and they hold devices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Step, named_pod};
use crate::api::DIJob;
use crate::names;
use crate::pod::Pod;
use crate::role::Role;

/// What is left over, and since when we know. One for each job.
#[derive(Clone, Debug)]
pub struct Remnants {
    patience: Duration,
    since: BTreeMap<String, Timestamp>,
    /// Uids of aggregators that had all their learners once: what they lose later is for their job to report.
    whole: BTreeSet<String>,
}

// === impl Remnants ===

impl Default for Remnants {
    fn default() -> Self {
        Self::new(Duration::from_secs(60))
    }
}

impl Remnants {
    /// What is left over for so long, goes.
    pub fn new(patience: Duration) -> Self {
        Self { patience, since: BTreeMap::new(), whole: BTreeSet::new() }
    }

    /// What goes now, and how long it takes until something else may.
    pub fn look(
        &mut self,
        job: &DIJob,
        pods: &[&Pod],
        now: Timestamp,
    ) -> (Vec<Step>, Option<Duration>) {
        let ours = |pod: &&&Pod| pod.job().is_some_and(|owner| owner.uid == job.uid());
        let pods: Vec<&Pod> = pods.iter().filter(ours).copied().collect();
        let aggregators = || pods.iter().filter(|pod| pod.role() == Some(Role::Aggregator));
        self.whole.retain(|uid| aggregators().any(|pod| pod.uid() == uid));
        let now_whole = aggregators().filter(|pod| lacks(pod, &pods) == Some(false));
        self.whole.extend(now_whole.map(|pod| pod.uid().to_owned()));
        let left: Vec<&Pod> = pods
            .iter()
            .filter(|pod| !pod.is_terminating() && is_left(pod, &pods, &self.whole))
            .copied()
            .collect();
        self.since.retain(|name, _| left.iter().any(|pod| pod.name() == name));
        let (mut steps, mut due) = (Vec::new(), None::<Duration>);
        for pod in left {
            let since = *self.since.entry(pod.name().to_owned()).or_insert(now);
            let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            match self.patience.checked_sub(waited).filter(|rest| !rest.is_zero()) {
                Some(rest) => due = Some(due.map_or(rest, |due| due.min(rest))),
                None => steps.push(Step::DeletePod(named_pod(pod))),
            }
        }
        (steps, due)
    }
}

/// Whether it belongs to a logic learner that never was whole, or has no aggregator any more.
fn is_left(pod: &Pod, pods: &[&Pod], whole: &BTreeSet<String>) -> bool {
    let aggregator = match pod.role() {
        Some(Role::Aggregator) => pod,
        Some(Role::DdpLearner) => {
            let Some(name) = pod.aggregator() else { return false };
            let Some(found) = pods.iter().find(|one| one.name() == name) else { return true };
            found
        }
        _ => return false,
    };
    !whole.contains(aggregator.uid()) && lacks(aggregator, pods) == Some(true)
}

/// Whether an aggregator has fewer learners than it says. Only those that say how many they are can be too few.
fn lacks(aggregator: &Pod, pods: &[&Pod]) -> Option<bool> {
    let wanted = aggregator.annotation(names::DDP_PODS).and_then(|count| count.parse().ok());
    let learners = pods.iter().filter(|one| {
        one.role() == Some(Role::DdpLearner) && one.aggregator() == Some(aggregator.name())
    });
    wanted.map(|wanted: usize| learners.count() < wanted)
}
