//! Tables: a Job and its pods on the left, what happens on the right.

use serde_json::json;

use super::super::template;
use super::*;
use std::sync::Arc;

const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn mk_job(spec: Value, status: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "n", "uid": "job-uid"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn mk_pod(name: &str, index: Option<usize>, phase: &str) -> JobPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid"),
            "annotations": {}, "finalizers": [names::TRACKING],
            "creationTimestamp": "2026-01-02T03:00:00Z"},
        "status": {"phase": phase},
    });
    if let Some(index) = index {
        pod["metadata"]["annotations"][names::INDEX] = index.to_string().into();
    }
    JobPod::read(&Arc::new(pod))
}

fn changed(pod: JobPod, change: impl FnOnce(&mut Value)) -> JobPod {
    let mut object = Value::clone(&pod.object);
    change(&mut object);
    JobPod::read(&Arc::new(object))
}

fn untracked(pod: JobPod) -> JobPod {
    changed(pod, |p| p["metadata"]["finalizers"] = json!([]))
}

fn ready(pod: JobPod) -> JobPod {
    changed(pod, |p| p["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]))
}

fn run(job: &Value, pods: &[JobPod]) -> Plan {
    let refs: Vec<&JobPod> = pods.iter().collect();
    decide(job, &refs, Backoff::default(), now())
}

fn conditions(plan: &Plan) -> Vec<(String, String)> {
    let status = plan.status.clone().unwrap_or_default();
    json::list(&status, "/conditions")
        .iter()
        .map(|c| (json::text(c, "/type").to_owned(), json::text(c, "/reason").to_owned()))
        .collect()
}

fn indexes(plan: &Plan) -> Vec<usize> {
    plan.create.iter().filter_map(|new| new.index).collect()
}

/// Runs passes as the controller does, with pods that lose finalizers and go when deleted, until
/// nothing is left to do.
fn settle(mut job: Value, mut pods: Vec<JobPod>) -> (Value, Vec<JobPod>) {
    for _ in 0..10 {
        let plan = run(&job, &pods);
        let idle = plan.status.is_none() && plan.untrack.is_empty() && plan.delete.is_empty();
        if let Some(status) = plan.status {
            job["status"] = status;
        }
        let gone: Vec<String> = plan.delete.iter().map(|d| d.name.clone()).collect();
        pods.retain(|p| !gone.contains(&p.name));
        pods = pods
            .into_iter()
            .map(|p| if plan.untrack.contains(&p.name) { untracked(p) } else { p })
            .collect();
        if idle {
            return (job, pods);
        }
    }
    panic!("does not settle: {job}");
}

fn is(job: &Value, condition: &str) -> bool {
    json::is_true(job, condition)
}

#[test]
fn a_new_job_makes_as_many_pods_as_it_may_run_at_once() {
    for (spec, wanted) in [
        (json!({"parallelism": 3, "completions": 5}), 3),
        (json!({"parallelism": 5, "completions": 3}), 3),
        (json!({"parallelism": 2, "completions": null}), 2),
        (json!({"parallelism": 0, "completions": 3}), 0),
        (json!({"parallelism": 3, "completions": 3, "suspend": true}), 0),
    ] {
        let plan = run(&mk_job(spec.clone(), json!({})), &[]);
        assert_eq!(plan.create.len(), wanted, "{spec}");
    }
}

#[test]
fn an_indexed_job_makes_the_lowest_indexes_that_are_free() {
    let spec = json!({"parallelism": 3, "completions": 5, "completionMode": "Indexed"});
    let job = mk_job(spec, json!({"completedIndexes": "0", "succeeded": 1}));
    let plan = run(&job, &[mk_pod("a", Some(2), "Running")]);
    assert_eq!(indexes(&plan), [1, 3]);
    assert_eq!(plan.status.unwrap()["active"], 3);
}

#[test]
fn a_job_with_all_indexes_done_is_complete_once_every_pod_is_counted() {
    let spec = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"});
    let pods = vec![mk_pod("a", Some(0), "Succeeded"), mk_pod("b", Some(1), "Succeeded")];
    let first = run(&mk_job(spec.clone(), json!({})), &pods);
    assert_eq!(
        conditions(&first),
        [("SuccessCriteriaMet".to_owned(), "CompletionsReached".to_owned())],
        "the end is announced before it is declared"
    );
    let (job, pods) = settle(mk_job(spec, json!({})), pods);
    assert!(is(&job, "Complete"));
    assert_eq!(job["status"]["completedIndexes"], "0,1");
    assert_eq!(job["status"]["succeeded"], 2);
    assert_eq!(job["status"]["completionTime"], NOW);
    assert_eq!(job["status"].get("active"), None);
    assert_eq!(job["status"]["uncountedTerminatedPods"], json!({}));
    assert!(pods.iter().all(|p| !p.tracked));
}

#[test]
fn ended_pods_of_a_plain_job_go_through_the_uncounted_list_into_the_counters() {
    let spec = json!({"parallelism": 2, "completions": 3});
    let pods = vec![mk_pod("a", None, "Succeeded"), mk_pod("b", None, "Failed")];
    let job = mk_job(spec, json!({"startTime": NOW}));
    let plan = run(&job, &pods);
    let status = plan.status.unwrap();
    assert_eq!(
        status["uncountedTerminatedPods"],
        json!({"succeeded": ["a-uid"], "failed": ["b-uid"]})
    );
    assert_eq!((status.get("succeeded"), status.get("failed")), (None, None));
    assert_eq!(plan.untrack, ["a", "b"]);
    let mut job = job;
    job["status"] = status;
    let pods: Vec<JobPod> = pods.into_iter().map(untracked).collect();
    let status = run(&job, &pods).status.unwrap();
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(1), &json!(1)));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
}

