//! What is on its way out, and is not what it seems: gone without a word, or never told to go. And pods that failed
//! and are still there.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::seen::{PodGroupApi, PodSeen, Seen, ThingSeen};
use crate::store::{At, Change, Group, GroupState, InstanceState, Store};

/// Something of which not all was told to go.
pub(crate) enum Leftover {
    Group(Arc<str>),
    Instance(At),
}

/// What is on its way out and has nothing left.
pub(crate) fn gone(store: &Store, seen: &Seen<'_>) -> Vec<Change> {
    let mut gone = Vec::new();
    for group in store.groups() {
        if group.state == GroupState::Deleting {
            if seen.group_is_gone(&group.name) {
                gone.push(Change::GroupGone(group.name.clone()));
            }
            continue;
        }
        let leaving = leaving(group);
        let leaving = leaving.filter(|at| seen.instance_is_gone(&at.group, &at.role, &at.id));
        gone.extend(leaving.map(Change::InstanceGone));
    }
    gone
}

/// What is on its way out and has pods or other things that are not.
pub(crate) fn forgotten(store: &Store, seen: &Seen<'_>) -> Vec<Leftover> {
    let stays = |thing: &ThingSeen<'_>| thing.ours && !thing.terminating;
    let pod_stays = |pod: &PodSeen<'_>| stays(&pod.thing);
    let mut forgotten = Vec::new();
    for group in store.groups() {
        if group.state == GroupState::Deleting {
            let held = seen.pod_group_named(&group.name);
            let held = held.filter(|_| seen.pod_groups_api != PodGroupApi::Absent);
            if seen.pods_of_group(&group.name).any(pod_stays)
                || seen.services_of_group(&group.name).any(stays)
                || held.is_some_and(|held| stays(&held.thing))
            {
                forgotten.push(Leftover::Group(group.name.clone()));
            }
            continue;
        }
        let leaving = leaving(group);
        let leaving = leaving.filter(|at| {
            seen.pods_of(&at.group, &at.role, &at.id).any(pod_stays)
                || seen.services_of(&at.group, &at.role, &at.id).any(stays)
        });
        forgotten.extend(leaving.map(Leftover::Instance));
    }
    forgotten
}

/// Pods that have failed, have no time left, and could not be removed when they should have been.
pub(crate) fn failed<'s, 'a>(
    store: &Store,
    seen: &'s Seen<'a>,
    graced: &BTreeSet<Arc<str>>,
) -> Vec<&'s PodSeen<'a>> {
    let goes = |pod: &&PodSeen<'_>| {
        let thing = &pod.thing;
        let group = store.group(thing.group).map(|group| group.state);
        let instance = store.instance(thing.group, thing.role, thing.role_id);
        thing.ours
            && !thing.terminating
            && !pod.ready
            && (pod.failed || pod.restarted)
            && !graced.contains(thing.uid)
            && group != Some(GroupState::Deleting)
            && instance.is_none_or(|instance| instance.state != InstanceState::Deleting)
    };
    seen.pods().iter().filter(goes).collect()
}

fn leaving(group: &Group) -> impl Iterator<Item = At> {
    group.roles.iter().flat_map(|role| {
        let leaving = role.list.iter().filter(|it| it.state == InstanceState::Deleting);
        leaving.map(|instance| At {
            group: group.name.clone(),
            role: role.role.clone(),
            id: instance.id.clone(),
        })
    })
}
