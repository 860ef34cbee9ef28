//! What the webhooks of the original fill in and refuse.

use serde_json::json;

use super::*;

type Case = (Box<dyn FnOnce(&mut Value)>, &'static str);

fn mk_set(change: impl FnOnce(&mut Value)) -> Value {
    let mut set = json!({
        "metadata": {"name": "js", "namespace": "n"},
        "spec": {"replicatedJobs": [
            {"name": "a", "groupName": "default", "replicas": 2, "template": {"spec": {
                "completions": 2, "template": {"spec": {"containers": []}}}}},
            {"name": "b", "groupName": "default", "replicas": 1, "template": {"spec": {
                "template": {"spec": {"containers": []}}}}},
        ]},
    });
    default_jobset(&mut set);
    change(&mut set);
    set
}

#[test]
fn defaults_are_those_of_the_original() {
    let set = mk_set(|_| {});
    let spec = &set["spec"];
    assert_eq!(spec["successPolicy"], json!({"operator": "All"}));
    assert_eq!(spec["startupPolicy"], json!({"startupPolicyOrder": "AnyOrder"}));
    assert_eq!(
        spec["network"],
        json!({"enableDNSHostnames": true, "publishNotReadyAddresses": true})
    );
    let job = &spec["replicatedJobs"][0]["template"]["spec"];
    assert_eq!(job["completionMode"], "Indexed");
    assert_eq!(job["template"]["spec"]["restartPolicy"], "OnFailure");
    let mut again = set.clone();
    default_jobset(&mut again);
    assert_eq!(again, set);
}

#[test]
fn what_is_set_is_not_defaulted() {
    let mut set = json!({"spec": {
        "network": {"enableDNSHostnames": false, "subdomain": "x"},
        "replicatedJobs": [],
        "failurePolicy": {"rules": [{"action": "FailJobSet"}, {"action": "FailJobSet", "name": "mine"}]},
    }});
    default_jobset(&mut set);
    assert_eq!(set["spec"]["network"]["enableDNSHostnames"], false);
    assert_eq!(set["spec"]["network"]["publishNotReadyAddresses"], true);
    assert_eq!(set["spec"]["failurePolicy"]["rules"][0]["name"], "failurePolicyRule0");
    assert_eq!(set["spec"]["failurePolicy"]["rules"][1]["name"], "mine");
}

#[test]
fn bad_sets_are_refused_with_the_words_of_the_original() {
    let long = "x".repeat(60);
    let cases: Vec<Case> = vec![
        (
            Box::new(|s| s["spec"]["replicatedJobs"][0]["dependsOn"] = json!([])),
            "DependsOn can't be set for the first ReplicatedJob",
        ),
        (
            Box::new(|s| {
                s["spec"]["replicatedJobs"][1]["dependsOn"] =
                    json!([{"name": "z", "status": "Ready"}])
            }),
            "replicatedJob: b cannot depend on replicatedJob: z",
        ),
        (
            Box::new(|s| {
                s["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] =
                    json!(2_000_000_000)
            }),
            "the product of replicas and parallelism must not exceed 2147483647",
        ),
        (
            Box::new(move |s| s["metadata"]["name"] = long.into()),
            "job names generated for this JobSet will exceed 63 characters",
        ),
        (
            Box::new(|s| s["metadata"]["name"] = "x".repeat(56).into()),
            "pod names generated for this JobSet will exceed 63 characters",
        ),
        (Box::new(|s| s["metadata"]["name"] = "1js".into()), "a DNS-1035 label must consist"),
        (
            Box::new(|s| s["spec"]["network"]["subdomain"] = "Not_Good".into()),
            "a DNS-1035 label must consist",
        ),
        (
            Box::new(|s| s["spec"]["replicatedJobs"][0]["groupName"] = "-".into()),
            "a DNS-1035 label must consist",
        ),
        (
            Box::new(|s| s["spec"]["successPolicy"]["targetReplicatedJobs"] = json!(["z"])),
            "invalid replicatedJob name 'z' does not appear in .spec.ReplicatedJobs",
        ),
        (
            Box::new(|s| {
                s["spec"]["failurePolicy"] =
                    json!({"rules": [{"name": "9", "action": "FailJobSet"}]})
            }),
            "invalid failure policy rule name '9'",
        ),
        (
            Box::new(|s| {
                s["spec"]["failurePolicy"] = json!({"rules": [
            {"name": "r", "action": "FailJobSet"}, {"name": "r", "action": "FailJobSet"}]})
            }),
            "rules with indices [0 1] all have the same name 'r'",
        ),
        (
            Box::new(|s| {
                s["spec"]["failurePolicy"] = json!({"rules": [
            {"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["Bad"]}]})
            }),
            "invalid job failure reason 'Bad'",
        ),
        (
            Box::new(|s| {
                s["spec"]["failurePolicy"] = json!({"rules": [
            {"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["z"]}]})
            }),
            "invalid replicatedJob name 'z' in failure policy",
        ),
        (
            Box::new(|s| s["spec"]["coordinator"] = json!({"replicatedJob": "z"})),
            "coordinator replicatedJob z does not exist",
        ),
        (
            Box::new(|s| s["spec"]["coordinator"] = json!({"replicatedJob": "a", "jobIndex": 2})),
            "coordinator job index 2 is invalid",
        ),
        (
            Box::new(|s| s["spec"]["coordinator"] = json!({"replicatedJob": "b"})),
            "completions number must be set",
        ),
        (
            Box::new(|s| s["spec"]["coordinator"] = json!({"replicatedJob": "a", "podIndex": 2})),
            "coordinator pod index 2 is invalid",
        ),
        (Box::new(|s| s["spec"]["managedBy"] = "nobody".into()), "must be a domain-prefixed path"),
    ];
    assert_eq!(validate_create(&mk_set(|_| {})), []);
    for (change, words) in cases {
        let errors = validate_create(&mk_set(change));
        assert!(errors.iter().any(|e| e.detail.contains(words)), "{words}: {errors:?}");
    }
}

#[test]
fn replicated_jobs_change_only_where_a_suspended_set_may() {
    let base = || mk_set(|_| {});
    let with = |suspend: bool, pointer: &str, value: Value| {
        mk_set(|s| {
            s["spec"]["suspend"] = suspend.into();
            let mut at = &mut s["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
            for part in pointer.split('/').skip(1) {
                at = &mut at[part];
            }
            *at = value;
        })
    };
    for (pointer, value, allowed_suspended) in [
        ("/metadata/labels", json!({"a": "b"}), true),
        ("/metadata/annotations", json!({"a": "b"}), true),
        ("/spec/nodeSelector", json!({"a": "b"}), true),
        ("/spec/tolerations", json!([{"key": "a"}]), true),
        ("/spec/schedulingGates", json!([{"name": "a"}]), true),
        ("/spec/hostNetwork", json!(true), false),
    ] {
        assert_eq!(validate_update(&base(), &with(false, pointer, value.clone())).len(), 1);
        let suspended = validate_update(&base(), &with(true, pointer, value.clone()));
        assert_eq!(suspended.is_empty(), allowed_suspended, "{pointer}");
        let resumed = validate_update(&with(true, pointer, value), &base());
        assert_eq!(resumed.is_empty(), allowed_suspended, "{pointer} taken back");
    }
    let managed = mk_set(|s| s["spec"]["managedBy"] = "a.b/c".into());
    let errors = validate_update(&base(), &managed);
    assert_eq!(
        errors[0].to_string(),
        "spec.managedBy: Invalid value: \"a.b/c\": field is immutable"
    );
}

#[test]
fn the_definition_is_readable_and_names_its_list_keys() {
    let crd: Value = serde_saphyr::from_str(super::super::DEFINITION).unwrap();
    assert_eq!(crd["metadata"]["name"], "jobsets.jobset.x-k8s.io");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for (pointer, keys) in [
        ("/spec/properties/replicatedJobs", json!(["name"])),
        ("/spec/properties/replicatedJobs/items/properties/dependsOn", json!(["name"])),
        ("/status/properties/conditions", json!(["type"])),
        ("/status/properties/replicatedJobsStatus", json!(["name"])),
    ] {
        let list = schema.pointer(pointer).unwrap();
        assert_eq!(list["x-kubernetes-list-map-keys"], keys, "{pointer}");
    }
    for field in ["network", "successPolicy", "failurePolicy", "startupPolicy"] {
        let rules = &schema["spec"]["properties"][field]["x-kubernetes-validations"];
        assert_eq!(rules[0]["rule"], "self == oldSelf", "{field}");
    }
}
