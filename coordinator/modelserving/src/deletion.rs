//! How a group or an instance is removed. It stays in the store, as `Deleting`, until nothing of it is seen any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::ModelServing;
use crate::naming;
use crate::seen::{PodGroupApi, PodSeen, Seen};
use crate::step::{Kind, Note, Step, Write};
use crate::store::{At, Change, GroupState, InstanceState, Store};

/// What removes something. The first step is to know that it is on its way out: it has no write.
#[derive(Default)]
pub(crate) struct Deletion {
    pub steps: Vec<Step>,
    /// Nothing of it is left, so nobody else will say when it is gone.
    pub gone: bool,
}

/// Removes a group: its PodGroup, its pods, its services. One that is on its way out is removed once more.
pub(crate) fn group(
    serving: &ModelServing,
    store: &Store,
    seen: &Seen<'_>,
    name: &Arc<str>,
) -> Deletion {
    let Some(group) = store.group(name) else { return Deletion::default() };
    let undo = Change::KeepGroup(name.clone(), group.state);
    let undo = if group.state == GroupState::Deleting { vec![] } else { vec![undo] };
    let mut deletion = Deletion::default();
    deletion.steps.push(Step::change(Change::Group(name.clone(), GroupState::Deleting)));
    let api = seen.pod_groups_api;
    let held = seen.pod_group_named(name).filter(|_| api != PodGroupApi::Absent);
    let held = held.filter(|held| held.thing.ours);
    deletion.steps.extend(held.map(|held| Step::delete(Kind::PodGroup, &held.thing)));
    let labels = BTreeMap::from([
        (naming::NAME, naming::name(serving).into()),
        (naming::GROUP, name.clone()),
    ]);
    let shared = seen.others().any(|pod| pod.thing.group == &**name);
    deletion.steps.extend(pods(labels, seen.pods_of_group(name), shared));
    let services = seen.services_of_group(name);
    deletion.steps.extend(services.map(|service| Step::delete(Kind::Service, service)));
    deletion.finish(undo, seen.group_is_gone(name), Change::GroupGone(name.clone()))
}

/// Removes an instance: its pods, its service. One that is on its way out is left alone.
pub(crate) fn instance(
    serving: &ModelServing,
    store: &Store,
    seen: &Seen<'_>,
    at: &At,
) -> Deletion {
    let instance = store.instance(&at.group, &at.role, &at.id);
    let Some(state) = instance.map(|instance| instance.state) else { return Deletion::default() };
    if state == InstanceState::Deleting {
        return Deletion::default();
    }
    let undo = vec![Change::KeepInstance(at.clone(), state)];
    let mut deletion = Deletion::default();
    let note = Note::role("Deleting", &at.group, &at.role, &at.id);
    let mark = Step::change(Change::Instance(at.clone(), InstanceState::Deleting));
    deletion.steps.push(Step { notes: vec![note], ..mark });
    deletion.steps.extend(instance_again(serving, seen, at));
    let gone = seen.instance_is_gone(&at.group, &at.role, &at.id);
    deletion.finish(undo, gone, Change::InstanceGone(at.clone()))
}

/// Removes what there is of an instance.
pub(crate) fn instance_again(serving: &ModelServing, seen: &Seen<'_>, at: &At) -> Vec<Step> {
    let labels = BTreeMap::from([
        (naming::NAME, naming::name(serving).into()),
        (naming::GROUP, at.group.clone()),
        (naming::ROLE, at.role.clone()),
        (naming::ROLE_ID, at.id.clone()),
    ]);
    let services = seen.services_of(&at.group, &at.role, &at.id);
    let services = services.map(|service| Step::delete(Kind::Service, service));
    let shared = seen.others().map(|pod| &pod.thing).any(|other| {
        other.group == &*at.group && other.role == &*at.role && other.role_id == &*at.id
    });
    let ours = seen.pods_of(&at.group, &at.role, &at.id);
    pods(labels, ours, shared).into_iter().chain(services).collect()
}

/// Removes pods at once; one by one where others have pods with the same labels.
fn pods<'a>(
    labels: BTreeMap<&'static str, Arc<str>>,
    ours: impl Iterator<Item = &'a PodSeen<'a>>,
    shared: bool,
) -> Vec<Step> {
    if !shared {
        return vec![Step::write(Write::DeletePods(labels))];
    }
    let staying = ours.filter(|pod| !pod.thing.terminating);
    staying.map(|pod| Step::delete(Kind::Pod, &pod.thing)).collect()
}

// === impl Deletion ===

impl Deletion {
    fn finish(mut self, undo: Vec<Change>, gone: bool, change: Change) -> Deletion {
        for step in self.steps.iter_mut().filter(|step| step.write.is_some()) {
            step.undo.clone_from(&undo);
        }
        if gone {
            self.steps.push(Step::change(change));
        }
        self.gone = gone;
        self
    }
}
