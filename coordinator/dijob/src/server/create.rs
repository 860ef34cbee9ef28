//! POST: more replicas.

use std::sync::Arc;

use super::answer::{Refusal, Replicas};
use super::plan::{self, Act, Field, MOST_GPUS, Recipe, Report, Unit};
use super::request::{self, Wanted};
use super::view::{self, View};
use super::work::Work;
use crate::make::{Resources, Settings};
use crate::role::Role;

/// Pods of learners in one request at most.
const MOST_PODS: usize = 10_000;

/// Begins with it. Whatever can be seen to fail, fails before anything is made.
pub fn begin(
    view: &impl View,
    settings: &Settings,
    body: &[u8],
    seed: u64,
) -> Result<Work, Refusal> {
    let asked = request::Replicas::read(body)?;
    let request::Replicas { namespace, coordinator, collectors, learners } = &asked;
    for (wanted, key) in [(collectors, "collectors"), (learners, "learners")] {
        if wanted.replicas > settings.most_replicas {
            let (most, replicas) = (settings.most_replicas, wanted.replicas);
            return Err(Refusal::bad(format!(
                "{key}.replicas is {replicas}: at most {most} in one request"
            )));
        }
    }
    let (_, job) = view::resolve(view, namespace, coordinator)?;
    if collectors.count() > 0 || learners.count() > 0 {
        view::unfinished(&job)?;
    }
    let done = Replicas {
        namespace: namespace.clone(),
        coordinator: coordinator.clone(),
        ..Replicas::default()
    };
    let prepared = || -> Result<Vec<Unit>, Refusal> {
        let mut units = Vec::new();
        if collectors.count() > 0 {
            let resources = read(collectors, "collectors")?;
            plan::template(&job, Role::Collector)?;
            let recipe = Recipe::Plain(Role::Collector, resources);
            units.extend(repeat(collectors, vec![Act::Create(recipe)], Field::Collectors));
        }
        if learners.count() > 0 {
            let resources = read(learners, "learners")?;
            plan::template(&job, Role::Learner)?;
            let acts = if resources.gpus > 1 {
                let template = view::aggregator(view, settings);
                let template = template.map_err(|refusal| refusal.after(done.clone()))?;
                let device = plan::device(&job, Role::Learner, settings);
                let shares = plan::shares(resources.gpus, &view.devices(&device));
                let learners = plan::ddp(&shares, &resources);
                let aggregator = Recipe::Aggregator(template);
                std::iter::once(aggregator).chain(learners).map(Act::Create).collect()
            } else {
                vec![Act::Create(Recipe::Plain(Role::Learner, resources))]
            };
            if learners.count().saturating_mul(acts.len()) > MOST_PODS {
                let (replicas, pods) = (learners.count(), acts.len());
                return Err(Refusal::bad(format!(
                    "learners.replicas is {replicas}, of {pods} pods each: at most {MOST_PODS} pods in one request"
                )));
            }
            units.extend(repeat(learners, acts, Field::Learners));
        }
        Ok(units)
    };
    let units = prepared()?;
    let work =
        Work::new(Arc::clone(&job), done, "successfully create replicas", units, settings, seed);
    let (there, more, most) = (view::replicas(view, &job).len(), work.size(), settings.most_pods);
    if more > 0 && there.saturating_add(more) > most {
        return Err(Refusal::bad(format!(
            "DIJob {} has {there} pods, and {more} more are asked for: at most {most} of one job",
            job.full_name()
        )));
    }
    Ok(work)
}

fn repeat(wanted: &Wanted, acts: Vec<Act>, field: Field) -> impl Iterator<Item = Unit> {
    let unit = move |_| Unit::Steps { acts: acts.clone(), report: Report::First(field) };
    (0..wanted.count()).map(unit)
}

fn read(wanted: &Wanted, key: &str) -> Result<Resources, Refusal> {
    let Wanted { cpus, gpus, memory, .. } = *wanted;
    for (name, amount) in [("cpus", cpus), ("gpus", gpus), ("memory", memory)] {
        if amount.is_negative() {
            return Err(Refusal::bad(format!("{key}.{name} must not be negative: {amount}")));
        }
    }
    let Some(count) = gpus.exact_units() else {
        return Err(Refusal::bad(format!("gpus must be a whole number: {gpus}")));
    };
    let gpus = u64::try_from(count).unwrap_or_default();
    if gpus > MOST_GPUS {
        return Err(Refusal::bad(format!("{key}.gpus is {gpus}: at most {MOST_GPUS}")));
    }
    Ok(Resources { cpus, memory, gpus })
}
