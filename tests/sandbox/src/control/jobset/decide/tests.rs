//! The vectors of a JobSet's life.

use serde_json::json;

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn mk_set(replicated: Value, spec: Value, status: Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "js", "namespace": "n", "uid": "set-uid"},
        "spec": {
            "replicatedJobs": replicated,
            "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        },
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn mk_replicated(name: &str, replicas: i64) -> Value {
    json!({"name": name, "groupName": "default", "replicas": replicas, "template": {"spec": {
        "parallelism": 2, "completions": 2, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": []}}}}})
}

fn mk_job(set: &Value, replicated: &str, index: i64, status: Value) -> Arc<Value> {
    let all = json::list(set, "/spec/replicatedJobs");
    let from = all.iter().find(|r| json::text(r, "/name") == replicated).unwrap();
    let mut job = build::job(set, from, index);
    job["metadata"]["uid"] = format!("{}-uid", meta::name(&job)).into();
    job["status"] = status;
    Arc::new(job)
}

fn ended(kind: &str, reason: &str, at: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": reason,
        "message": format!("because {reason}"), "lastTransitionTime": at}]})
}

fn done() -> Value {
    ended("Complete", "CompletionsReached", NOW)
}

fn names_of(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(meta::name).collect()
}

fn run(set: &Value, jobs: &[Arc<Value>]) -> Plan {
    decide(set, jobs, true, now())
}

fn condition_of(plan: &Plan, kind: &str) -> Option<(String, String)> {
    let status = json!({"status": plan.status.clone().unwrap_or_default()});
    let found = json::condition(&status, kind)?;
    Some((json::text(found, "/status").to_owned(), json::text(found, "/reason").to_owned()))
}

fn pair(a: &str, b: &str) -> Option<(String, String)> {
    Some((a.to_owned(), b.to_owned()))
}

#[test]
fn a_new_set_makes_its_service_and_all_its_jobs() {
    let set = mk_set(json!([mk_replicated("a", 2), mk_replicated("b", 1)]), json!({}), json!({}));
    let plan = decide(&set, &[], false, now());
    assert_eq!(names_of(&plan.create), ["js-a-0", "js-a-1", "js-b-0"]);
    let service = plan.service.unwrap();
    assert_eq!(meta::name(&service), "js");
    assert_eq!(
        service["spec"],
        json!({"clusterIP": "None", "publishNotReadyAddresses": true,
        "selector": {"jobset.sigs.k8s.io/jobset-name": "js"}})
    );
    let status = plan.status.unwrap();
    assert_eq!(status["replicatedJobsStatus"][0]["name"], "b", "descending");
    assert_eq!(
        status["replicatedJobsStatus"][1],
        json!({"name": "a", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0})
    );
}

#[test]
fn the_labels_of_a_set_of_two_by_two() {
    let mut second = mk_replicated("b", 2);
    second["groupName"] = "other".into();
    let third = mk_replicated("c", 1);
    let spec = json!({"coordinator": {"replicatedJob": "a", "jobIndex": 1, "podIndex": 0}});
    let set = mk_set(json!([mk_replicated("a", 2), second, third]), spec, json!({"restarts": 3}));
    let plan = run(&set, &[]);
    let label = |job: usize, key: &str| {
        let key = format!("jobset.sigs.k8s.io/{key}");
        let job = &plan.create[job];
        let value = meta::label(job, &key).unwrap().to_owned();
        assert_eq!(meta::annotation(job, &key), Some(value.as_str()));
        let pod = &job["spec"]["template"];
        assert_eq!(meta::label(pod, &key), Some(value.as_str()));
        assert_eq!(meta::annotation(pod, &key), Some(value.as_str()));
        value
    };
    for (job, key, value) in [
        (0, "jobset-name", "js"),
        (0, "jobset-uid", "set-uid"),
        (3, "replicatedjob-name", "b"),
        (3, "replicatedjob-replicas", "2"),
        (3, "global-replicas", "5"),
        (3, "job-index", "1"),
        (3, "job-global-index", "3"),
        (3, "restart-attempt", "3"),
        (3, "group-name", "other"),
        (3, "group-replicas", "2"),
        (3, "job-group-index", "1"),
        (4, "group-replicas", "3"),
        (4, "job-group-index", "2"),
        (0, "coordinator", "js-a-1-0.js"),
        // SHA-1 of n/js-a-0.
        (0, "job-key", "9ddbbf1f0ad70576ee585c70fe25e84c7430835d"),
    ] {
        assert_eq!(label(job, key), value, "{key} of {job}");
    }
    assert_eq!(plan.create[0]["spec"]["template"]["spec"]["subdomain"], "js");
    assert_eq!(plan.create[0]["spec"]["suspend"], false);
}

#[test]
fn a_job_counts_as_ready_when_enough_of_its_pods_are() {
    let set = mk_set(json!([mk_replicated("a", 3)]), json!({}), json!({}));
    let jobs = [
        mk_job(&set, "a", 0, json!({"active": 2, "ready": 2})),
        mk_job(&set, "a", 1, json!({"active": 1, "ready": 1})),
        mk_job(&set, "a", 2, json!({"active": 1, "ready": 1, "succeeded": 1})),
    ];
    let status = run(&set, &jobs).status.unwrap();
    assert_eq!(
        status["replicatedJobsStatus"][0],
        json!({"name": "a", "ready": 2, "succeeded": 0, "failed": 0, "active": 3, "suspended": 0})
    );
}

#[test]
fn a_dependency_holds_jobs_back_until_it_is_ready_or_complete() {
    for (wanted, status, released) in [
        ("Ready", json!({"active": 2, "ready": 1}), false),
        ("Ready", json!({"active": 2, "ready": 2}), true),
        ("Ready", done(), true),
        ("Complete", json!({"active": 2, "ready": 2}), false),
        ("Complete", done(), true),
    ] {
        let mut second = mk_replicated("b", 1);
        second["dependsOn"] = json!([{"name": "a", "status": wanted}]);
        let set = mk_set(json!([mk_replicated("a", 1), second]), json!({}), json!({}));
        let plan = run(&set, &[mk_job(&set, "a", 0, status.clone())]);
        let made: &[&str] = if released { &["js-b-0"] } else { &[] };
        assert_eq!(names_of(&plan.create), made, "{wanted} {status}");
    }
}

#[test]
fn in_order_starts_one_replicated_job_after_the_other() {
    let spec = json!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
    let both = json!([mk_replicated("a", 1), mk_replicated("b", 1)]);
    let set = mk_set(both.clone(), spec.clone(), json!({}));
    let plan = run(&set, &[]);
    assert_eq!(names_of(&plan.create), ["js-a-0"]);
    let progress = pair("True", "InOrderStartupPolicyInProgress");
    assert_eq!(condition_of(&plan, "StartupPolicyInProgress"), progress);
    let running = json!({"active": 2, "ready": 2});
    let status = plan.status.unwrap();
    let set = mk_set(both.clone(), spec.clone(), status);
    let first = mk_job(&set, "a", 0, running.clone());
    let plan = run(&set, std::slice::from_ref(&first));
    assert_eq!(names_of(&plan.create), ["js-b-0"]);
    let set = mk_set(both, spec, plan.status.unwrap());
    let plan = run(&set, &[first, mk_job(&set, "b", 0, running)]);
    assert_eq!(
        condition_of(&plan, "StartupPolicyCompleted"),
        pair("True", "InOrderStartupPolicyCompleted")
    );
    assert_eq!(condition_of(&plan, "StartupPolicyInProgress").unwrap().0, "False");
}

#[test]
fn success_needs_all_targets_or_any() {
    for (policy, ended_jobs, completed) in [
        (json!({"operator": "All"}), vec![("a", 0)], false),
        (json!({"operator": "All"}), vec![("a", 0), ("a", 1), ("b", 0)], true),
        (json!({"operator": "All", "targetReplicatedJobs": ["b"]}), vec![("b", 0)], true),
        (json!({"operator": "Any"}), vec![("a", 1)], true),
        (json!({"operator": "Any", "targetReplicatedJobs": ["b"]}), vec![("a", 0)], false),
    ] {
        let spec = json!({"successPolicy": policy});
        let set = mk_set(json!([mk_replicated("a", 2), mk_replicated("b", 1)]), spec, json!({}));
        let jobs: Vec<_> = ended_jobs.iter().map(|(r, i)| mk_job(&set, r, *i, done())).collect();
        let plan = run(&set, &jobs);
        let wanted = if completed { pair("True", "AllJobsCompleted") } else { None };
        assert_eq!(condition_of(&plan, "Completed"), wanted, "{policy} {ended_jobs:?}");
    }
}

#[test]
fn a_completed_set_deletes_what_still_runs_and_keeps_what_succeeded() {
    let status = json!({"conditions": [{"type": "Completed", "status": "True",
        "lastTransitionTime": NOW}]});
    let set = mk_set(json!([mk_replicated("a", 2)]), json!({}), status);
    let jobs = [mk_job(&set, "a", 0, done()), mk_job(&set, "a", 1, json!({"active": 1}))];
    let plan = run(&set, &jobs);
    assert_eq!(plan.delete.iter().map(|j| meta::name(j)).collect::<Vec<_>>(), ["js-a-1"]);
    assert!(plan.create.is_empty());
}

#[test]
fn without_a_failure_policy_the_first_failure_ends_the_set() {
    let set = mk_set(json!([mk_replicated("a", 2)]), json!({}), json!({}));
    let jobs = [
        mk_job(&set, "a", 0, ended("Failed", "BackoffLimitExceeded", "2026-01-02T00:00:01Z")),
        mk_job(&set, "a", 1, ended("Failed", "BackoffLimitExceeded", "2026-01-02T00:00:00Z")),
    ];
    let plan = run(&set, &jobs);
    let status = plan.status.unwrap();
    assert_eq!(status["terminalState"], "Failed");
    assert_eq!(
        status["conditions"][0]["message"],
        "jobset failed due to one or more job failures (first failed job: js-a-1)"
    );
    assert_eq!(plan.events[0].reason, "FailedJobs");
}

#[test]
fn a_set_restarts_as_often_as_it_may_and_then_fails() {
    let spec = json!({"failurePolicy": {"maxRestarts": 1}});
    let failed = ended("Failed", "BackoffLimitExceeded", NOW);
    let set = mk_set(json!([mk_replicated("a", 2)]), spec.clone(), json!({"restarts": 0}));
    let jobs = [mk_job(&set, "a", 0, failed.clone()), mk_job(&set, "a", 1, json!({"active": 1}))];
    let plan = run(&set, &jobs);
    let status = plan.status.unwrap();
    assert_eq!((&status["restarts"], &status["restartsCountTowardsMax"]), (&json!(1), &json!(1)));
    assert_eq!(plan.events[0].reason, "RestartJobSetFailurePolicyAction");
    // The next pass deletes all that is older; a name is taken until its Job is gone.
    let set = mk_set(json!([mk_replicated("a", 2)]), spec.clone(), status);
    let plan = run(&set, &jobs);
    assert_eq!(plan.delete.len(), 2);
    assert!(plan.create.is_empty());
    let plan = run(&set, &jobs[1..]);
    assert_eq!(names_of(&plan.create), ["js-a-0"]);
    assert_eq!(meta::label(&plan.create[0], names::ATTEMPT), Some("1"));
    let again = mk_job(&set, "a", 0, failed);
    let plan = run(&set, &[again]);
    assert_eq!(condition_of(&plan, "Failed"), pair("True", "ReachedMaxRestarts"));
}

#[test]
fn blocking_recreate_waits_until_every_old_job_is_gone() {
    let spec = json!({"failurePolicy": {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}});
    let old = mk_set(json!([mk_replicated("a", 2)]), spec.clone(), json!({"restarts": 0}));
    let left = mk_job(&old, "a", 1, json!({}));
    let set = mk_set(json!([mk_replicated("a", 2)]), spec, json!({"restarts": 1}));
    assert!(run(&set, std::slice::from_ref(&left)).create.is_empty());
    assert_eq!(run(&set, &[]).create.len(), 2);
}

#[test]
fn the_first_rule_that_fits_decides() {
    let failed = ended("Failed", "PodFailurePolicy", NOW);
    for (rules, wanted) in [
        (
            json!([{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]),
            "FailJobSetFailurePolicyAction",
        ),
        (
            json!([{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]),
            "RestartJobSetFailurePolicyAction",
        ),
        (
            json!([{"action": "FailJobSet", "targetReplicatedJobs": ["b"]}]),
            "RestartJobSetFailurePolicyAction",
        ),
        (
            json!([{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["a"]},
            {"action": "FailJobSet"}]),
            "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction",
        ),
        (
            json!([{"action": "FailJobSet", "onJobFailureMessagePatterns": ["(", "^because Pod"]}]),
            "FailJobSetFailurePolicyAction",
        ),
        (
            json!([{"action": "FailJobSet", "onJobFailureMessagePatterns": ["("]}]),
            "RestartJobSetFailurePolicyAction",
        ),
    ] {
        let spec = json!({"failurePolicy": {"maxRestarts": 5, "rules": rules}});
        let both = json!([mk_replicated("a", 1), mk_replicated("b", 1)]);
        let set = mk_set(both, spec, json!({"restarts": 0}));
        let plan = run(&set, &[mk_job(&set, "a", 0, failed.clone())]);
        assert_eq!(plan.events[0].reason, wanted, "{rules}");
    }
}

#[test]
fn a_restart_that_does_not_count_leaves_the_counter() {
    let rules = json!([{"action": "RestartJobSetAndIgnoreMaxRestarts"}]);
    let spec = json!({"failurePolicy": {"maxRestarts": 0, "rules": rules}});
    let set = mk_set(json!([mk_replicated("a", 1)]), spec, json!({"restarts": 4}));
    let mut job = Value::clone(&mk_job(&set, "a", 0, ended("Failed", "X", NOW)));
    job["metadata"]["labels"][names::ATTEMPT] = "4".into();
    let status = run(&set, &[Arc::new(job)]).status.unwrap();
    assert_eq!(status["restarts"], 5);
    assert_eq!(status.get("restartsCountTowardsMax"), None);
}

#[test]
fn suspend_change_the_template_and_resume() {
    let spec = json!({"suspend": true});
    let running = mk_set(json!([mk_replicated("a", 1)]), json!({}), json!({}));
    let job = mk_job(&running, "a", 0, json!({"active": 2, "startTime": NOW}));
    let set = mk_set(json!([mk_replicated("a", 1)]), spec.clone(), json!({}));
    let plan = run(&set, std::slice::from_ref(&job));
    assert_eq!(plan.suspend.len(), 1);
    assert_eq!(condition_of(&plan, "Suspended"), pair("True", "SuspendedJobs"));
    assert_eq!(run(&set, &[]).create[0]["spec"]["suspend"], true);

    let mut changed = mk_replicated("a", 1);
    changed["template"]["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "x"});
    let set = mk_set(json!([changed]), json!({}), plan.status.unwrap());
    let mut asleep = Value::clone(&job);
    asleep["spec"]["suspend"] = true.into();
    let plan = run(&set, &[Arc::new(asleep)]);
    let wanted = &plan.resume[0].wanted;
    assert_eq!(wanted["spec"]["suspend"], false);
    assert_eq!(wanted["spec"]["template"]["spec"]["nodeSelector"], json!({"pool": "x"}));
    assert_eq!(meta::label(&wanted["spec"]["template"], names::NAME), Some("js"));
    assert_eq!(condition_of(&plan, "Suspended"), pair("False", "ResumeJobs"));
}

#[test]
fn a_set_that_was_never_suspended_gets_no_condition_for_it() {
    let set = mk_set(json!([mk_replicated("a", 1)]), json!({}), json!({}));
    assert_eq!(condition_of(&run(&set, &[]), "Suspended"), None);
}

#[test]
fn a_finished_set_goes_when_its_time_to_live_is_over() {
    let ended = |at: &str| json!({"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at}]});
    let spec = json!({"ttlSecondsAfterFinished": 10});
    let one = json!([mk_replicated("a", 1)]);
    let plan = run(&mk_set(one.clone(), spec.clone(), ended("2026-01-02T03:04:00Z")), &[]);
    assert_eq!(plan.again, Some("2026-01-02T03:04:10Z".parse().unwrap()));
    assert!(!plan.expire);
    assert!(run(&mk_set(one, spec, ended("2026-01-02T03:03:55Z")), &[]).expire);
}

#[test]
fn a_set_of_another_manager_or_on_its_way_out_is_left_alone() {
    let one = json!([mk_replicated("a", 1)]);
    let foreign = mk_set(one.clone(), json!({"managedBy": "example.com/other"}), json!({}));
    assert!(run(&foreign, &[]).create.is_empty());
    let mut going = mk_set(one, json!({}), json!({}));
    going["metadata"]["deletionTimestamp"] = NOW.into();
    assert!(run(&going, &[]).create.is_empty());
}

#[test]
fn a_settled_set_writes_nothing() {
    let one = json!([mk_replicated("a", 1)]);
    let set = mk_set(one.clone(), json!({}), json!({}));
    let jobs = [mk_job(&set, "a", 0, json!({"active": 2}))];
    let status = run(&set, &jobs).status.unwrap();
    let set = mk_set(one, json!({}), status);
    let plan = run(&set, &jobs);
    assert_eq!(plan.status, None);
    assert!(plan.create.is_empty());
}
