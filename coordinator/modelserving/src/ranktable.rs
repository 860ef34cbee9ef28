//! Which pods of a ModelServing share a rank table, and the marks that say so.
//!
//! | level | shape | rank group | pods |
//! |---|---|---|---|
//! | `role` | Kthena's | `<name>-<group>-<role>-<instance>` | the entry and the workers of one instance |
//! | `role`, scope `role-name` | Kthena's | `<name>-<role>` | all instances in all groups |
//! | `role` | the short one | `<name>-<role>` | all of the role |
//! | `group` | both | `<name>-<group>` | all of one serving group |
//!
//! The annotation `kthena.io/ranktable-template` asks for tables; without it there are none and nothing is marked. The
//! level is the ModelServing's, else its template's, else `role`. The table's ConfigMap is `<rank group>-ranktable`.
//!
//! A size is what the spec asks for, not what happens to exist: a table is made when all are there. Sizes follow the
//! roles that a pod is made from, which are older ones while a rollout holds some groups back: see
//! [`Ranktables::of_roles`] and [`Sizes`].

mod error;
pub mod names;
mod short;
mod sizes;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_kube::rank_group::{self, Marks, RANKTABLE_TEMPLATE, annotation};
use muster_ranktable::names::record;
use muster_ranktable::{Level, MOST_PODS};

use crate::api::{ModelServing, Role};
use crate::shape::Shape;

pub use error::RanktableError;
pub use sizes::Sizes;

/// What a ModelServing wants of rank tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranktables {
    serving: String,
    template: String,
    unit: Unit,
    groups: u64,
    roles: Vec<Share>,
    copied: BTreeMap<String, String>,
}

/// Who shares a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Instance,
    Role,
    Group,
}

/// How many pods a role has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    role: String,
    instances: u64,
    pods: u64,
}

/// No group has more pods.
const MOST: u64 = MOST_PODS as u64;

/// The place of a pod in its ModelServing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'a> {
    /// Its serving group: `<name>-<number>`.
    pub group: &'a str,
    /// Its role.
    pub role: &'a str,
    /// Its instance of the role: `<role>-<number>`.
    pub role_id: &'a str,
    /// Its number in the instance; the entry pod is 0.
    pub index: u32,
}

/// Pods that share a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankGroup {
    /// Its name, which is also the value of a label.
    pub name: String,
    /// How many pods.
    pub size: u64,
}

// === impl Ranktables ===

impl Ranktables {
    /// The ConfigMap of the template that a ModelServing asks for; none if it wants no tables.
    pub fn template_of(metadata: &ObjectMeta) -> Option<&str> {
        annotation(metadata.annotations.as_ref(), &RANKTABLE_TEMPLATE).map(|(_, name)| name)
    }

    /// Reads what a ModelServing wants; none if it wants no tables. `template` is the level that the template says.
    pub fn read(
        serving: &ModelServing,
        shape: Shape,
        template: Option<Level>,
    ) -> Result<Option<Self>, RanktableError> {
        let metadata = &serving.metadata;
        let Some(name) = Self::template_of(metadata) else { return Ok(None) };
        let level = match annotation(metadata.annotations.as_ref(), &names::RANKTABLE_LEVEL) {
            None => template.unwrap_or_default(),
            Some((key, word)) => Level::parse(word).ok_or_else(|| RanktableError::Level {
                object: full_name(metadata),
                key,
                value: shown(word),
            })?,
        };
        let unit = match (level, shape) {
            (Level::Group, _) => Unit::Group,
            (Level::Role, Shape::Short) => Unit::Role,
            (Level::Role, Shape::Kthena) => scope(metadata)?,
        };
        let wanted = Self {
            serving: metadata.name.clone().unwrap_or_default(),
            template: name.to_owned(),
            unit,
            groups: count(serving.spec.replicas.unwrap_or(1)),
            roles: Vec::new(),
            copied: rank_group::copied(metadata.annotations.as_ref(), &rank_group::COPIED),
        };
        Ok(Some(wanted.of_roles(&serving.spec.template.roles)))
    }

