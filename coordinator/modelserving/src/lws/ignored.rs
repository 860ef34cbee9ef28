//! What of a LeaderWorkerSet has no counterpart in a ModelServing: it is named, so that nobody waits for it.

use serde_json::Value;

use super::LeaderWorkerSet;
use super::convert::scheduler;

/// Fields that are taken over, or whose only value says what happens anyway.
const KNOWN: [(&str, &[&str]); 3] = [
    (
        "/spec",
        &["replicas", "leaderWorkerTemplate", "startupPolicy", "rolloutStrategy", "networkConfig"],
    ),
    (
        "/spec/leaderWorkerTemplate",
        &["leaderTemplate", "workerTemplate", "size", "restartPolicy", "subGroupPolicy"],
    ),
    ("/spec/rolloutStrategy", &["type", "rollingUpdateConfiguration"]),
];

/// Fields whose other values are not followed: where, the values that are, and what happens instead. Without values, whatever is
/// there is not followed.
const NOT_FOLLOWED: [(&str, &[&str], &str); 7] = [
    (
        "/spec/startupPolicy",
        &["\"LeaderCreated\""],
        "workers are created with their leader; let them wait for $(ENTRY_ADDRESS)",
    ),
    (
        "/spec/leaderWorkerTemplate/restartPolicy",
        &["\"RecreateGroupOnPodRestart\""],
        "a pod that is lost takes its group with it",
    ),
    ("/spec/leaderWorkerTemplate/subGroupPolicy", &[], "there are no subgroups"),
    (
        "/spec/rolloutStrategy/rollingUpdateConfiguration/partition",
        &["0"],
        "all groups get the new template",
    ),
    (
        "/spec/rolloutStrategy/rollingUpdateConfiguration/maxUnavailable",
        &["1"],
        "one group is replaced at a time",
    ),
    (
        "/spec/rolloutStrategy/rollingUpdateConfiguration/maxSurge",
        &["0"],
        "there are no further groups during an update",
    ),
    ("/spec/networkConfig", &[], "pods find their leader at $(ENTRY_ADDRESS)"),
];

/// Annotations that the LeaderWorkerSet operator follows.
const EXCLUSIVE: [&str; 2] = [
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
];

/// Variables that the LeaderWorkerSet operator gives to pods, and those that they have instead.
const VARIABLES: [(&str, &str); 3] = [
    ("LWS_LEADER_ADDRESS", "ENTRY_ADDRESS"),
    ("LWS_GROUP_SIZE", "GROUP_SIZE"),
    ("LWS_WORKER_INDEX", "WORKER_INDEX"),
];

// === impl LeaderWorkerSet ===

impl LeaderWorkerSet {
    /// What the ModelServing does not follow: each field with what happens instead.
    pub fn ignored(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (at, followed, instead) in NOT_FOLLOWED {
            let value = self.raw.pointer(at).filter(|value| !value.is_null());
            let Some(value) = value.map(Value::to_string) else { continue };
            if !followed.contains(&value.as_str()) {
                all.push(match followed {
                    [] => format!("{}: {instead}", dotted(at)),
                    _ => format!("{}={}: {instead}", dotted(at), value.trim_matches('"')),
                });
            }
        }
        for (at, known) in KNOWN {
            let fields = self.raw.pointer(at).and_then(Value::as_object).into_iter().flatten();
            let unknown =
                fields.filter(|(key, value)| !value.is_null() && !known.contains(&key.as_str()));
            all.extend(
                unknown.map(|(key, _)| format!("{}.{key}: it is not taken over", dotted(at))),
            );
        }
        let annotations = self.metadata.annotations.as_ref();
        for key in
            EXCLUSIVE.into_iter().filter(|key| annotations.is_some_and(|it| it.contains_key(*key)))
        {
            all.push(format!(
                "metadata.annotations[{key}]: no domain is kept for one group alone; ask for one domain for each with kai.scheduler/topology"
            ));
        }
        self.ignored_of_pods(&mut all);
        all
    }

    fn ignored_of_pods(&self, all: &mut Vec<String>) {
        let template = &self.spec.leader_worker_template;
        let (leader, worker) = (scheduler(self.leader()), scheduler(&template.worker_template));
        if leader != worker {
            let one = if leader.is_empty() { "the default scheduler" } else { leader };
            all.push(format!(
                "spec.leaderWorkerTemplate.workerTemplate.spec.schedulerName={worker}: {one} places all pods, as the leader's template says"
            ));
        }
        let text = serde_json::to_string(&template.worker_template).unwrap_or_default()
            + &serde_json::to_string(self.leader()).unwrap_or_default();
        for (theirs, ours) in VARIABLES.into_iter().filter(|(theirs, _)| text.contains(theirs)) {
            all.push(format!("the variable {theirs}: pods have {ours}"));
        }
    }
}

/// A pointer as people write the field.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
