//! How many pods rank groups have while serving groups are made from different roles: a partition or a rollout holds
//! some of them back, and those have as many pods as their own roles say.

use std::collections::BTreeMap;

use super::{RankGroup, Ranktables, Share, Slot, Unit};
use crate::api::ModelServing;
use crate::naming;
use crate::revision;
use crate::seen::Seen;

/// The rank groups of the pods that are there.
#[derive(Debug)]
pub struct Sizes<'a> {
    tables: &'a Ranktables,
    /// By revision, as far as older roles were written down.
    older: BTreeMap<&'a str, Ranktables>,
    /// The revision of each serving group, by ordinal; none if its pods do not agree.
    groups: BTreeMap<(i64, &'a str), Option<&'a str>>,
}

// === impl Sizes ===

impl<'a> Sizes<'a> {
    /// Looks at all pods that stay.
    pub fn of(tables: &'a Ranktables, serving: &ModelServing, seen: &Seen<'a>) -> Sizes<'a> {
        let current = revision::roles(&serving.spec.template.roles);
        let mut groups = BTreeMap::new();
        let mut older = BTreeMap::new();
        let pods = seen.pods().iter();
        for pod in pods.filter(|pod| pod.thing.ours && !pod.thing.terminating) {
            let (group, revision) = (pod.thing.group, pod.revision);
            let known = groups.entry((naming::ordinal(group), group)).or_insert(Some(revision));
            if *known != Some(revision) {
                *known = None;
            }
            if *revision != *current && !older.contains_key(revision) {
                let roles = seen.roles_of(serving, revision);
                older.insert(revision, roles.map(|roles| tables.of_roles(&roles)));
            }
        }
        let older = older.into_iter().filter_map(|(key, tables)| Some((key, tables?))).collect();
        Sizes { tables, older, groups }
    }

    /// The rank group of a pod; none if there is no such role.
    pub fn group(&self, slot: &Slot<'_>) -> Option<RankGroup> {
        let known = self.groups.get(&(naming::ordinal(slot.group), slot.group));
        let mut group = self.tables_of(known.copied().flatten()).group(slot)?;
        if self.tables.unit == Unit::Role {
            group.size = self.of_role(slot.role);
        }
        Some(group)
    }

    /// All pods of a role: groups that are not there yet are made from what is asked for now.
    fn of_role(&self, role: &str) -> u64 {
        let share = |tables: &Ranktables| {
            let share = tables.roles.iter().find(|share| share.role == role);
            share.map_or(0, Share::all)
        };
        let wanted = usize::try_from(self.tables.groups).unwrap_or(usize::MAX);
        let there = self.groups.values().take(wanted);
        let there = there.map(|revision| share(self.tables_of(*revision)));
        let missing = wanted.saturating_sub(self.groups.len());
        let missing = u64::try_from(missing).unwrap_or(u64::MAX);
        there.fold(missing.saturating_mul(share(self.tables)), u64::saturating_add)
    }

    fn tables_of(&self, revision: Option<&str>) -> &Ranktables {
        revision.and_then(|revision| self.older.get(revision)).unwrap_or(self.tables)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ControllerRevision;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::seen::PodGroupApi;
    use crate::shape::Shape;

    /// Three groups of one role, with so many workers in each of two instances.
    fn serving(workers: i32, more: (&str, &str)) -> ModelServing {
        let mut annotations = json!({"kthena.io/ranktable-template": "t"});
        annotations[more.0] = more.1.into();
        serde_json::from_value(json!({
            "metadata": {"name": "llm", "namespace": "serve", "uid": "u", "annotations": annotations},
            "spec": {"replicas": 3, "template": {"roles": [
                {"name": "server", "replicas": 2, "workerReplicas": workers}]}},
        }))
        .unwrap()
    }

    fn pod(owner: &Value, group: &str, revision: &str) -> Pod {
        let labels = json!({naming::NAME: "llm", naming::GROUP: group, naming::ROLE: "server",
            naming::ROLE_ID: "server-0", naming::REVISION: revision});
        let metadata = json!({"name": format!("{group}-server-0-0"), "labels": labels,
            "ownerReferences": [owner]});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// The sizes in the first, the second and the third group: only the first is made from older roles.
    fn sizes(more: (&str, &str)) -> [u64; 3] {
        let (old, new) = (serving(0, more), serving(3, more));
        let [before, after] = [&old, &new].map(|it| revision::roles(&it.spec.template.roles));
        let owner = Shape::Kthena.owner(&new);
        let kept: ControllerRevision = serde_json::from_value(json!({
            "metadata": {"name": naming::revision("llm", &before), "ownerReferences": [owner]},
            "revision": 1, "data": {"data": old.spec.template.roles},
        }))
        .unwrap();
        let pods = [pod(&owner, "llm-0", &before), pod(&owner, "llm-1", &after)];
        let mut seen = Seen::new(&new, Shape::Kthena, PodGroupApi::Absent);
        seen.revision(&kept);
        pods.iter().for_each(|pod| seen.pod(pod));
        let tables = Ranktables::read(&new, Shape::Kthena, None).unwrap().unwrap();
        let sizes = Sizes::of(&tables, &new, &seen);
        ["llm-0", "llm-1", "llm-2"].map(|group| {
            let slot = Slot { group, role: "server", role_id: "server-0", index: 0 };
            sizes.group(&slot).unwrap().size
        })
    }

    #[test]
    fn a_group_of_older_roles_has_its_own_size() {
        assert_eq!(sizes(("kthena.io/ranktable-level", "group")), [2, 8, 8]);
    }

    #[test]
    fn a_role_has_one_size_in_all_groups() {
        assert_eq!(sizes(("kthena.io/ranktable-scope", "role-name")), [18; 3]);
    }
}
