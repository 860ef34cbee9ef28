//! How many groups there are. Those on their way out count until they are gone, so nobody takes their place before.

use std::sync::Arc;

use super::Draft;
use crate::api::Role;
use crate::budget;
use crate::controller_revision;
use crate::naming;
use crate::pod_group;
use crate::scale::{Candidate, leaving};
use crate::step::{Step, Write};
use crate::store::{At, Change, GroupState};

impl Draft<'_> {
    pub(super) fn groups(&mut self) -> Result<(), String> {
        let wanted = usize::try_from(budget::replicas(self.serving)).unwrap_or_default();
        let known = self.store.groups().len();
        if known < wanted {
            for group in self.live() {
                self.pod_group(&group);
            }
            let added = self.add_groups(wanted - known);
            return added.map_err(|error| format!("failed to scale up ServingGroups: {error}"));
        }
        self.drop_groups(known - wanted);
        for group in self.live() {
            self.pod_group(&group);
        }
        Ok(())
    }

    /// The PodGroup is there and says what is asked for.
    fn pod_group(&mut self, group: &str) {
        let api = self.seen.pod_groups_api;
        if !self.gang() {
            return;
        }
        let write = match self.seen.pod_group_named(group) {
            None => Some(pod_group::create(self.serving, self.shape, group, api)),
            Some(known) if known.thing.ours => pod_group::update(self.serving, api, known),
            Some(_) => return self.soon(),
        };
        if let Some(write) = write {
            self.push(Step::write(write));
        }
    }

    fn add_groups(&mut self, count: usize) -> Result<(), String> {
        let wanted = budget::replicas(self.serving);
        let there: Vec<i64> = self.store.groups().iter().map(|group| group.ordinal).collect();
        let count = self.room(i64::try_from(count).unwrap_or(i64::MAX));
        for ordinal in budget::missing(wanted, &there, count) {
            if self.room(1) == 0 {
                break;
            }
            let group: Arc<str> = naming::group(naming::name(self.serving), ordinal).into();
            let (revision, old) = if ordinal < self.partition {
                let current = self.current_revision();
                let kept = if current.is_empty() { self.revision.clone() } else { current.into() };
                let old = self.roles_of(&kept);
                (kept, old)
            } else {
                self.keep_revision();
                (self.revision.clone(), None)
            };
            let roles = old.as_deref().unwrap_or(&self.serving.spec.template.roles);
            self.add_group(&group, &revision, roles)
                .map_err(|error| format!("create Serving group failed: {error}"))?;
        }
        Ok(())
    }

    /// Writes the roles down before anything is made from them.
    pub(super) fn keep_revision(&mut self) {
        if self.kept {
            return;
        }
        self.kept = true;
        let name = naming::revision(naming::name(self.serving), &self.revision);
        let known = self.seen.revision_named(&name);
        // It keeps the same templates, and it is not ours to replace.
        if known.is_some_and(|known| !self.seen.read(&known.metadata).ours) {
            return;
        }
        let roles = &self.serving.spec.template.roles;
        let writes =
            controller_revision::keep(self.serving, self.shape, &self.revision, roles, known);
        for write in writes {
            self.push(Step::write(write));
        }
    }

    /// A role whose pods cannot be made does not keep the others from being there; a group of which none can be made
    /// is none.
    fn add_group(
        &mut self,
        group: &Arc<str>,
        revision: &Arc<str>,
        roles: &[Role],
    ) -> Result<(), String> {
        self.pod_group(group);
        let mut failed: Vec<String> = Vec::new();
        for role in roles {
            let made = self.add_role(group, revision, (role, roles));
            failed.extend(made.err());
        }
        let none = failed.len() == roles.len();
        match failed.into_iter().next() {
            Some(error) if none => return Err(error),
            error => self.plan.error = self.plan.error.take().or(error),
        }
        if self.store.group(group).is_none() {
            let (group, revision) = (group.clone(), revision.clone());
            self.push(Step::change(Change::AddGroup { group, revision }));
        }
        Ok(())
    }

    fn add_role(
        &mut self,
        group: &Arc<str>,
        revision: &Arc<str>,
        (role, roles): (&Role, &[Role]),
    ) -> Result<(), String> {
        let name: Arc<str> = role.name.as_str().into();
        let hash: Arc<str> = crate::revision::role(role).into();
        for ordinal in 0..self.room(budget::role_replicas(role)) {
            let id = naming::role_id(&role.name, ordinal).into();
            let at = At { group: group.clone(), role: name.clone(), id };
            self.add_instance(&at, (role, roles), revision, &hash)?;
        }
        Ok(())
    }

    fn drop_groups(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let kept = usize::try_from(self.partition).unwrap_or_default();
        let candidate = |(at, group): (usize, &crate::store::Group)| Candidate {
            at,
            kept: at < kept,
            running: group.state == GroupState::Running,
            cost: self.seen.pods_of_group(&group.name).map(|pod| pod.cost).sum(),
            ordinal: group.ordinal,
        };
        let groups = self.store.groups();
        let leaving = leaving(groups.iter().enumerate().map(candidate).collect(), count);
        let leaving: Vec<Arc<str>> =
            leaving.iter().filter_map(|at| groups.get(*at)).map(|it| it.name.clone()).collect();
        for group in leaving {
            self.delete_group(&group);
        }
    }

    /// What is created is not created twice, and what is there is left alone.
    pub(super) fn push_create(&mut self, object: crate::step::Object) {
        self.created.insert(object.name.clone());
        self.push(Step::write(Write::Create(object)));
    }
}