#[test]
fn a_pod_that_is_counted_is_not_counted_again_when_a_pass_is_repeated() {
    let job = mk_job(
        json!({"parallelism": 1, "completions": 3}),
        json!({"startTime": NOW, "uncountedTerminatedPods": {"failed": ["b-uid"]}, "failed": 1}),
    );
    // The finalizer is still there: its removal failed.
    let plan = run(&job, &[mk_pod("b", None, "Failed")]);
    assert_eq!(plan.untrack, ["b"]);
    let status = plan.status.unwrap_or_else(|| job["status"].clone());
    assert_eq!(status["failed"], 1);
    assert_eq!(status["uncountedTerminatedPods"], json!({"failed": ["b-uid"]}));
}

#[test]
fn a_job_fails_when_its_failures_exceed_the_backoff_limit() {
    for (limit, failed, ends) in [(0, 0, true), (1, 0, false), (1, 1, true), (6, 5, false)] {
        let spec = json!({"backoffLimit": limit});
        let job = mk_job(spec, json!({"startTime": NOW, "failed": failed}));
        let plan = run(&job, &[mk_pod("a", None, "Failed")]);
        let target = ("FailureTarget".to_owned(), "BackoffLimitExceeded".to_owned());
        assert_eq!(conditions(&plan).contains(&target), ends, "limit {limit} after {failed}");
    }
}

#[test]
fn restarts_in_place_count_towards_the_limit_of_a_job_that_restarts_on_failure() {
    let template = json!({"spec": {"restartPolicy": "OnFailure", "containers": []}});
    for (restarts, limit, ends) in [(0, 0, false), (1, 0, true), (1, 2, false), (2, 2, true)] {
        let spec = json!({"backoffLimit": limit, "template": template});
        let pod = changed(mk_pod("a", None, "Running"), |p| {
            p["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": restarts}]);
        });
        let plan = run(&mk_job(spec, json!({"startTime": NOW})), &[pod]);
        assert_eq!(!plan.delete.is_empty(), ends, "{restarts} restarts, limit {limit}");
    }
}

#[test]
fn a_failing_job_deletes_its_pods_counts_them_as_failed_and_ends_when_they_are_gone() {
    let spec = json!({"parallelism": 2, "completions": 2, "backoffLimit": 0});
    let pods = vec![mk_pod("a", None, "Failed"), ready(mk_pod("b", None, "Running"))];
    let plan = run(&mk_job(spec.clone(), json!({"startTime": NOW})), &pods);
    assert_eq!(plan.delete, [Removal { name: "b".to_owned(), counted: true }]);
    assert_eq!(plan.status.as_ref().unwrap()["terminating"], 1);
    let (job, _) = settle(mk_job(spec, json!({"startTime": NOW})), pods);
    assert!(is(&job, "Failed"));
    assert_eq!(job["status"]["failed"], 2);
    assert_eq!(job["status"].get("completionTime"), None);
}

#[test]
fn a_failed_pod_is_replaced_only_after_a_pause_that_doubles() {
    for (failures, pause) in [(1, 10), (2, 20), (3, 40), (8, 600)] {
        let last = now().saturating_sub(SignedDuration::from_secs(pause - 1)).unwrap();
        let backoff = Backoff { failures, last: Some(last) };
        let job = mk_job(json!({}), json!({"startTime": NOW, "failed": failures}));
        let mut job = job;
        job["spec"]["backoffLimit"] = 100.into();
        let early = decide(&job, &[], backoff, now());
        assert!(early.create.is_empty(), "{failures}");
        assert_eq!(early.again, now().saturating_add(SignedDuration::from_secs(1)).ok());
        let later = now().saturating_add(SignedDuration::from_secs(1)).unwrap();
        assert_eq!(decide(&job, &[], backoff, later).create.len(), 1, "{failures}");
    }
}

