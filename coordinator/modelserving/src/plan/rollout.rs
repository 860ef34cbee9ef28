//! What was made from another template goes, so that it is made anew: whole groups, or instances of a role.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Draft;
use crate::api::Role;
use crate::budget;
use crate::step::Step;
use crate::store::{At, Change, Group, GroupState, Instance, InstanceState};
use crate::wanted::{self, Wanted};

impl Draft<'_> {
    pub(super) fn rollout(&mut self) -> Result<(), String> {
        let groups = self.store.groups();
        let partition = usize::try_from(self.partition).unwrap_or_default();
        let after = groups.get(partition..).unwrap_or_default();
        if after.is_empty() {
            return Ok(());
        }
        let wanted = Wanted::of(self.serving);
        let up_to_date =
            |group: &&Group| group.revision == self.revision && !wanted.is_mixed(group, self.seen);
        let (new, mut old): (Vec<&Group>, Vec<&Group>) = after.iter().partition(up_to_date);
        // Who does not serve goes first, then who came last.
        old.sort_by_key(|group| (group.state == GroupState::Running, Reverse(group.ordinal)));
        let old: Vec<Arc<str>> = old.iter().map(|group| group.name.clone()).collect();
        if budget::by_role(self.serving) {
            return self.replace_instances(&old);
        }
        let away = budget::group_away(self.serving)
            .map_err(|error| format!("failed to calculate maxUnavailable: {error}"))?;
        let unready = new.iter().filter(|group| group.state != GroupState::Running).count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let needed = budget::replicas(self.serving) - away;
        let budget = number(groups.len()) - needed - number(unready);
        for group in old.iter().take(usize::try_from(budget).unwrap_or_default()) {
            self.delete_group(group);
        }
        Ok(())
    }

    fn replace_instances(&mut self, groups: &[Arc<str>]) -> Result<(), String> {
        for name in groups {
            let Some(group) = self.store.group(name).cloned() else { continue };
            match self.outdated(&group)? {
                // Nothing of it is of another template, though it may have been made with one.
                None => {
                    let change = Change::GroupRevision(name.clone(), self.revision.clone());
                    self.push(Step::change(change));
                }
                Some(leaving) => {
                    for at in leaving {
                        self.delete_instance(&at);
                    }
                }
            }
        }
        Ok(())
    }

    /// The instances that go now; `None` if no instance is outdated.
    fn outdated(&self, group: &Group) -> Result<Option<Vec<At>>, String> {
        let roles = &self.serving.spec.template.roles;
        let mut leaving = Vec::new();
        let mut outdated = false;
        for role in roles {
            let instances = group.instances(&role.name);
            outdated |= self.outdated_of(group, role, instances, &mut leaving)?;
        }
        // Roles that nobody asks for any more go at once.
        for known in
            group.roles.iter().filter(|it| !roles.iter().any(|role| *role.name == *it.role))
        {
            for instance in known.list.iter().filter(|it| it.state != InstanceState::Deleting) {
                outdated = true;
                let (role, id) = (known.role.clone(), instance.id.clone());
                leaving.push(At { group: group.name.clone(), role, id });
            }
        }
        Ok(outdated.then_some(leaving))
    }

    fn outdated_of(
        &self,
        group: &Group,
        role: &Role,
        instances: &[Instance],
        leaving: &mut Vec<At>,
    ) -> Result<bool, String> {
        let hash = crate::revision::role(role);
        let partition = budget::role_partition(self.serving, role).map_err(|error| {
            format!("failed to parse partition for role {}: {error}", role.name)
        })?;
        let partition = usize::try_from(partition).unwrap_or_default();
        let mut away = 0;
        let mut old: Vec<&Instance> = Vec::new();
        let mut kept = false;
        for (place, instance) in instances.iter().enumerate() {
            if instance.state == InstanceState::Deleting {
                away += 1;
                continue;
            }
            // Without its template nobody can say that it is outdated.
            let Some(known) = self.hash_of(group, &role.name, instance) else { continue };
            let others = !wanted::hides_hash(role)
                && wanted::has_others(group, &role.name, instance, &hash, self.seen);
            if *known != *hash || others {
                if place < partition {
                    kept = true;
                } else {
                    old.push(instance);
                }
            } else if instance.state != InstanceState::Running {
                away += 1;
            }
        }
        if old.is_empty() {
            return Ok(kept);
        }
        old.sort_by_key(|it| (it.state == InstanceState::Running, Reverse(it.ordinal)));
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let count = budget::may_go(role, number(old.len()), number(instances.len()), away);
        let count = usize::try_from(count.unwrap_or_default()).unwrap_or_default();
        leaving.extend(old.iter().take(count).map(|instance| At {
            group: group.name.clone(),
            role: role.name.as_str().into(),
            id: instance.id.clone(),
        }));
        Ok(true)
    }
}
