//! POST of failed replicas: others in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answer::{Refusal, Replicas};
use super::plan::{self, Act, Field, MOST_GPUS, Recipe, Report, Unit};
use super::request;
use super::view::{self, View};
use super::work::Work;
use crate::api::DIJob;
use crate::make::{Resources, Settings};
use crate::names::{self, env, label};
use crate::operator::Named;
use crate::pod::Pod;
use crate::role::Role;

/// A pod and its job.
type Found = (Arc<Pod>, Arc<DIJob>);

/// Begins with it. Learners are looked up when the collectors are done: what is wrong with them is said then.
pub fn begin(
    view: &impl View,
    settings: &Settings,
    body: &[u8],
    seed: u64,
) -> Result<Work, Refusal> {
    let asked = request::Failed::read(body)?;
    let namespace = asked.namespace.as_str();
    // Who reports need not be known; if it is, it reports of its own job alone.
    let reporter = view::resolve(view, namespace, &asked.coordinator).ok().map(|(_, job)| job);
    for name in asked.collectors.iter().chain(&asked.learners) {
        check(view, namespace, name, reporter.as_deref())?;
    }
    let known = |name: &String| -> Result<Option<Found>, Refusal> {
        match view::resolve(view, namespace, name) {
            Ok(found) => view::unfinished(&found.1).map(|()| Some(found)),
            Err(_) if is_done(view, namespace, name, reporter.as_deref()) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    };
    let mut units = Vec::new();
    let mut first = None;
    for name in &asked.collectors {
        if let Some((pod, job)) = known(name)? {
            first.get_or_insert_with(|| Arc::clone(&job));
            units.push((job, replace(&pod, Field::Collectors)));
        }
    }
    let (mut found, mut stop) = (Vec::new(), None);
    for name in &asked.learners {
        match known(name) {
            Ok(None) => {}
            Ok(Some((pod, job))) => {
                first.get_or_insert_with(|| Arc::clone(&job));
                found.push((pod, job));
            }
            Err(refusal) => {
                stop = Some(refusal);
                break;
            }
        }
    }
    units.extend(learners(view, settings, found));
    if let Some(refusal) = stop {
        // Nothing is looked at after it; whose job it is does not matter.
        let job = first.or_else(|| reporter.clone()).unwrap_or_default();
        units.push((job, Unit::Stop(refusal)));
    }
    let request::Failed { namespace, coordinator, .. } = asked;
    let done = Replicas { namespace, coordinator, ..Replicas::default() };
    Ok(Work::of_jobs(done, "successfully recreate replicas", units, settings, seed))
}

/// Coordinators are not ours to make, and pods of other jobs are none of the reporter's business.
fn check(
    view: &impl View,
    namespace: &str,
    name: &str,
    job: Option<&DIJob>,
) -> Result<(), Refusal> {
    let Some(pod) = view.pod(namespace, name) else { return Ok(()) };
    let Some(owner) = pod.job() else { return Ok(()) };
    if let Some(job) = job.filter(|job| job.uid() != owner.uid) {
        let job = job.full_name();
        return Err(Refusal::not_found(format!(
            "pod: {namespace}/{name} is not owned by DIJob {job}"
        )));
    }
    match pod.role() {
        Some(Role::Coordinator) => {
            Err(Refusal::bad(format!("replica {name} is a coordinator and cannot be recreated")))
        }
        _ => Ok(()),
    }
}

/// Whether it was reported before, and is replaced already.
fn is_done(view: &impl View, namespace: &str, name: &str, job: Option<&DIJob>) -> bool {
    let ours = |job: &DIJob| {
        Role::ALL.iter().any(|role| name.starts_with(&format!("{}-{}-", job.name(), role.word())))
    };
    job.is_some_and(ours)
        && view.pod(namespace, name).is_none()
        && view.was_deleted(namespace, name)
}

fn replace(pod: &Arc<Pod>, field: Field) -> Unit {
    let acts = vec![plan::delete(pod), Act::Create(Recipe::Copy(Arc::clone(pod)))];
    Unit::Steps { acts, report: Report::First(field) }
}

/// One unit for each, in the order given. Those that take others with them are planned first: whoever goes with its
/// group is not replaced once more.
fn learners(
    view: &impl View,
    settings: &Settings,
    found: Vec<Found>,
) -> impl Iterator<Item = (Arc<DIJob>, Unit)> {
    let mut ordered: Vec<(usize, Found)> = found.into_iter().enumerate().collect();
    ordered.sort_by_key(|(_, (pod, _))| match pod.role() {
        Some(Role::Aggregator) => 0,
        Some(Role::DdpLearner) if pod.label(label::DDP) == label::DDP_MASTER => 1,
        _ => 2,
    });
    let (mut replaced, mut units) = (BTreeSet::new(), BTreeMap::new());
    for (place, (pod, job)) in ordered {
        if !replaced.contains(pod.name()) {
            let unit = learner(view, settings, &job, &pod, &mut replaced);
            units.insert(place, (job, unit));
        }
    }
    units.into_values()
}

fn learner(
    view: &impl View,
    settings: &Settings,
    job: &DIJob,
    pod: &Arc<Pod>,
    replaced: &mut BTreeSet<String>,
) -> Unit {
    let steps = match pod.role() {
        Some(Role::Aggregator) => {
            let mut acts = vec![plan::delete(pod), Act::Create(Recipe::Copy(Arc::clone(pod)))];
            rebuilt(view, settings, job, pod.name(), false, replaced).map(|learners| {
                acts.extend(learners);
                acts
            })
        }
        // The others of a group would look for the first under a name that is gone.
        Some(Role::DdpLearner) if pod.label(label::DDP) == label::DDP_MASTER => {
            match pod.aggregator().and_then(|name| view.pod(pod.namespace(), name)) {
                None => return replace(pod, Field::Learners),
                Some(aggregator) => {
                    let named = Named {
                        namespace: aggregator.namespace().to_owned(),
                        name: aggregator.name().to_owned(),
                        uid: aggregator.uid().to_owned(),
                    };
                    rebuilt(view, settings, job, aggregator.name(), true, replaced)
                        .map(|learners| std::iter::once(Act::Join(named)).chain(learners).collect())
                }
            }
        }
        _ => return replace(pod, Field::Learners),
    };
    match steps {
        Ok(acts) => Unit::Steps { acts, report: Report::First(Field::Learners) },
        Err(refusal) => Unit::Stop(refusal),
    }
}

/// The learners of an aggregator go, and as many devices come again: spread over the nodes of today, or the same as
/// before.
fn rebuilt(
    view: &impl View,
    settings: &Settings,
    job: &DIJob,
    aggregator: &str,
    same: bool,
    replaced: &mut BTreeSet<String>,
) -> Result<Vec<Act>, Refusal> {
    let old = view::learners_of(view, job, aggregator);
    let world = old.first().and_then(|pod| {
        Some((pod, pod.world_size().filter(|size| (1..=MOST_GPUS).contains(size))?))
    });
    let Some((first, gpus)) = world else {
        return Err(Refusal::error(format!(
            "aggregator {aggregator} has no ddp learners to recreate"
        )));
    };
    plan::template(job, Role::DdpLearner)?;
    let amount = |name: &str| first.amount(name).unwrap_or(Resources::default().cpus);
    let resources = Resources { cpus: amount("cpu"), memory: amount("memory"), gpus: 0 };
    let device = plan::device(job, Role::DdpLearner, settings);
    let kept = || shares(&old, gpus).or_else(|| as_many(view, first, aggregator, gpus));
    let shares = if same { kept() } else { None };
    let shares = shares.unwrap_or_else(|| plan::shares(gpus, &view.devices(&device)));
    let new = plan::ddp(&shares, &resources);
    // Those on their way out are replaced with it as well.
    let all = view.pods_of(job.namespace(), &job.label());
    let group = all.iter().filter(|pod| pod.aggregator() == Some(aggregator));
    replaced.extend(group.map(|pod| pod.name().to_owned()));
    let gone = old.iter().map(|pod| plan::delete(pod));
    Ok(gone.chain(new.into_iter().map(Act::Create)).collect())
}

/// The devices of each pod as they are now, in the order of their ranks; none if that is not all.
fn shares(pods: &[Arc<Pod>], gpus: u64) -> Option<Vec<u64>> {
    let number = |pod: &Arc<Pod>, name: &str| pod.variable(name)?.parse::<u64>().ok();
    let part = |pod| Some((number(pod, env::START_RANK)?, number(pod, env::LOCAL_WORLD_SIZE)?));
    let mut parts = pods.iter().map(part).collect::<Option<Vec<_>>>()?;
    parts.sort_unstable();
    let shares: Vec<u64> = parts.into_iter().map(|(_, share)| share).collect();
    let sum = shares.iter().fold(0, |sum: u64, share| sum.saturating_add(*share));
    (sum == gpus && !shares.contains(&0)).then_some(shares)
}

/// The devices spread over as many pods as the aggregator has said: one of them is gone, and the others do not tell what
/// it had.
fn as_many(view: &impl View, one: &Pod, aggregator: &str, gpus: u64) -> Option<Vec<u64>> {
    let aggregator = view.pod(one.namespace(), aggregator)?;
    let pods: u64 = aggregator.annotation(names::DDP_PODS)?.parse().ok()?;
    let (each, more) = (gpus.checked_div(pods)?, gpus.checked_rem(pods)?);
    (each > 0).then(|| (0..pods).map(|pod| each + u64::from(pod < more)).collect())
}
