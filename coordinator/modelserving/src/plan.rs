//! One look at a ModelServing: groups, the instances in them, what is outdated, services, status. Each part sees what
//! the ones before it have made of the store, as if everything had succeeded.

mod groups;
mod instances;
mod roles;
mod rollout;
mod services;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{ModelServing, Role};
use crate::budget;
use crate::deletion;
use crate::leftovers::{self, Leftover};
use crate::machine::Machine;
use crate::naming::{self, Shape};
use crate::plugins::Chain;
use crate::pod::PodMutator;
use crate::pod_group;
use crate::readiness;
use crate::revision;
use crate::seen::Seen;
use crate::status;
use crate::step::{Failure, Kind, Plan, Step, Write};
use crate::store::{At, Change, GroupState, Store};

/// A thing of another ModelServing has a name that is needed: it should be gone soon.
const SOON: Duration = Duration::from_secs(1);

/// The most pods that one plan creates: a typing error in a number must not fill the memory. The next plan goes on.
const MOST: usize = 2000;

/// A plan in the making.
pub(crate) struct Draft<'a> {
    serving: &'a ModelServing,
    seen: &'a Seen<'a>,
    mutator: &'a dyn PodMutator,
    shape: Shape,
    /// The store as it will be.
    store: Store,
    /// The uids of pods that have failed and are about to go.
    graced: &'a BTreeSet<Arc<str>>,
    /// The revision of the roles that are asked for now.
    revision: Arc<str>,
    /// How many groups keep the old template.
    partition: i64,
    chain: Result<Chain, String>,
    /// The pods that this plan creates.
    created: HashSet<String>,
    /// This plan writes down the roles that are asked for now.
    kept: bool,
    plan: Plan,
}

// === impl Draft ===

