//! How many instances each role has in the groups that stay, and whether each has all its pods.

use std::sync::Arc;

use super::Draft;
use crate::api::Role;
use crate::budget;
use crate::naming;
use crate::scale::{Candidate, leaving};
use crate::step::Step;
use crate::store::{At, Change, Group, GroupState, Instance, InstanceState};

impl Draft<'_> {
    pub(super) fn roles(&mut self) {
        let groups: Vec<(usize, Arc<str>)> = {
            let groups = self.store.groups().iter().enumerate();
            let live = groups.filter(|(_, group)| group.state != GroupState::Deleting);
            live.map(|(place, group)| (place, group.name.clone())).collect()
        };
        let protected = usize::try_from(self.partition).unwrap_or_default();
        for (place, name) in groups {
            let mut revision = self.revision.clone();
            let mut old = None;
            if place < protected {
                revision = self.revision_of(&name);
                old = self.roles_of(&revision);
            }
            let roles = old.as_deref().unwrap_or(&self.serving.spec.template.roles);
            for role in roles {
                self.role(&name, (role, roles), &revision);
            }
        }
    }

    /// What a protected group was made from.
    fn revision_of(&self, group: &str) -> Arc<str> {
        let known = self.store.group(group).map(|group| group.revision.clone());
        match known.filter(|revision| !revision.is_empty()) {
            Some(revision) => revision,
            None if self.current_revision().is_empty() => self.revision.clone(),
            None => self.current_revision().into(),
        }
    }

    fn role(&mut self, group: &Arc<str>, (role, roles): (&Role, &[Role]), revision: &Arc<str>) {
        let instances = self.store.group(group).map(|known| known.instances(&role.name).to_vec());
        let instances = instances.unwrap_or_default();
        let partition = budget::role_partition(self.serving, role).unwrap_or_default();
        let partition = usize::try_from(partition).unwrap_or_default();
        for (place, instance) in instances.iter().enumerate() {
            if instance.state != InstanceState::Deleting {
                self.mend(group, (role, roles), instance, revision, place < partition);
            }
        }
        let wanted = usize::try_from(budget::role_replicas(role)).unwrap_or_default();
        if instances.len() < wanted {
            self.add_instances(group, (role, roles), &instances, revision, partition);
        } else if instances.len() > wanted {
            self.drop_instances(group, role, &instances, wanted, partition);
        }
    }

    /// Makes the pods that an instance lacks.
    fn mend(
        &mut self,
        group: &Arc<str>,
        (role, roles): (&Role, &[Role]),
        instance: &Instance,
        revision: &Arc<str>,
        protected: bool,
    ) {
        let mut there = 0i64;
        let mut leaves = false;
        for pod in self.seen.pods_of(group, &role.name, &instance.id) {
            there += 1;
            leaves |= pod.thing.terminating;
        }
        if leaves {
            self.soon();
        }
        if there > i64::from(role.worker_replicas) {
            return;
        }
        let mut revision = revision.clone();
        let mut old = None;
        let mut hash = Arc::from("");
        if protected {
            let known = !instance.revision.is_empty();
            revision =
                if known { instance.revision.clone() } else { self.current_revision().into() };
            hash = instance.hash.clone();
            old = self.role_of(&revision, &role.name);
        }
        let from = old.as_ref().unwrap_or(role);
        if hash.is_empty() {
            hash = crate::revision::role(from).into();
        }
        let id = instance.id.clone();
        let at = At { group: group.clone(), role: role.name.as_str().into(), id };
        self.apart(|draft| draft.make_pods(&at, (from, roles), &revision, &hash));
    }

    /// One role as a revision had it, if that was written down.
    fn role_of(&self, revision: &str, role: &str) -> Option<Role> {
        if revision.is_empty() {
            return None;
        }
        self.roles_of(revision)?.into_iter().find(|known| known.name == role)
    }

    fn scaling(&mut self, group: &Arc<str>) {
        if self.store.group(group).is_some_and(|known| known.state != GroupState::Scaling) {
            self.push(Step::change(Change::Group(group.clone(), GroupState::Scaling)));
        }
    }

    fn add_instances(
        &mut self,
        group: &Arc<str>,
        (role, roles): (&Role, &[Role]),
        instances: &[Instance],
        revision: &Arc<str>,
        partition: usize,
    ) {
        self.scaling(group);
        let there: Vec<i64> = instances.iter().map(|instance| instance.ordinal).collect();
        let wanted = budget::role_replicas(role);
        let count = wanted - i64::try_from(instances.len()).unwrap_or(i64::MAX);
        let count = self.room(count);
        let name: Arc<str> = role.name.as_str().into();
        for ordinal in budget::missing(wanted, &there, count) {
            let protected = usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < partition);
            let (revision, old) = if protected {
                let revision = self.older(revision);
                let old = self.role_of(&revision, &role.name);
                (revision, old)
            } else {
                (revision.clone(), None)
            };
            let from = old.as_ref().unwrap_or(role);
            let hash = crate::revision::role(from).into();
            let id = naming::role_id(&role.name, ordinal).into();
            let at = At { group: group.clone(), role: name.clone(), id };
            self.apart(|draft| draft.add_instance(&at, (from, roles), &revision, &hash));
        }
    }

    /// The revision of an instance that keeps the old template: the current one, or another that was written down.
    fn older(&self, new: &Arc<str>) -> Arc<str> {
        let current = self.current_revision();
        if !current.is_empty() && *current != **new {
            return current.into();
        }
        let label = |labels: &std::collections::BTreeMap<String, String>| {
            labels.get(naming::REVISION).cloned().unwrap_or_default()
        };
        let mut known = self
            .seen
            .revisions()
            .map(|revision| revision.metadata.labels.as_ref().map(label).unwrap_or_default());
        let other = known.find(|revision| !revision.is_empty() && **revision != **new);
        other.map_or_else(|| new.clone(), Arc::from)
    }

    fn drop_instances(
        &mut self,
        group: &Arc<str>,
        role: &Role,
        instances: &[Instance],
        wanted: usize,
        partition: usize,
    ) {
        let staying = instances.iter().enumerate();
        let staying = staying.filter(|(_, instance)| instance.state != InstanceState::Deleting);
        let candidates: Vec<Candidate> = staying
            .map(|(at, instance)| Candidate {
                at,
                kept: at < partition,
                running: instance.state == InstanceState::Running,
                cost: self.cost(group, role, instance),
                ordinal: instance.ordinal,
            })
            .collect();
        let Some(count) = candidates.len().checked_sub(wanted).filter(|count| *count > 0) else {
            return;
        };
        self.scaling(group);
        let name: Arc<str> = role.name.as_str().into();
        for at in leaving(candidates, count) {
            if let Some(instance) = instances.get(at) {
                let id = instance.id.clone();
                self.delete_instance(&At { group: group.clone(), role: name.clone(), id });
            }
        }
    }

    fn cost(&self, group: &str, role: &Role, instance: &Instance) -> i64 {
        self.seen.pods_of(group, &role.name, &instance.id).map(|pod| pod.cost).sum()
    }

    /// The hash of what an instance was made from, if anybody knows.
    pub(super) fn hash_of(
        &self,
        group: &Group,
        role: &str,
        instance: &Instance,
    ) -> Option<Arc<str>> {
        if !instance.hash.is_empty() {
            return Some(instance.hash.clone());
        }
        let role = self.role_of(&group.revision, role)?;
        Some(crate::revision::role(&role).into())
    }
}
