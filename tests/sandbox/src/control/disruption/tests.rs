//! How many pods may go.

use serde_json::json;

use super::*;

fn pods(ready: usize, waiting: usize) -> Vec<Arc<Value>> {
    let pod = |i: usize, ready: bool| {
        let value = if ready { "True" } else { "False" };
        Arc::new(json!({"metadata": {"name": format!("p{i}")},
            "status": {"conditions": [{"type": "Ready", "status": value}]}}))
    };
    (0..ready + waiting).map(|i| pod(i, i < ready)).collect()
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

#[test]
fn the_budget_is_what_is_healthy_beyond_what_must_be() {
    for (spec, ready, waiting, whole, desired, allowed) in [
        (json!({"minAvailable": 2}), 3, 0, 3, 2, 1),
        (json!({"minAvailable": 2}), 2, 1, 3, 2, 0),
        (json!({"minAvailable": "50%"}), 3, 0, 3, 2, 1),
        (json!({"minAvailable": "100%"}), 3, 0, 3, 3, 0),
        (json!({"maxUnavailable": 1}), 3, 0, 3, 2, 1),
        (json!({"maxUnavailable": 1}), 2, 1, 3, 2, 0),
        (json!({"maxUnavailable": "34%"}), 3, 0, 3, 1, 2),
        (json!({"maxUnavailable": 0}), 3, 0, 3, 3, 0),
        (json!({"maxUnavailable": 5}), 3, 0, 3, 0, 3),
        (json!({"minAvailable": 0}), 0, 0, 0, 0, 0),
    ] {
        let budget = json!({"metadata": {"generation": 4}, "spec": spec});
        let status = status(&budget, &pods(ready, waiting), &Expected::Pods(whole), now());
        assert_eq!(status["desiredHealthy"], desired, "{spec}");
        assert_eq!(status["disruptionsAllowed"], allowed, "{spec}");
        assert_eq!(status["currentHealthy"], ready);
        assert_eq!(status["expectedPods"], whole);
        assert_eq!(status["observedGeneration"], 4);
        let value = if allowed > 0 { "True" } else { "False" };
        assert_eq!(status["conditions"][0]["status"], value);
    }
}

#[test]
fn an_evicted_pod_does_not_count_until_it_is_gone_or_patience_ends() {
    let budget = |at: &str| {
        json!({"metadata": {}, "spec": {"minAvailable": 1},
            "status": {"disruptedPods": {"p0": at, "other": at}}})
    };
    let fresh = status(&budget("2026-01-02T03:03:05Z"), &pods(2, 0), &Expected::Pods(2), now());
    assert_eq!(fresh["disruptionsAllowed"], 0);
    assert_eq!(fresh["disruptedPods"], json!({"p0": "2026-01-02T03:03:05Z"}));
    let old = status(&budget("2026-01-02T03:02:05Z"), &pods(2, 0), &Expected::Pods(2), now());
    assert_eq!(old["disruptionsAllowed"], 1);
    assert_eq!(old.get("disruptedPods"), None);
}

#[test]
fn a_status_that_is_right_stays_as_it_is() {
    let mut budget = json!({"metadata": {"generation": 1}, "spec": {"minAvailable": 1}});
    budget["status"] = status(&budget, &pods(2, 0), &Expected::Pods(2), now());
    let later = "2026-01-02T05:00:00Z".parse().unwrap();
    assert_eq!(status(&budget, &pods(2, 0), &Expected::Pods(2), later), budget["status"]);
}

#[test]
fn when_the_number_of_pods_cannot_be_told_nothing_may_go() {
    let budget = json!({"metadata": {}, "spec": {"maxUnavailable": 1}});
    let why = Expected::Unknown("no scale".to_owned());
    let status = status(&budget, &pods(3, 0), &why, now());
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(status["conditions"][0]["message"], "no scale");
}