    /// The same for pods that are made from these roles.
    #[must_use]
    pub fn of_roles(&self, roles: &[Role]) -> Self {
        let share = |role: &Role| Share {
            role: role.name.clone(),
            instances: count(role.replicas.unwrap_or(1)),
            pods: count(role.worker_replicas) + 1,
        };
        Self { roles: roles.iter().map(share).collect(), ..self.clone() }
    }

    /// The ConfigMap of the template.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The rank group of a pod; none if there is no such role.
    pub fn group(&self, slot: &Slot<'_>) -> Option<RankGroup> {
        let share = self.roles.iter().find(|share| share.role == slot.role)?;
        let (name, size) = match self.unit {
            Unit::Instance => (format!("{}-{}", slot.group, slot.role_id), share.pods),
            Unit::Role => {
                (format!("{}-{}", self.serving, slot.role), self.groups.saturating_mul(share.all()))
            }
            Unit::Group => {
                let all = self.roles.iter().map(Share::all).fold(0, u64::saturating_add);
                (slot.group.to_owned(), all)
            }
        };
        Some(RankGroup { name: short::label(name), size })
    }

    /// What a pod carries that is made now, from the roles of its slot.
    pub fn marks_of(&self, slot: &crate::pod::Slot<'_>) -> Marks {
        let index = u32::try_from(slot.index).unwrap_or_default();
        let place = Slot { group: slot.group, role: slot.role, role_id: slot.role_id, index };
        self.of_roles(slot.roles).marks(&place)
    }

    /// The first role whose pods would be in a group of more than [`MOST_PODS`].
    pub fn over_limit(&self, metadata: &ObjectMeta) -> Option<RanktableError> {
        let shares = self.roles.iter().filter(|share| share.all() > 0);
        let mut sizes = shares.map(|share| (&share.role, self.size(&share.role)));
        let (role, size) = sizes.find(|(_, size)| *size > MOST)?;
        Some(RanktableError::Size { object: full_name(metadata), role: role.clone(), size })
    }

    /// Whether a pod that is made now, from the roles of its slot, would be in such a group.
    pub fn is_over_limit(&self, slot: &crate::pod::Slot<'_>) -> bool {
        self.of_roles(slot.roles).size(slot.role) > MOST
    }

    fn size(&self, role: &str) -> u64 {
        let slot = Slot { group: "", role, role_id: "", index: 0 };
        self.group(&slot).map_or(0, |group| group.size)
    }

    /// Whether scaling a role changes the size of groups that are there.
    pub fn sizes_change(&self) -> bool {
        self.unit != Unit::Instance
    }

    /// What a pod carries; nothing if there is no such role.
    pub fn marks(&self, slot: &Slot<'_>) -> Marks {
        let Some(group) = self.group(slot) else { return Marks::default() };
        let mut marks = Marks::new(group.name, group.size, &self.template);
        marks.annotations.extend(self.copied.clone());
        marks
    }
}

// === impl Share ===

impl Share {
    /// Pods of one serving group.
    fn all(&self) -> u64 {
        self.instances.saturating_mul(self.pods)
    }
}

// === impl RankGroup ===

impl RankGroup {
    /// The ConfigMap of its table.
    pub fn record(&self) -> String {
        record(&self.name)
    }
}

fn scope(metadata: &ObjectMeta) -> Result<Unit, RanktableError> {
    match annotation(metadata.annotations.as_ref(), &names::RANKTABLE_SCOPE) {
        None | Some((_, "role-instance")) => Ok(Unit::Instance),
        Some((_, "role-name")) => Ok(Unit::Role),
        Some((key, word)) => {
            Err(RanktableError::Scope { object: full_name(metadata), key, value: shown(word) })
        }
    }
}

fn full_name(metadata: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// Conditions are read by people: forty characters are enough.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

fn count(number: i32) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
