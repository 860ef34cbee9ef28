//! What is on its way out, and is not what it seems: gone without a word, or never told to go.

use std::sync::Arc;

use crate::seen::{PodSeen, Seen};
use crate::store::{At, Change, Group, GroupState, InstanceState, Store};

/// Something whose pods nobody has told to go.
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

/// What is on its way out and has pods that are not.
pub(crate) fn forgotten(store: &Store, seen: &Seen<'_>) -> Vec<Leftover> {
    let stays = |pod: &PodSeen<'_>| pod.thing.ours && !pod.terminating;
    let mut forgotten = Vec::new();
    for group in store.groups() {
        if group.state == GroupState::Deleting {
            if seen.pods_of_group(&group.name).any(stays) {
                forgotten.push(Leftover::Group(group.name.clone()));
            }
            continue;
        }
        let leaving = leaving(group);
        let leaving = leaving.filter(|at| seen.pods_of(&at.group, &at.role, &at.id).any(stays));
        forgotten.extend(leaving.map(Leftover::Instance));
    }
    forgotten
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
