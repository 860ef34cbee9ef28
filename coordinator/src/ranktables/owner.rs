//! Whom a record goes with, and whom events are about. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::group::RankGroup;
use super::member::Member;
use crate::names;

/// A ConfigMap goes when all its owners are gone; it does not name more than these.
const MOST: usize = 16;

const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";

impl RankGroup {
    /// Whom the record goes with: the JobSet, else the owners of the pods, else the pods themselves. With too many of
    /// them, nobody: the record is then deleted when the group has no pods.
    pub fn owners(&self) -> Vec<OwnerReference> {
        let mut owners: BTreeMap<String, OwnerReference> = BTreeMap::new();
        for member in self.members.values() {
            let owner =
                jobset(member).or_else(|| member.owner.clone()).unwrap_or_else(|| itself(member));
            owners.insert(owner.uid.clone(), owner);
            if owners.len() > MOST {
                return Vec::new();
            }
        }
        let plain =
            |owner| OwnerReference { controller: None, block_owner_deletion: None, ..owner };
        owners.into_values().map(plain).collect()
    }

    /// Whom events are about: the first owner, else the record.
    pub fn subject(&self) -> ObjectReference {
        let namespace = Some(self.key.namespace.clone());
        match self.owners().into_iter().next() {
            Some(OwnerReference { api_version, kind, name, uid, .. }) => ObjectReference {
                api_version: Some(api_version),
                kind: Some(kind),
                name: Some(name),
                uid: Some(uid),
                namespace,
                ..ObjectReference::default()
            },
            None => ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("ConfigMap".to_owned()),
                name: Some(names::record(&self.key.name)),
                uid: self.record().map(|record| record.uid.clone()).filter(|uid| !uid.is_empty()),
                namespace,
                ..ObjectReference::default()
            },
        }
    }
}

fn jobset(member: &Member) -> Option<OwnerReference> {
    let label = |key: &str| member.pod.labels.get(key).filter(|value| !value.is_empty()).cloned();
    // A pod can carry any label: only one that a Job made is believed, and then only about a JobSet.
    member.owner.as_ref().filter(|owner| owner.kind == "Job")?;
    Some(OwnerReference {
        api_version: "jobset.x-k8s.io/v1alpha2".to_owned(),
        kind: "JobSet".to_owned(),
        name: label(JOBSET_NAME)?,
        uid: label(JOBSET_UID)?,
        ..OwnerReference::default()
    })
}

fn itself(member: &Member) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: member.pod.name.clone(),
        uid: member.pod.uid.clone(),
        ..OwnerReference::default()
    }
}
