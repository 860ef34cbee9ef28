//! What follows from an event: pods that become ready, fail or vanish, and things that are gone.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ModelServing, Spec};
use crate::deletion::{self, Deletion};
use crate::machine::Machine;
use crate::plugins::Chain;
use crate::readiness;
use crate::seen::{PodGroupApi, PodSeen, Seen, ThingSeen};
use crate::step::{Failure, Heard, Kind, Later, Note, Step};
use crate::store::{At, Change, GroupState, InstanceState};
use crate::wanted::{Wanted, hides_hash};

/// An event on its way into the machine.
pub(crate) struct Hearing<'a> {
    pub machine: &'a mut Machine,
    pub serving: &'a ModelServing,
    pub seen: &'a Seen<'a>,
    pub heard: Heard,
}

// === impl Hearing ===

impl Hearing<'_> {
    /// A pod was added or changed. Being ready counts more than having failed before; losing readiness alone changes
    /// nothing.
    pub fn pod_changed(&mut self, pod: &PodSeen<'_>) {
        if pod.thing.terminating || !pod.thing.ours {
            return;
        }
        if pod.ready {
            self.pod_ready(pod);
        } else if pod.failed || pod.restarted {
            self.pod_failed(pod);
        }
    }

    /// A pod that is there already: it says what its group and its instance were made from.
    pub fn pod_found(&mut self, pod: &PodSeen<'_>) {
        if pod.thing.terminating || !pod.thing.ours {
            return;
        }
        if pod.ready || !(pod.failed || pod.restarted) {
            self.know(pod);
        }
        self.pod_changed(pod);
    }

    /// After all pods were found: a group that is as the roles are now has their revision, though its pods may name
    /// another, because their roles have not changed since.
    pub fn groups_found(&mut self, revision: &Arc<str>) {
        let wanted = Wanted::of(self.serving);
        let groups = self.machine.store.groups().iter();
        let current = groups.filter(|group| wanted.is_met(group, self.seen));
        let current: Vec<Arc<str>> = current.map(|group| group.name.clone()).collect();
        for group in current {
            self.apply(Change::GroupRevision(group, revision.clone()));
        }
    }

    /// A pod is gone: what goes with it is up to the recovery policy.
    pub fn pod_gone(&mut self, pod: &PodSeen<'_>) {
        let thing = &pod.thing;
        self.machine.graced.remove(thing.uid);
        let is_replaced = self.machine.replaced.remove(thing.uid);
        if !thing.ours || self.deleting(thing) {
            return;
        }
        // It was in the way of its successor, which can be made now.
        if is_replaced {
            self.heard.reconcile = true;
            return;
        }
        // Another has taken its place: whoever made that has made up for the loss.
        if self.seen.pod_named(thing.name).is_some_and(|other| other.thing.uid != thing.uid) {
            return;
        }
        let group: Arc<str> = thing.group.into();
        match self.serving.spec.recovery_policy.as_str() {
            "ServingGroupRecreate" => {
                let store = &self.machine.store;
                let deletion = deletion::group(self.serving, store, self.seen, &group);
                self.delete(deletion);
            }
            "RoleRecreate" => {
                if self.state(&group) == Some(GroupState::Running) {
                    self.apply(Change::Group(group, GroupState::Creating));
                }
                let store = &self.machine.store;
                let deletion = deletion::instance(self.serving, store, self.seen, &at(thing));
                self.delete(deletion);
            }
            _ => {}
        }
    }

    /// A service or a PodGroup is gone.
    pub fn thing_gone(&mut self, thing: &ThingSeen<'_>) {
        if thing.ours && !self.deleting(thing) {
            self.heard.reconcile = true;
        }
    }

    /// Another spec. Where PodGroups were for nearness alone and nobody asks for it any more, they are made anew.
    pub fn spec_changed(&mut self, old: &Spec) {
        let new = &self.serving.spec;
        if old == new {
            return;
        }
        let gang = new.template.gang_policy.as_ref();
        let gang = gang.and_then(|gang| gang.min_role_replicas.as_ref());
        let far =
            old.template.network_topology.is_some() && new.template.network_topology.is_none();
        if far && gang.is_none_or(|gang| gang.is_empty()) {
            let known = self.seen.pod_groups().filter(|pod_group| pod_group.thing.ours);
            let known = known.filter(|_| self.seen.pod_groups_api != PodGroupApi::Absent);
            let deletes = known.map(|it| Step::delete(Kind::PodGroup, &it.thing));
            self.heard.steps.extend(deletes);
        }
        self.heard.reconcile = true;
    }

    /// A pod that failed has had its time; it goes if it is still the same and not ready.
    pub fn grace_over(&mut self, name: &str, uid: &str) {
        let pod = self.seen.pod_named(name).filter(|pod| pod.thing.uid == uid && pod.thing.ours);
        match pod.filter(|pod| !pod.ready) {
            Some(pod) => self.delete_pod(&pod.thing),
            None => drop(self.machine.graced.remove(uid)),
        }
    }

    fn pod_ready(&mut self, pod: &PodSeen<'_>) {
        if Chain::read(&self.serving.spec.plugins).is_err() {
            return;
        }
        self.heard.reconcile |= self.know(pod);
        let thing = &pod.thing;
        let at = at(thing);
        let instance = self.machine.store.instance(thing.group, thing.role, thing.role_id);
        let creating = instance.is_some_and(|it| it.state == InstanceState::Creating);
        let (group, role, id) = (thing.group, thing.role, thing.role_id);
        if creating && readiness::instance(self.serving, self.seen, group, role, id) {
            self.apply(Change::Instance(at, InstanceState::Running));
            self.note(Note::role("Running", group, role, id));
            self.heard.reconcile = true;
        }
        let known = self.machine.store.group(group);
        let ready = known.is_some_and(|group| readiness::group(self.serving, group));
        let state = self.state(group);
        if ready && !matches!(state, Some(GroupState::Deleting | GroupState::Running)) {
            self.apply(Change::Group(group.into(), GroupState::Running));
            self.heard.reconcile = true;
        }
    }

    /// The pod goes, at once or when it has had its time. Who depends on it is no longer ready.
    fn pod_failed(&mut self, pod: &PodSeen<'_>) {
        if !self.machine.graced.insert(pod.thing.uid.into()) {
            return;
        }
        let thing = &pod.thing;
        let instance = self.machine.store.instance(thing.group, thing.role, thing.role_id);
        if instance.is_some_and(|instance| instance.state == InstanceState::Running) {
            self.apply(Change::Instance(at(thing), InstanceState::Creating));
            self.note(Note::role("Creating", thing.group, thing.role, thing.role_id));
        }
        if self.state(thing.group) == Some(GroupState::Running) {
            self.apply(Change::Group(thing.group.into(), GroupState::Creating));
        }
        let grace = self.serving.spec.template.restart_grace_period_seconds.unwrap_or_default();
        match u64::try_from(grace) {
            Ok(grace @ 1..) => {
                let later = Later::GraceOver { pod: thing.name.into(), uid: thing.uid.into() };
                self.heard.later.push((Duration::from_secs(grace), later));
            }
            _ => self.delete_pod(thing),
        }
        self.heard.reconcile = true;
    }

    /// What it is of may be on its way out: then the only question is whether all of that is gone.
    fn deleting(&mut self, thing: &ThingSeen<'_>) -> bool {
        let (group, role, id) = (thing.group, thing.role, thing.role_id);
        if self.state(group) == Some(GroupState::Deleting) {
            if self.seen.group_is_gone(group) {
                self.apply(Change::GroupGone(group.into()));
                self.heard.reconcile = true;
            }
            return true;
        }
        let instance = self.machine.store.instance(group, role, id);
        if instance.is_none_or(|instance| instance.state != InstanceState::Deleting) {
            return false;
        }
        if self.seen.instance_is_gone(group, role, id) {
            self.apply(Change::InstanceGone(at(thing)));
            self.heard.reconcile = true;
        }
        true
    }

    /// Whether that is news.
    fn know(&mut self, pod: &PodSeen<'_>) -> bool {
        let at = at(&pod.thing);
        let known = self.machine.store.instance(&at.group, &at.role, &at.id);
        if known.is_some() {
            return false;
        }
        let mut roles = self.serving.spec.template.roles.iter();
        let role = roles.find(|role| role.name == pod.thing.role);
        let hash = match pod.hash {
            hash if !hash.is_empty() && !role.is_some_and(hides_hash) => hash.into(),
            _ => self.hash_of(pod).unwrap_or_default().into(),
        };
        self.apply(Change::AddInstance { at, revision: pod.revision.into(), hash });
        true
    }

    /// For pods that do not say it: the hash of their role, in the revision that they name.
    fn hash_of(&self, pod: &PodSeen<'_>) -> Option<String> {
        let roles = self.seen.roles_of(self.serving, pod.revision)?;
        let role = roles.iter().find(|role| role.name == pod.thing.role)?;
        Some(crate::revision::role(role))
    }

    fn state(&self, group: &str) -> Option<GroupState> {
        self.machine.store.group(group).map(|group| group.state)
    }

    fn apply(&mut self, change: Change) {
        self.machine.store.apply(&change);
    }

    fn note(&mut self, note: Note) {
        self.heard.steps.push(Step { notes: vec![note], ..Step::default() });
    }

    /// Whether it can be removed matters to nobody else. If not, it has no time left: the next plan removes it.
    fn delete_pod(&mut self, thing: &ThingSeen<'_>) {
        let undo = vec![Change::GraceOver(thing.uid.into())];
        let failure = Failure::GoOnAt(self.heard.steps.len() + 1);
        let step = Step { undo, failure, ..Step::delete(Kind::Pod, thing) };
        self.heard.steps.push(step);
    }

    /// That it is on its way out is known at once; that it is gone, when all is done. Nobody hears twice of what has
    /// happened: it stays on its way out if a write fails, and the next plan goes on with it.
    fn delete(&mut self, deletion: Deletion) {
        self.heard.reconcile |= deletion.gone;
        for (place, mut step) in deletion.steps.into_iter().enumerate() {
            if place == 0 {
                let changes = std::mem::take(&mut step.changes);
                changes.into_iter().for_each(|change| self.apply(change));
            }
            step.undo.clear();
            self.heard.steps.push(step);
        }
    }
}

fn at(thing: &ThingSeen<'_>) -> At {
    At { group: thing.group.into(), role: thing.role.into(), id: thing.role_id.into() }
}
