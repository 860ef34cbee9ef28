//! What is said of evictions: for whom and why, on each pod, and once for all pods of a group that go together.

use std::collections::BTreeMap;

use muster_scheduler::reason::Eviction;

use crate::cluster::Cluster;
use crate::fault::{ACTION, Group};
use crate::object::{Name, read, shown};
use crate::orders::Evict;

/// Reason of a group's event, as KAI writes it.
pub const EVICT: &str = "Evict";
/// Reason of a pod's and an owner's event: a group of higher priority gets the room.
pub const PREEMPTED: &str = "Preempted";
/// Reason of a pod's and an owner's event: a queue below its share gets the room.
pub const RECLAIMED: &str = "Reclaimed";
/// Reason of a pod's and an owner's event: it moves, and that makes room.
pub const CONSOLIDATED: &str = "Consolidated";
/// Reason of a pod's and an owner's event: its own gang is incomplete, or stands on something bad.
pub const EVICTED: &str = "Evicted";
/// Names of pods in one message.
const NAMED: usize = 5;

/// Pods of one group that go in one cycle, for the same group.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Their group; none if the pods are of none.
    pub group: Option<Group>,
    /// The pods.
    pub pods: Vec<Evict>,
}

/// The evictions of a cycle, by the group that loses pods, for whom and how.
pub fn batches(cluster: &Cluster, evictions: Vec<Evict>) -> Vec<Batch> {
    let mut batches: BTreeMap<_, Batch> = BTreeMap::new();
    for evict in evictions {
        let group = cluster.pod(&evict.pod).and_then(|pod| {
            let (dialect, group) = pod.group()?;
            Some((dialect, crate::object::name(&pod.metadata.namespace, group)))
        });
        // Pods of no group have nobody else to speak for them.
        let alone = group.is_none().then(|| evict.pod.clone());
        let Eviction { action, beneficiary, moved, .. } = &evict.why;
        let key = (group.clone(), alone, *action, beneficiary.clone(), *moved);
        let batch = batches.entry(key).or_insert_with(|| Batch { group, pods: Vec::new() });
        batch.pods.push(evict);
    }
    batches.into_values().collect()
}

/// The reason of events on pods and owners.
pub fn reason(why: &Eviction) -> &'static str {
    match why.action {
        "preempt" => PREEMPTED,
        "reclaim" => RECLAIMED,
        "consolidation" => CONSOLIDATED,
        _ => EVICTED,
    }
}

/// Whether the group is told of it by another event: a restart because of a fault is.
pub fn is_noted(why: &Eviction) -> bool {
    why.action == ACTION
}

/// Which pods go, for whom and why, in one sentence. Empty if there are none.
pub fn message(pods: &[&Name], why: &Eviction) -> String {
    let named: Vec<String> = pods.iter().take(NAMED).map(|pod| shown(pod)).collect();
    let (who, were) = match (named.as_slice(), pods.len().saturating_sub(NAMED)) {
        ([], _) => return String::new(),
        ([one], _) => (format!("Pod {one}"), "was"),
        (some, 0) => (format!("Pods {}", some.join(", ")), "were"),
        (some, more) => (format!("Pods {} and {more} more", some.join(", ")), "were"),
    };
    let winner = why.beneficiary.as_deref().unwrap_or("another");
    let what = match why.action {
        "preempt" => format!("preempted by higher priority workload {winner}"),
        "reclaim" => {
            format!("preempted by workload {winner}, which reclaims what its queue is due")
        }
        "consolidation" => format!("moved to make room for workload {winner}"),
        _ => "evicted".to_owned(),
    };
    let is_moved = why.moved && why.action != "consolidation";
    let moved = if is_moved { ", and another place is found" } else { "" };
    match why.lawful.as_str() {
        "" => format!("{who} {were} {what}{moved}"),
        lawful => format!("{who} {were} {what}{moved}: {lawful}"),
    }
}

/// Annotations of the group's event: those that KAI's users read.
pub fn annotations(pods: usize, why: &Eviction) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([
        ("num-evicted-pods".to_owned(), pods.to_string()),
        ("evictor-action-type".to_owned(), why.action.to_owned()),
    ]);
    if let Some(winner) = &why.beneficiary {
        let (namespace, name) = read(winner);
        annotations.insert("evictor-pod-group-namespace".to_owned(), namespace.to_string());
        annotations.insert("evictor-pod-group-name".to_owned(), name.to_string());
    }
    annotations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::name;

    fn why(action: &'static str, moved: bool) -> Eviction {
        Eviction {
            action,
            beneficiary: Some("team/big".to_owned()),
            lawful: "priority 50 gives way to 100".to_owned(),
            freed: Default::default(),
            moved,
        }
    }

    #[test]
    fn a_message_says_who_goes_for_whom_and_why() {
        let pods: Vec<Name> = (0..7).map(|at| name("lab", &format!("p-{at}"))).collect();
        let all: Vec<&Name> = pods.iter().collect();
        let why = why("preempt", false);
        assert_eq!(
            message(&all[..1], &why),
            "Pod lab/p-0 was preempted by higher priority workload team/big: priority 50 gives way to 100"
        );
        let many = message(&all, &why);
        assert!(
            many.starts_with("Pods lab/p-0, lab/p-1, lab/p-2, lab/p-3, lab/p-4 and 2 more were")
        );
        assert_eq!(message(&[], &why), "");
    }

    #[test]
    fn a_reason_is_the_action_in_the_past_tense() {
        let said = ["preempt", "reclaim", "consolidation", "stalegangeviction"]
            .map(|action| reason(&why(action, false)));
        assert_eq!(said, ["Preempted", "Reclaimed", "Consolidated", "Evicted"]);
    }

    #[test]
    fn annotations_name_the_group_that_gets_the_room() {
        let found = annotations(3, &why("reclaim", false));
        let expected = [
            ("evictor-action-type", "reclaim"),
            ("evictor-pod-group-name", "big"),
            ("evictor-pod-group-namespace", "team"),
            ("num-evicted-pods", "3"),
        ];
        assert!(found.iter().map(|(key, text)| (key.as_str(), text.as_str())).eq(expected));
    }
}
