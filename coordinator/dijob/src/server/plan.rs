//! What each replica is made of, step by step.

use std::sync::Arc;

use super::answer::Refusal;
use crate::api::{DIJob, Template};
use crate::gpu;
use crate::make::{self, Part, Resources, Settings};
use crate::operator::Named;
use crate::pod::Pod;
use crate::role::Role;

/// No learner has more devices.
pub const MOST_GPUS: u64 = 4096;

/// One replica, or a few deletes.
#[derive(Debug)]
pub enum Unit {
    /// These steps; then the address is told.
    Steps {
        /// What to do.
        acts: Vec<Act>,
        /// Whose address is told, and among what.
        report: Report,
    },
    /// It ends here.
    Stop(Refusal),
}

/// Among what an address is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Collectors.
    Collectors,
    /// Learners.
    Learners,
}

/// Which address is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// This one.
    Url(Field, String),
    /// That of the first pod that is made.
    First(Field),
}

/// One step.
#[derive(Clone, Debug)]
pub enum Act {
    /// A pod goes.
    Delete(Named, Role),
    /// A pod is made.
    Create(Recipe),
    /// Those that come are DDP learners of this aggregator, which is there.
    Join(Named),
}

/// How a pod is made. Its name is not known yet.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// A collector or a learner.
    Plain(Role, Resources),
    /// An aggregator.
    Aggregator(Arc<Template>),
    /// A DDP learner, for the aggregator that was made before.
    Ddp(Part, Resources),
    /// One like this.
    Copy(Arc<Pod>),
}

// === impl Recipe ===

impl Recipe {
    /// What the pod is for.
    pub fn role(&self) -> Role {
        match self {
            Self::Plain(role, _) => *role,
            Self::Aggregator(_) => Role::Aggregator,
            Self::Ddp(..) => Role::DdpLearner,
            Self::Copy(pod) => pod.role().unwrap_or(Role::Collector),
        }
    }
}

/// The devices of each pod of one logic learner. `devices` is what nodes have.
pub fn shares(gpus: u64, devices: &[u64]) -> Vec<u64> {
    let shares = gpu::shares(gpus, gpu::majority(devices));
    if shares.is_empty() { vec![gpus] } else { shares }
}

/// The DDP learners of one logic learner, one recipe for each pod.
pub fn ddp(shares: &[u64], resources: &Resources) -> Vec<Recipe> {
    let (split, gpus) = (shares.len() > 1, shares.iter().sum());
    let pods = shares.len() as u64;
    let mut start = 0;
    let mut recipes = Vec::with_capacity(shares.len());
    for (index, share) in (0..).zip(shares.iter().copied()) {
        let part = Part { world: gpus, share, start, split, index, pods };
        recipes.push(Recipe::Ddp(part, Resources { gpus: share, ..*resources }));
        start += share;
    }
    recipes
}

/// The template that a role must have.
pub fn template(job: &DIJob, role: Role) -> Result<&Template, Refusal> {
    let word = if role == Role::DdpLearner { Role::Learner.word() } else { role.word() };
    make::template(job, role)
        .ok_or_else(|| Refusal::bad(format!("DIJob {} has no {word} template", job.full_name())))
}

/// The device that learners of a job ask for.
pub fn device(job: &DIJob, role: Role, settings: &Settings) -> String {
    make::template(job, role)
        .map_or_else(|| settings.gpu.clone(), |template| make::device_of(template, settings))
}

/// A pod that goes.
pub fn delete(pod: &Pod) -> Act {
    let text = str::to_owned;
    let named =
        Named { namespace: text(pod.namespace()), name: text(pod.name()), uid: text(pod.uid()) };
    Act::Delete(named, pod.role().unwrap_or(Role::Collector))
}
