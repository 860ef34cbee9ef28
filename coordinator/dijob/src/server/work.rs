//! A request that writes: one write after another, each decided when the one before is known.

use std::collections::VecDeque;
use std::sync::Arc;

use super::answer::{Answer, Refusal, Replicas};
use super::plan::{Act, Field, Recipe, Report, Unit, device};
use crate::api::DIJob;
use crate::make::{self, Settings};
use crate::names;
use crate::operator::Named;
use crate::pod::Pod;
use crate::role::Role;
use crate::suffix::Suffixes;
use crate::{copy, ranks};

/// Names that are tried before giving up.
const TRIES: u32 = 5;

/// A request that writes.
#[derive(Debug)]
pub struct Work {
    units: VecDeque<(Arc<DIJob>, Unit)>,
    done: Replicas,
    message: &'static str,
    settings: Settings,
    suffixes: Suffixes,
    request: Option<String>,
    now: Option<Current>,
    undo: VecDeque<(Named, Role)>,
    refused: Option<Refusal>,
}

/// The replica that is being made.
#[derive(Debug)]
struct Current {
    job: Arc<DIJob>,
    acts: VecDeque<Act>,
    report: Report,
    /// Made for it so far.
    made: Vec<(Named, Role)>,
    first: Option<String>,
    aggregator: Option<Named>,
    master: Option<String>,
    /// What is being written.
    pod: Option<Box<Pod>>,
    tries: u32,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// This is to be written, and [`Work::done`] told how it went.
    Write(Write),
    /// That was all.
    Done(Answer),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A pod is made.
    Create(Box<Pod>),
    /// A pod is deleted, at once.
    Delete(Named, Role),
}

/// How a write went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made, with this uid.
    Created(String),
    /// It is gone.
    Deleted,
    /// Something of this name is there.
    Exists,
    /// It cannot be done.
    Refused(String),
}

// === impl Work ===

impl Work {
    pub(super) fn new(
        job: Arc<DIJob>,
        done: Replicas,
        message: &'static str,
        units: Vec<Unit>,
        settings: &Settings,
        seed: u64,
    ) -> Self {
        let units = units.into_iter().map(|unit| (Arc::clone(&job), unit)).collect();
        Self::of_jobs(done, message, units, settings, seed)
    }

    pub(super) fn of_jobs(
        done: Replicas,
        message: &'static str,
        units: Vec<(Arc<DIJob>, Unit)>,
        settings: &Settings,
        seed: u64,
    ) -> Self {
        let (collectors, learners) = (Some(Vec::new()), Some(Vec::new()));
        Self {
            units: units.into(),
            done: Replicas { collectors, learners, ..done },
            message,
            settings: settings.clone(),
            suffixes: Suffixes::new(seed),
            request: None,
            now: None,
            undo: VecDeque::new(),
            refused: None,
        }
    }

    /// Marks what is made with the name of the request, so that what is left of it can be found.
    #[must_use]
    pub fn marked(mut self, request: &str) -> Self {
        self.request = Some(request.to_owned());
        self
    }

    /// Begins with no further replica. The one that is being made or replaced is finished: half of it would be worse.
    pub fn give_up(&mut self) {
        self.units.clear();
    }

    /// How many pods are going to be made or deleted at most.
    pub fn size(&self) -> usize {
        let steps = |unit: &Unit| match unit {
            Unit::Steps { acts, .. } => acts.len(),
            Unit::Stop(_) => 0,
        };
        self.units.iter().map(|(_, unit)| steps(unit)).sum()
    }

    /// What comes next.
    pub fn advance(&mut self) -> Next {
        loop {
            if let Some((named, role)) = self.undo.front() {
                return Next::Write(Write::Delete(named.clone(), *role));
            }
            if let Some(refused) = self.refused.take() {
                return Next::Done(refused.after(self.done.clone()).answer());
            }
            if let Some(now) = &mut self.now {
                match now.acts.front() {
                    Some(Act::Delete(named, role)) => {
                        return Next::Write(Write::Delete(named.clone(), *role));
                    }
                    Some(Act::Join(aggregator)) => {
                        now.aggregator = Some(aggregator.clone());
                        now.acts.pop_front();
                        continue;
                    }
                    Some(Act::Create(recipe)) => {
                        let pod = now.pod(recipe, &self.settings, &mut self.suffixes);
                        match pod {
                            Ok(mut pod) => {
                                mark(&mut pod, &now.acts, self.request.as_deref());
                                now.pod = Some(Box::new(pod.clone()));
                                return Next::Write(Write::Create(Box::new(pod)));
                            }
                            Err(refusal) => {
                                self.refused = Some(refusal);
                                self.roll_back();
                            }
                        }
                        continue;
                    }
                    None => self.finish(),
                }
            }
            match self.units.pop_front() {
                None => {
                    let data = serde_json::to_value(&self.done).unwrap_or_default();
                    return Next::Done(Answer::success(self.message, data));
                }
                Some((_, Unit::Stop(refusal))) => self.refused = Some(refusal),
                Some((job, Unit::Steps { acts, report })) => {
                    self.now = Some(Current::new(job, acts, report));
                }
            }
        }
    }

