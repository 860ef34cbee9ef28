//! One look at a job: what is to be made, deleted, said and written.
//!
//! ```text
//!   no phase ──▶ Created ──▶ Running ──▶ Succeeded or Failed ──▶ clean up, once and for all
//! ```
//!
//! Only the coordinator pod moves the phase. What has ended stays ended, whoever looks at it and how often.

mod count;
mod finish;
mod phase;
mod remnants;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::{DIJob, Status, phase as phases};
use crate::make::{self, Settings};
use crate::names::reason;
use crate::pod::Pod;
use crate::role::Role;
use crate::service;

pub use phase::unreadable;
pub use remnants::Remnants;

/// How often a job that runs is looked at, whatever happens.
const AGAIN: Duration = Duration::from_secs(600);

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make a pod.
    CreatePod(Box<Pod>),
    /// Make a service.
    CreateService(Value),
    /// Delete a pod, at once.
    DeletePod(Named),
    /// Delete a service.
    DeleteService(Named),
}

/// A thing that is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The object's `metadata.uid`.
    pub uid: String,
}

/// Something to say about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

/// A service, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceSeen {
    /// Name of the object.
    pub name: String,
    /// The object's `metadata.uid`.
    pub uid: String,
    /// The uid of the job that owns it.
    pub job: String,
    /// On its way out.
    pub terminating: bool,
}

/// What comes of one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// What to do, in this order. After one that fails the rest waits for the next look.
    pub steps: Vec<Step>,
    /// What to say when the status is written.
    pub events: Vec<Event>,
    /// The status as it is to be written.
    pub status: Status,
    /// Whether that is another one than before.
    pub changed: bool,
    /// Why the look could not go on.
    pub trouble: Option<String>,
    /// When to look again, though nothing happens.
    pub again: Option<Duration>,
}

/// A job is seen: nothing, unless nobody has seen it before.
pub fn first_seen(job: &DIJob, now: Timestamp) -> Option<Pass> {
    if !job.phase().is_empty() {
        return None;
    }
    let mut status = job.status.clone().unwrap_or_default();
    let event = phase::enter(&mut status, job.name(), phases::CREATED, now);
    let events = event.into_iter().collect();
    Some(Pass { status, events, changed: true, ..Pass::default() })
}

/// Looks at a job, all pods and services that carry its name in its namespace, and what was left over before.
pub fn reconcile(
    job: &DIJob,
    pods: &[&Pod],
    services: &[ServiceSeen],
    remnants: &mut Remnants,
    settings: &Settings,
    now: Timestamp,
) -> Pass {
    let mut pass = first_seen(job, now).unwrap_or_else(|| Pass {
        status: job.status.clone().unwrap_or_default(),
        ..Pass::default()
    });
    if phases::is_final(job.phase()) {
        finish::finish(job, pods, services, &mut pass);
    } else {
        let before = pass.status.clone();
        pass.status.replica_status = Some(count::zero());
        sync_services(job, pods, services, &mut pass);
        coordinator(job, pods, settings, now, &mut pass);
        if pass.trouble.is_some() {
            pass.status = before;
        }
        let (steps, due) = remnants.look(job, pods, now);
        pass.steps.extend(steps);
        pass.again = Some(due.unwrap_or(AGAIN).min(AGAIN));
    }
    pass.changed = job.status.as_ref() != Some(&pass.status);
    pass
}

/// Each pod has a service of its name; what has no pod goes.
fn sync_services(job: &DIJob, pods: &[&Pod], services: &[ServiceSeen], pass: &mut Pass) {
    let ours = |pod: &&&Pod| pod.job().is_some_and(|owner| owner.uid == job.uid());
    for pod in pods.iter().filter(ours).filter(|pod| !pod.name().is_empty()) {
        if !services.iter().any(|service| service.name == pod.name()) {
            pass.steps.push(Step::CreateService(service::of(pod)));
        }
    }
    for service in services.iter().filter(|service| service.job == job.uid()) {
        if !service.terminating && !pods.iter().any(|pod| pod.name() == service.name) {
            pass.steps.push(Step::DeleteService(named(job, &service.name, &service.uid)));
        }
    }
}

fn coordinator(job: &DIJob, pods: &[&Pod], settings: &Settings, now: Timestamp, pass: &mut Pass) {
    let coordinators = || pods.iter().filter(|pod| pod.role() == Some(Role::Coordinator));
    match coordinators().count() {
        0 => {
            let Some(template) = make::template(job, Role::Coordinator) else {
                pass.trouble = Some(format!(
                    "DIJob {} has no containers in spec.coordinator.template: add one",
                    job.full_name()
                ));
                return;
            };
            let name = format!("{}-{}", job.name(), Role::Coordinator.word());
            let pod = make::pod(job, Role::Coordinator, template, &name, settings);
            let service = service::of(&pod);
            pass.steps.push(Step::CreatePod(Box::new(pod)));
            pass.steps.push(Step::CreateService(service));
        }
        1 => {
            let ours = |pod: &&&Pod| pod.job().is_some_and(|owner| owner.uid == job.uid());
            let counts = count::count(pods.iter().filter(ours).copied());
            let of_coordinator = counts.get("Coordinator").copied().unwrap_or_default();
            pass.status.replica_status = Some(counts);
            if let Some(next) = phase::next(of_coordinator) {
                pass.events.extend(phase::enter(&mut pass.status, job.name(), next, now));
            }
        }
        _ => pass.trouble = Some("there must be only one coordinator".to_owned()),
    }
}

fn named(job: &DIJob, name: &str, uid: &str) -> Named {
    let namespace = job.namespace().to_owned();
    Named { namespace, name: name.to_owned(), uid: uid.to_owned() }
}

fn named_pod(pod: &Pod) -> Named {
    let text = str::to_owned;
    Named { namespace: text(pod.namespace()), name: text(pod.name()), uid: text(pod.uid()) }
}

// === impl Step ===

impl Step {
    /// What is said when it is done.
    pub fn done(&self) -> Event {
        let (kind, name, made) = self.words();
        let (reason, verb) =
            if made { (reason::MADE, "Create") } else { (reason::DELETED, "Delete") };
        Event { warning: false, reason, message: format!("{verb} {kind}: {name}") }
    }

    /// What is said when it cannot be done.
    pub fn failed(&self, error: &str) -> Event {
        let (kind, name, made) = self.words();
        let (reason, verb) =
            if made { (reason::NOT_MADE, "create") } else { (reason::NOT_DELETED, "delete") };
        Event {
            warning: true,
            reason,
            message: format!("Failed to {verb} {kind}: {name} error: {error}"),
        }
    }

    /// Kind, name, and whether it is made.
    pub fn words(&self) -> (&'static str, &str, bool) {
        match self {
            Self::CreatePod(pod) => ("pod", pod.name(), true),
            Self::CreateService(service) => {
                ("service", service["metadata"]["name"].as_str().unwrap_or_default(), true)
            }
            Self::DeletePod(pod) => ("pod", &pod.name, false),
            Self::DeleteService(service) => ("service", &service.name, false),
        }
    }
}