#[test]
fn a_success_ends_the_pause() {
    let backoff = Backoff { failures: 3, last: Some(now()) };
    let job = mk_job(json!({"completions": 5}), json!({"startTime": NOW, "failed": 3}));
    let ok = mk_pod("a", None, "Succeeded");
    let plan = decide(&job, &[&ok], backoff, now());
    assert_eq!(plan.create.len(), 1);
    assert_eq!(plan.backoff, Backoff::default());
}

#[test]
fn a_job_fails_at_its_deadline_and_wakes_for_it() {
    let spec = json!({"activeDeadlineSeconds": 60});
    let pods = [mk_pod("a", None, "Running")];
    let start = json!({"startTime": "2026-01-02T03:03:06Z"});
    let plan = run(&mk_job(spec.clone(), start), &pods);
    assert_eq!(plan.again, Some("2026-01-02T03:04:06Z".parse().unwrap()));
    assert!(conditions(&plan).is_empty());
    let plan = run(&mk_job(spec, json!({"startTime": "2026-01-02T03:03:05Z"})), &pods);
    assert_eq!(conditions(&plan), [("FailureTarget".to_owned(), "DeadlineExceeded".to_owned())]);
}

#[test]
fn a_suspended_job_loses_its_pods_uncounted_and_starts_its_time_anew_when_resumed() {
    let pods = [mk_pod("a", None, "Running")];
    let old = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
    let plan = run(&mk_job(json!({"suspend": true}), old), &pods);
    assert_eq!(plan.delete, [Removal { name: "a".to_owned(), counted: false }]);
    assert_eq!(conditions(&plan), [("Suspended".to_owned(), "JobSuspended".to_owned())]);
    let status = plan.status.unwrap();
    let plan = run(&mk_job(json!({}), status), &[]);
    assert_eq!(plan.create.len(), 1);
    let status = plan.status.unwrap();
    assert_eq!(status["startTime"], NOW);
    assert_eq!(status["conditions"][0]["status"], "False");
}

#[test]
fn the_failure_policy_decides_by_exit_code_and_condition() {
    let exit = |code: i64| {
        changed(mk_pod("a", None, "Failed"), |p| {
            p["status"]["containerStatuses"] =
                json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
        })
    };
    let disrupted = changed(mk_pod("a", None, "Failed"), |p| {
        p["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
    });
    let policy = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
    ]}});
    for (pod, reason, counted) in [
        (exit(42), Some("PodFailurePolicy"), 1),
        (disrupted, None, 0),
        (exit(7), Some("BackoffLimitExceeded"), 1),
        (exit(1), Some("BackoffLimitExceeded"), 1),
    ] {
        let plan = run(&mk_job(policy.clone(), json!({"startTime": NOW})), &[pod]);
        let found = conditions(&plan).first().map(|c| c.1.clone());
        assert_eq!(found.as_deref(), reason);
        let status = plan.status.unwrap_or_default();
        let list = json::list(&status, "/uncountedTerminatedPods/failed").len();
        assert_eq!(list, counted, "{reason:?}");
        assert_eq!(plan.untrack, ["a"]);
    }
    let plan = run(&mk_job(policy, json!({"startTime": NOW})), &[exit(42)]);
    assert_eq!(
        plan.status.unwrap()["conditions"][0]["message"],
        "Container c for pod n/a failed with exit code 42 matching FailJob rule at index 0"
    );
}

#[test]
fn an_index_fails_alone_when_it_has_a_limit_of_its_own() {
    let spec = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1, "backoffLimit": 100});
    let failed = |failures: i64| {
        changed(mk_pod("a", Some(0), "Failed"), |p| {
            p["metadata"]["annotations"][names::FAILURES] = failures.to_string().into();
        })
    };
    let other = mk_pod("b", Some(1), "Running");
    let job = mk_job(spec.clone(), json!({"startTime": NOW}));
    let first = run(&job, &[failed(0), other.clone()]);
    assert_eq!(first.create, [NewPod { index: Some(0), failures: Some((1, 0)) }]);
    assert!(first.untrack.is_empty(), "the failed pod waits for its successor");
    let second = run(&job, &[failed(1), other]);
    assert!(second.create.is_empty());
    assert_eq!(second.status.unwrap()["failedIndexes"], "0");
    let done = mk_job(spec, json!({"startTime": NOW, "completedIndexes": "1", "succeeded": 1}));
    let last = run(&done, &[failed(1)]);
    assert_eq!(conditions(&last), [("FailureTarget".to_owned(), "FailedIndexes".to_owned())]);
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let spec = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": 100});
    let job = mk_job(spec, json!({"startTime": NOW, "failedIndexes": "0"}));
    let plan = run(&job, &[mk_pod("b", Some(1), "Failed")]);
    let reason = "MaxFailedIndexesExceeded".to_owned();
    assert_eq!(conditions(&plan), [("FailureTarget".to_owned(), reason)]);
}

