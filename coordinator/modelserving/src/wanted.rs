//! What the roles are now, and whether something was made from them.
//!
//! An update that is taken back half way leaves groups that have the right revision and instances or pods of the
//! wrong one: these are outdated too.

use crate::api::{ModelServing, Role};
use crate::naming;
use crate::revision;
use crate::seen::Seen;
use crate::store::{Group, Instance, InstanceState};

/// The roles that are asked for, by the hashes that their pods should have.
pub(crate) struct Wanted<'a> {
    /// No hash where the template has a label of its own in its place: then pods do not tell.
    roles: Vec<(&'a str, Option<String>)>,
}

// === impl Wanted ===

impl<'a> Wanted<'a> {
    pub fn of(serving: &'a ModelServing) -> Wanted<'a> {
        let hash = |role: &Role| (!hides_hash(role)).then(|| revision::role(role));
        let roles = serving.spec.template.roles.iter();
        Wanted { roles: roles.map(|role| (&*role.name, hash(role))).collect() }
    }

    /// Something in the group was made from another role.
    pub fn is_mixed(&self, group: &Group, seen: &Seen<'_>) -> bool {
        group.roles.iter().any(|known| {
            let wanted = self.roles.iter().find(|(role, _)| **role == *known.role);
            let mut staying = known.list.iter().filter(|it| it.state != InstanceState::Deleting);
            match wanted {
                None => staying.next().is_some(),
                Some((_, None)) => false,
                Some((role, Some(hash))) => staying.any(|instance| {
                    (!instance.hash.is_empty() && *instance.hash != **hash)
                        || has_others(group, role, instance, hash, seen)
                }),
            }
        })
    }

    /// Every role is there, and all of it was made from what is asked for now.
    pub fn is_met(&self, group: &Group, seen: &Seen<'_>) -> bool {
        let same = |(role, hash): &(&str, Option<String>)| {
            let instances = group.instances(role);
            !instances.is_empty()
                && instances.iter().all(|it| hash.as_ref().is_some_and(|hash| *it.hash == **hash))
        };
        self.roles.iter().all(same) && !self.is_mixed(group, seen)
    }
}

/// An instance has pods that were made from another role than this.
pub(crate) fn has_others(
    group: &Group,
    role: &str,
    instance: &Instance,
    hash: &str,
    seen: &Seen<'_>,
) -> bool {
    let mut pods = seen.pods_of(&group.name, role, &instance.id);
    pods.any(|pod| {
        pod.thing.ours && !pod.thing.terminating && !pod.hash.is_empty() && pod.hash != hash
    })
}

/// A template of the role has its own label where the hash would be.
pub(crate) fn hides_hash(role: &Role) -> bool {
    let templates = [Some(&role.entry_template), role.worker_template.as_ref()];
    let labels = templates.into_iter().flatten().filter_map(|it| it.metadata.as_ref());
    labels.filter_map(|it| it.labels.as_ref()).any(|it| it.contains_key(naming::ROLE_HASH))
}