    /// How the last write went.
    pub fn done(&mut self, outcome: Outcome) {
        if let Some((_, _)) = self.undo.pop_front() {
            // Whatever could not be undone is found by the operator.
            return;
        }
        let Some(now) = &mut self.now else { return };
        match outcome {
            Outcome::Deleted => drop(now.acts.pop_front()),
            Outcome::Created(uid) => now.created(uid),
            Outcome::Exists if now.tries < TRIES => now.tries += 1,
            Outcome::Exists => {
                let name = now.pod.as_ref().map(|pod| pod.name().to_owned()).unwrap_or_default();
                self.refused = Some(Refusal::error(format!("pods \"{name}\" already exists")));
                self.roll_back();
            }
            Outcome::Refused(why) => {
                self.refused = Some(Refusal::error(why));
                self.roll_back();
            }
        }
    }

    /// A replica is there: its address is told.
    fn finish(&mut self) {
        let Some(now) = self.now.take() else { return };
        let (field, url) = match now.report {
            Report::Url(field, url) => (field, Some(url)),
            Report::First(field) => (field, now.first),
        };
        let list = match field {
            Field::Collectors => &mut self.done.collectors,
            Field::Learners => &mut self.done.learners,
        };
        list.get_or_insert_default().extend(url);
    }

    /// Half a replica is none.
    fn roll_back(&mut self) {
        if let Some(now) = self.now.take() {
            self.undo = now.made.into();
        }
        self.units.clear();
    }
}

// === impl Current ===

impl Current {
    fn new(job: Arc<DIJob>, acts: Vec<Act>, report: Report) -> Self {
        Self {
            job,
            acts: acts.into(),
            report,
            made: Vec::new(),
            first: None,
            aggregator: None,
            master: None,
            pod: None,
            tries: 0,
        }
    }

    fn pod(
        &self,
        recipe: &Recipe,
        settings: &Settings,
        suffixes: &mut Suffixes,
    ) -> Result<Pod, Refusal> {
        let (job, role) = (&*self.job, recipe.role());
        let suffix = suffixes.take();
        let name = format!("{}-{}-{suffix}", job.name(), role.word());
        let template = || super::plan::template(job, role);
        Ok(match recipe {
            Recipe::Copy(old) => copy::of(old, &copy::name(old.name(), &suffix)),
            Recipe::Aggregator(template) => make::pod(job, role, template, &name, settings),
            Recipe::Plain(_, resources) => {
                let mut pod = make::pod(job, role, template()?, &name, settings);
                make::give(&mut pod, resources, &device(job, role, settings));
                pod
            }
            Recipe::Ddp(part, resources) => {
                let mut pod = make::pod(job, role, template()?, &name, settings);
                make::give(&mut pod, resources, &device(job, role, settings));
                let aggregator = self.aggregator.as_ref();
                let owner = aggregator.map_or(("", ""), |one| (&one.name, &one.uid));
                make::ddp(&mut pod, part, self.master.as_deref(), owner, settings);
                ranks::mark(job, owner.0, part, &mut pod);
                pod
            }
        })
    }

    fn created(&mut self, uid: String) {
        let Some(pod) = self.pod.take() else { return };
        let (namespace, name) = (pod.namespace().to_owned(), pod.name().to_owned());
        let named = Named { namespace, name, uid };
        match pod.role() {
            Some(Role::Aggregator) => self.aggregator = Some(named.clone()),
            Some(Role::DdpLearner) if self.master.is_none() => {
                self.master = Some(named.name.clone())
            }
            _ => {}
        }
        self.first.get_or_insert_with(|| pod.url());
        self.made.push((named, pod.role().unwrap_or(Role::Collector)));
        self.tries = 0;
        self.acts.pop_front();
    }
}

/// What tells whose request a pod is of, and whether its logic learner is whole.
fn mark(pod: &mut Pod, acts: &VecDeque<Act>, request: Option<&str>) {
    let Some(request) = request else { return };
    let is_aggregator = pod.role() == Some(Role::Aggregator);
    let annotations = pod.annotations_mut();
    annotations.insert(names::REQUEST.to_owned(), request.to_owned());
    if is_aggregator {
        let learners = acts.iter().filter(|act| matches!(act, Act::Create(Recipe::Ddp(..))));
        annotations.insert(names::DDP_PODS.to_owned(), learners.count().to_string());
    }
}
