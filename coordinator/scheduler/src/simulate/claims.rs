//! Claims of devices after a cycle: what was given is theirs, what nobody uses any more is not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    decisions::{Action, Decision, Decisions},
    input::{Allocation, Consumer, ExtendedClaimStatus, Input, Meta, ResourceClaim},
};

/// Changes claims as a cycle has decided. Pods were changed before.
pub(super) fn apply(input: &mut Input, decisions: &Decisions) {
    let evicted: BTreeSet<&str> = decisions
        .decisions
        .iter()
        .filter(|it| it.action == Action::Evict && !it.node.is_empty())
        .map(|it| it.pod.as_str())
        .collect();
    for claim in &mut input.resource_claims {
        let namespace = &claim.metadata.namespace;
        let before = claim.status.reserved_for.len();
        let leaves =
            |user: &Consumer| evicted.contains(format!("{namespace}/{}", user.name).as_str());
        claim.status.reserved_for.retain(|user| !leaves(user));
        if before > 0 && claim.status.reserved_for.is_empty() {
            claim.status.allocation = None;
        }
    }
    let mut claims: BTreeMap<String, usize> = BTreeMap::new();
    for (at, claim) in input.resource_claims.iter().enumerate() {
        claims.insert(format!("{}/{}", claim.metadata.namespace, claim.metadata.name), at);
    }
    let bound = decisions.decisions.iter().filter(|it| it.action == Action::Bind);
    for decision in bound.filter(|it| !it.claims.is_empty() || it.extended_claim.is_some()) {
        let Some(pod) = input.pods.iter_mut().find(|pod| pod.key() == decision.pod) else {
            continue;
        };
        let user = Consumer {
            resource: "pods".to_owned(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        };
        for given in &decision.claims {
            let claim = claims.get(&given.claim).and_then(|at| input.resource_claims.get_mut(*at));
            if let Some(claim) = claim {
                give(claim, given.allocation.as_ref(), user.clone());
            }
        }
        if let Some(claim) = extended(decision, &pod.metadata) {
            let resource_claim_name = claim.metadata.name.clone();
            pod.status.extended_resource_claim_status =
                Some(ExtendedClaimStatus { resource_claim_name });
            input.resource_claims.push(claim);
        }
    }
}

fn give(claim: &mut ResourceClaim, allocation: Option<&Allocation>, user: Consumer) {
    if let Some(allocation) = allocation {
        claim.status.allocation = Some(allocation.clone());
    }
    claim.status.reserved_for.push(user);
}

/// The claim that is made for a pod's extended resources.
fn extended(decision: &Decision, pod: &Meta) -> Option<ResourceClaim> {
    let given = decision.extended_claim.as_ref()?;
    let mut claim = ResourceClaim::default();
    claim.metadata.namespace.clone_from(&pod.namespace);
    claim.metadata.name = format!("{}-extended-resources", pod.name);
    let user =
        Consumer { resource: "pods".to_owned(), name: pod.name.clone(), uid: pod.uid.clone() };
    give(&mut claim, Some(&given.allocation), user);
    Some(claim)
}