#[test]
fn a_success_policy_ends_the_job_early() {
    let spec = json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let pods = [mk_pod("a", Some(0), "Succeeded"), mk_pod("b", Some(1), "Running")];
    let plan = run(&mk_job(spec, json!({"startTime": NOW})), &pods);
    assert_eq!(conditions(&plan), [("SuccessCriteriaMet".to_owned(), "SuccessPolicy".to_owned())]);
    assert_eq!(plan.delete.len(), 1);
}

#[test]
fn a_terminating_pod_is_replaced_at_once_or_when_it_has_failed_as_the_policy_says() {
    for (policy, created) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let pod = changed(mk_pod("a", None, "Running"), |p| {
            p["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        });
        let spec = json!({"podReplacementPolicy": policy});
        let plan = run(&mk_job(spec, json!({"startTime": NOW})), &[pod]);
        assert_eq!(plan.create.len(), created, "{policy}");
    }
}

#[test]
fn surplus_pods_and_second_pods_of_an_index_go_the_least_far_on_first() {
    let spec = json!({"parallelism": 1, "completions": 4});
    let pods = [ready(mk_pod("a", None, "Running")), mk_pod("b", None, "Pending")];
    let plan = run(&mk_job(spec, json!({"startTime": NOW})), &pods);
    assert_eq!(plan.delete, [Removal { name: "b".to_owned(), counted: false }]);
    let spec = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed"});
    let pods = [ready(mk_pod("a", Some(1), "Running")), mk_pod("b", Some(1), "Pending")];
    let plan = run(&mk_job(spec, json!({"startTime": NOW})), &pods);
    assert_eq!(plan.delete, [Removal { name: "b".to_owned(), counted: false }]);
}

#[test]
fn a_finished_job_does_nothing_until_its_time_to_live_is_over() {
    let done = |at: &str| json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at}]});
    let spec = json!({"ttlSecondsAfterFinished": 10});
    let plan = run(&mk_job(spec.clone(), done("2026-01-02T03:04:00Z")), &[]);
    assert!(!plan.expire && plan.create.is_empty());
    assert_eq!(plan.again, Some("2026-01-02T03:04:10Z".parse().unwrap()));
    assert!(run(&mk_job(spec, done("2026-01-02T03:03:55Z")), &[]).expire);
}

#[test]
fn a_job_of_another_manager_is_left_alone() {
    let plan = run(&mk_job(json!({"managedBy": "example.com/other"}), json!({})), &[]);
    assert!(plan.create.is_empty() && plan.status.is_none());
    let own = json!({"managedBy": "kubernetes.io/job-controller"});
    assert_eq!(run(&mk_job(own, json!({})), &[]).create.len(), 1);
}

#[test]
fn a_job_that_is_settled_writes_nothing() {
    let spec = json!({"parallelism": 1, "completions": 1, "completionMode": "Indexed"});
    let pods = [ready(mk_pod("a", Some(0), "Running"))];
    let status = run(&mk_job(spec.clone(), json!({})), &pods).status.unwrap();
    assert_eq!(
        status,
        json!({"active": 1, "ready": 1, "terminating": 0, "startTime": NOW,
            "uncountedTerminatedPods": {}})
    );
    assert!(run(&mk_job(spec, status), &pods).status.is_none());
}

#[test]
fn an_indexed_pod_has_the_names_labels_and_environment_of_its_index() {
    let mut job = mk_job(json!({"completionMode": "Indexed"}), json!({}));
    job["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    let pod = template::build(&job, &NewPod { index: Some(3), failures: None });
    assert_eq!(pod["metadata"]["generateName"], "j-3-");
    assert_eq!(pod["metadata"]["finalizers"], json!([names::TRACKING]));
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
        "app": "x", "batch.kubernetes.io/job-name": "j", "job-name": "j",
        "batch.kubernetes.io/controller-uid": "job-uid", "controller-uid": "job-uid",
        "batch.kubernetes.io/job-completion-index": "3"})
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({"batch.kubernetes.io/job-completion-index": "3"})
    );
    assert_eq!(pod["spec"]["hostname"], "j-3");
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
    );
    assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
    let plain = template::build(&job, &NewPod { index: None, failures: None });
    assert_eq!(plain["metadata"]["generateName"], "j-");
    assert_eq!(plain["metadata"].get("annotations"), None);
}

#[test]
fn a_long_job_name_leaves_room_for_the_index_and_the_suffix() {
    let mut job = mk_job(json!({}), json!({}));
    job["metadata"]["name"] = "x".repeat(63).into();
    let pod = template::build(&job, &NewPod { index: Some(12), failures: None });
    let prefix = pod["metadata"]["generateName"].as_str().unwrap();
    assert_eq!(prefix.len(), 58);
    assert!(prefix.ends_with("-12-"));
}
