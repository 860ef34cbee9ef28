//! Whose a ModelServing is that has the name of a LeaderWorkerSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{KIND, LeaderWorkerSet};

/// Whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The LeaderWorkerSet's: it decides what is in it.
    Ours,
    /// That of a LeaderWorkerSet which had this name before. It goes with it.
    Leaving,
    /// Somebody else's; in words for people.
    Another(String),
}

// === impl LeaderWorkerSet ===

impl LeaderWorkerSet {
    /// Whose the ModelServing with this metadata is. One without an owner is ours if `manager` has applied it: its
    /// LeaderWorkerSet was deleted and its objects were kept.
    pub fn ownership(&self, serving: &ObjectMeta, manager: &str) -> Ownership {
        let owners = serving.owner_references.as_deref().unwrap_or_default();
        if let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) {
            return if Some(&owner.uid) == self.metadata.uid.as_ref() {
                Ownership::Ours
            } else if owner.kind == KIND && Some(&owner.name) == self.metadata.name.as_ref() {
                Ownership::Leaving
            } else {
                Ownership::Another(format!("belongs to {} {}", owner.kind, owner.name))
            };
        }
        let mut entries = serving.managed_fields.iter().flatten();
        let applied = entries.any(|entry| {
            entry.manager.as_deref() == Some(manager) && entry.operation.as_deref() == Some("Apply")
        });
        if applied { Ownership::Ours } else { Ownership::Another("has no owner".to_owned()) }
    }
}
