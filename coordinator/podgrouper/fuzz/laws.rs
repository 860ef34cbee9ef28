//! What must hold of every cluster, whatever is in it: the first of its objects is the pod.
//!
//! ```text
//!   targets/cluster.rs (libFuzzer) ───┐
//!                                     ├──▶ a law: bytes in, asserts inside; says whether a group was made
//!   ../tests/behaviour/laws.rs ───────┘
//! ```

use std::collections::BTreeSet;

use muster_podgrouper::admission::pod::Sharing;
use muster_podgrouper::admission::strict::Strict;
use muster_podgrouper::admission::{Refused, pod_group, queue, topology};
use muster_podgrouper::group::{Action, Outcome};
use muster_podgrouper::{Config, Given, GroupError, Object, group};
use serde_json::Value;

/// A list of objects is a cluster; its first is grouped, and all are judged.
pub fn cluster(bytes: &[u8]) -> bool {
    let Ok(Value::Array(raw)) = serde_json::from_slice::<Value>(bytes) else { return false };
    let objects: Vec<Object> = raw.into_iter().map(Object::new).collect();
    let Some(pod) = objects.first() else { return false };
    let mut given = Given::new(objects.iter().cloned());
    for object in &objects {
        admitted(object, &given);
    }
    let config = Config::default();
    let first = group(pod, &given, &config);
    assert_eq!(first, group(pod, &given, &config), "it is decided the same again");
    match first {
        Err(error) => {
            told(&error);
            false
        }
        Ok(outcome) => {
            let Some(written) = outcome.pod_group.clone() else {
                assert!(matches!(outcome.action, Action::Skipped(_)) && outcome.pod.is_none());
                return true;
            };
            names(&written, &outcome);
            // Who reads what was written, with the same pod, finds nothing to do.
            given.put(Object::new(written));
            match group(pod, &given, &config) {
                Ok(second) => assert_eq!(second.action, Action::Unchanged),
                Err(error) => told(&error),
            }
            true
        }
    }
}

fn told(error: &GroupError) {
    assert!(!error.detail.is_empty() && !error.remedy.is_empty(), "{error}");
    assert!(error.to_string().contains(error.remedy));
}

/// The pod's part is a leaf of the group, and parents are parts.
fn names(group: &Value, outcome: &Outcome) {
    let parts = group["spec"]["subGroups"].as_array().cloned().unwrap_or_default();
    let all: BTreeSet<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    let parents: BTreeSet<&str> = parts.iter().filter_map(|part| part["parent"].as_str()).collect();
    assert!(parents.is_subset(&all), "{group}");
    let Some(marks) = &outcome.pod else { return };
    assert_eq!(marks.annotations.len(), 1);
    for part in marks.labels.values() {
        assert!(all.contains(part.as_str()), "{part} is none of {all:?}");
    }
}

fn admitted(object: &Object, given: &Given) {
    let refused = |refused: Refused| {
        assert!(!refused.detail.is_empty() && !refused.remedy.is_empty(), "{refused}");
        assert!(!refused.field.is_empty() && !refused.class.is_empty());
    };
    for is_update in [false, true] {
        let _ = pod_group::check(object, is_update).map_err(refused);
    }
    for quotas in [false, true] {
        let _ = queue::check(object, Some(object), given, quotas).map_err(refused);
    }
    let _ = queue::check_delete(object).map_err(refused);
    let _ = topology::check(object).map_err(refused);
    let strict = Strict::default();
    let _ = strict.pod_group(object, None, given).map_err(refused);
    let _ = strict.queue(object, given).map_err(refused);
    let _ = strict.pod(object).map_err(refused);
    let sharing = Sharing::default();
    let _ = sharing.check(object).map_err(refused);
    match sharing.mutate(object, "a", "abcdefg") {
        Err(error) => refused(error),
        Ok(once) => {
            let again = sharing.mutate(&Object::new(once.clone()), "a", "abcdefg");
            assert_eq!(again, Ok(once), "it is dressed once");
        }
    }
}
