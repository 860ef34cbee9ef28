//! DELETE: fewer replicas.

use std::cmp::Reverse;
use std::sync::Arc;

use super::answer::{Refusal, Replicas};
use super::plan::{self, Field, Report, Unit};
use super::request;
use super::view::{self, View};
use super::work::Work;
use crate::make::Settings;
use crate::pod::Pod;
use crate::role::Role;

/// Begins with it.
pub fn begin(
    view: &impl View,
    settings: &Settings,
    body: &[u8],
    seed: u64,
) -> Result<Work, Refusal> {
    let asked = request::Replicas::read(body)?;
    let (_, job) = view::resolve(view, &asked.namespace, &asked.coordinator)?;
    let pods = view::replicas(view, &job);
    let chosen = |role: Role, count: usize| {
        let mut pods: Vec<_> =
            pods.iter().filter(|pod| pod.role() == Some(role)).cloned().collect();
        pods.sort_by(|one, other| order(one).cmp(&order(other)));
        pods.truncate(count);
        pods
    };
    let mut units = Vec::new();
    for pod in chosen(Role::Collector, asked.collectors.count()) {
        units.push(unit(&pod, Field::Collectors, &[]));
    }
    let learners = chosen(Role::Learner, asked.learners.count());
    if learners.is_empty() {
        for pod in chosen(Role::Aggregator, asked.learners.count()) {
            let learners = view::learners_of(view, &job, pod.name());
            units.push(unit(&pod, Field::Learners, &learners));
        }
    }
    units.extend(learners.iter().map(|pod| unit(pod, Field::Learners, &[])));
    let request::Replicas { namespace, coordinator, .. } = asked;
    let done = Replicas { namespace, coordinator, ..Replicas::default() };
    Ok(Work::new(job, done, "successfully delete replicas", units, settings, seed))
}

fn unit(pod: &Pod, field: Field, with: &[Arc<Pod>]) -> Unit {
    let acts = std::iter::once(plan::delete(pod)).chain(with.iter().map(|pod| plan::delete(pod)));
    Unit::Steps { acts: acts.collect(), report: Report::Url(field, pod.url()) }
}

/// Those that do the least go first: not ready, not running, the youngest.
fn order(pod: &Pod) -> (bool, bool, Reverse<Option<jiff::Timestamp>>, &str) {
    let age = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (pod.is_ready(), pod.phase() == "Running", Reverse(age), pod.name())
}