impl<'a> Draft<'a> {
    pub fn new(
        serving: &'a ModelServing,
        seen: &'a Seen<'a>,
        mutator: &'a dyn PodMutator,
        machine: &'a Machine,
    ) -> Draft<'a> {
        Draft {
            serving,
            seen,
            mutator,
            shape: machine.shape,
            store: machine.store.clone(),
            graced: &machine.graced,
            revision: revision::roles(&serving.spec.template.roles).into(),
            partition: budget::group_partition(serving).unwrap_or_default().max(0),
            chain: Chain::read(&serving.spec.plugins),
            created: HashSet::new(),
            kept: false,
            plan: Plan::default(),
        }
    }

    /// All parts, until one of them cannot go on.
    pub fn plan(mut self, now: Timestamp) -> Plan {
        if let Err(error) = self.parts(now) {
            self.plan.error = Some(error);
        }
        // What has failed will most likely fail at once if it is tried at once.
        self.plan.again &= self.plan.error.is_none();
        self.plan
    }

    fn parts(&mut self, now: Timestamp) -> Result<(), String> {
        let failed = |what: &'static str| move |error: String| format!("failed to {what}: {error}");
        self.leftovers();
        self.groups().map_err(failed("sync ServingGroup replicas"))?;
        self.roles();
        self.rollout().map_err(failed("handle rollingUpdate"))?;
        self.services();
        self.status(now);
        Ok(())
    }

    /// What is on its way out and has nothing left is gone, though nobody may have said so. What has pods that nobody
    /// has told to go was left by a plan that was not followed to its end, and so were pods that failed.
    fn leftovers(&mut self) {
        for change in leftovers::gone(&self.store, self.seen) {
            self.push(Step::change(change));
        }
        for leftover in leftovers::forgotten(&self.store, self.seen) {
            match leftover {
                Leftover::Group(group) => self.delete_group(&group),
                Leftover::Instance(at) => {
                    let steps = deletion::instance_again(self.serving, self.seen, &at);
                    self.push_apart(steps);
                }
            }
        }
        for pod in leftovers::failed(&self.store, self.seen, self.graced) {
            self.push_apart(vec![Step::delete(Kind::Pod, &pod.thing)]);
        }
    }

    /// As many as fit into this plan.
    fn room(&mut self, count: i64) -> i64 {
        let room = i64::try_from(MOST.saturating_sub(self.created.len())).unwrap_or_default();
        self.plan.again |= count > room;
        count.min(room)
    }

    /// The last part: groups that have become ready, the status, and old revisions that nobody needs any more.
    fn status(&mut self, now: Timestamp) {
        let groups = self.store.groups().iter();
        let ready = groups.filter(|group| {
            matches!(group.state, GroupState::Creating | GroupState::Scaling)
                && readiness::group(self.serving, group)
        });
        let ready: Vec<Arc<str>> = ready.map(|group| group.name.clone()).collect();
        // A rollout may have waited for it, and no event tells of it.
        self.plan.again |= !ready.is_empty();
        for group in ready {
            self.push(Step::change(Change::Group(group, GroupState::Running)));
        }
        let old = self.serving.status.clone().unwrap_or_default();
        let new = status::of(self.serving, self.store.groups(), &self.revision, now);
        let revisions = [new.current_revision.clone(), new.update_revision.clone()]
            .map(|revision| naming::revision(naming::name(self.serving), &revision));
        if old != new || self.serving.status.is_none() {
            self.push(Step::write(Write::Status(Box::new(new))));
        }
        // Not only when the status names others than before: who wrote that may have come no further.
        let seen = self.seen;
        // Pods of a group that was there already may have been made without that anybody kept what they are made from. Where
        // instances of roles are replaced nobody keeps it, as in Kthena.
        let is_in_use = self.store.groups().iter().any(|group| group.revision == self.revision);
        let is_to_be_kept = is_in_use && !budget::by_role(self.serving);
        for known in seen.revisions() {
            let name = known.metadata.name.as_deref().unwrap_or_default();
            if !revisions.iter().any(|kept| kept == name) {
                if is_to_be_kept {
                    self.keep_revision();
                }
                let after = self.plan.steps.len() + 1;
                let failure = Failure::GoOnAt(after);
                let step = Step::delete(Kind::ControllerRevision, &seen.read(&known.metadata));
                self.push(Step { failure, ..step });
            }
        }
    }

    fn push(&mut self, step: Step) {
        for change in &step.changes {
            self.store.apply(change);
        }
        self.plan.steps.push(step);
    }

    /// Steps that stand or fall together, and without which the others go on.
    fn push_apart(&mut self, steps: Vec<Step>) {
        let end = self.plan.steps.len() + steps.len();
        for step in steps {
            self.push(Step { failure: Failure::GoOnAt(end), ..step });
        }
    }

    fn soon(&mut self) {
        self.plan.later = Some(SOON);
    }

    fn gang(&self) -> bool {
        pod_group::wanted(self.serving, self.seen.pod_groups_api)
    }

    /// The names of the groups that are not on their way out.
    fn live(&self) -> Vec<Arc<str>> {
        let groups = self.store.groups().iter();
        let live = groups.filter(|group| group.state != GroupState::Deleting);
        live.map(|group| group.name.clone()).collect()
    }

    /// The roles of a revision, if they were written down.
    fn roles_of(&self, revision: &str) -> Option<Vec<Role>> {
        if self.kept && revision == &*self.revision {
            return Some(self.serving.spec.template.roles.clone());
        }
        self.seen.roles_of(self.serving, revision)
    }

    /// The revision that the status calls current; empty if there is none.
    fn current_revision(&self) -> &str {
        self.serving.status.as_ref().map_or("", |status| &status.current_revision)
    }

    fn delete_group(&mut self, group: &Arc<str>) {
        let deletion = deletion::group(self.serving, &self.store, self.seen, group);
        self.plan.again |= deletion.gone;
        for step in deletion.steps {
            self.push(step);
        }
    }

    fn delete_instance(&mut self, at: &At) {
        let deletion = deletion::instance(self.serving, &self.store, self.seen, at);
        self.plan.again |= deletion.gone;
        self.push_apart(deletion.steps);
    }
}
