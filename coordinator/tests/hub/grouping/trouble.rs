//! When owners are wrong, others write too, or the API server has trouble.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use muster_sandbox::faults::Rule;
use muster_scheduling::grouper::Grouped;
use serde_json::{Value, json};

use super::{Intake, job, member, pod, uid};
use crate::cluster::eventually;

fn failed(grouped: &Grouped) -> (&'static str, bool) {
    match grouped {
        Grouped::Failed { class, retry, .. } => (class, *retry),
        other => panic!("it has not failed: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_an_owner_is_said_once_and_found_right_when_it_is() {
    let intake = Intake::start().await;
    let mut owner = job("train");
    owner["metadata"]["annotations"] = json!({"kai.scheduler/batch-min-member": "many"});
    let owner = intake.create("jobs", owner).await;
    let pod = intake.pod("p", Some(&owner), json!({})).await;
    for _ in 0..3 {
        assert_eq!(failed(&intake.group(&pod).await), ("min-member-annotation", true));
    }
    let said = eventually("an event", async || {
        let said = intake.warnings("p").await;
        (!said.is_empty()).then_some(said)
    });
    let said = said.await;
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("Job default/train: metadata.annotations"), "{said:?}");
    let jobs: kube::Api<k8s_openapi::api::batch::v1::Job> =
        kube::Api::namespaced(intake.sandbox.client(), "default");
    let change = json!({"metadata": {"annotations": {"kai.scheduler/batch-min-member": "3"}}});
    jobs.patch("train", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let name = format!("pg-train-{}", uid(&owner));
    let expected = member(&name, None, false);
    eventually("a group", async || (intake.group(&pod).await == expected).then_some(())).await;
    assert_eq!(intake.pod_group(&name).await["spec"]["minMember"], 3);
    assert_eq!(intake.warnings("p").await.len(), 1);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_whose_owner_is_gone_or_another_has_no_group() {
    let intake = Intake::start().await;
    let mut owner = intake.create("jobs", job("train")).await;
    owner["metadata"]["uid"] = "another".into();
    let pod_of_other = intake.pod("p", Some(&owner), json!({})).await;
    assert_eq!(failed(&intake.group(&pod_of_other).await), ("owner-uid-mismatch", false));
    owner["metadata"]["name"] = "nobody".into();
    let orphan = intake.pod("q", Some(&owner), json!({})).await;
    assert_eq!(failed(&intake.group(&orphan).await), ("owner-not-found", true));
    for (field, value) in [("kind", "Nonsense"), ("apiVersion", "a.b/v1"), ("name", "../x")] {
        let mut strange = pod("r", Some(&owner), json!({}));
        strange["metadata"]["namespace"] = "default".into();
        strange["metadata"]["ownerReferences"][0][field] = value.into();
        assert_eq!(failed(&intake.group(&strange).await), ("owner-not-found", true), "{value}");
    }
    assert_eq!(intake.all_groups().await, Vec::<String>::new());
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_of_the_server_is_not_said_and_goes_by() {
    let intake = Intake::open().await;
    let owner = intake.create("jobs", job("train")).await;
    let pod = intake.pod("p", Some(&owner), json!({})).await;
    let faults = intake.sandbox.faults();
    for (verb, resource, code) in [
        ("get", "jobs.batch", 500),
        ("get", "jobs.batch", 429),
        ("list", "podgroups.scheduling.run.ai", 503),
        ("create", "podgroups.scheduling.run.ai", 500),
        ("create", "podgroups.scheduling.run.ai", 429),
    ] {
        faults.add(Rule::refusal(code).verb(verb).resource(resource).times(1));
        assert_eq!(failed(&intake.group(&pod).await), ("api", true), "{verb} {resource} {code}");
        assert_eq!(intake.all_groups().await, Vec::<String>::new());
    }
    let name = format!("pg-train-{}", uid(&owner));
    assert_eq!(intake.group(&pod).await, member(&name, None, false));
    assert_eq!(faults.struck(), 5);
    assert_eq!(intake.warnings("p").await, Vec::<String>::new());
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_refused_is_said_in_the_words_of_who_refuses_it() {
    let intake = Intake::start().await;
    let (api, name) = ("admissionregistration.k8s.io/v1", "no-such-queue");
    let policy = json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["scheduling.run.ai"],
                "apiVersions": ["*"], "operations": ["*"], "resources": ["podgroups"]}]},
            "validations": [{"expression": "false", "message": "there is no such queue"}]}});
    let binding = json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    let path = |plural: &str| format!("/apis/{api}/{plural}");
    let sandbox = &intake.sandbox;
    sandbox.create(&path("validatingadmissionpolicies"), &policy).await.unwrap();
    sandbox.create(&path("validatingadmissionpolicybindings"), &binding).await.unwrap();
    let pod = intake.pod("p", None, json!({})).await;
    for _ in 0..2 {
        let grouped = intake.group(&pod).await;
        assert_eq!(failed(&grouped), ("refused", true));
        let Grouped::Failed { message, .. } = grouped else { panic!("taken") };
        assert!(message.starts_with("PodGroup pg-p-"), "{message}");
        assert!(message.ends_with("there is no such queue"), "{message}");
    }
    let said = eventually("an event", async || {
        let said = intake.warnings("p").await;
        (!said.is_empty()).then_some(said)
    });
    assert_eq!(said.await.len(), 1);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_are_tried_again_and_what_others_say_is_kept() {
    let intake = Intake::open().await;
    let owner = intake.create("jobs", job("train")).await;
    let name = format!("pg-train-{}", uid(&owner));
    let first = intake.pod("p", Some(&owner), json!({})).await;
    assert_eq!(intake.group(&first).await, member(&name, None, false));
    // Somebody moves the group to another queue; then the pods ask for something new.
    let change = json!({"spec": {"queue": "vip"}});
    let patch = Patch::Merge(&change);
    intake.groups().patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let second = intake.pod("q", Some(&owner), json!({"user": "ada"})).await;
    intake
        .sandbox
        .faults()
        .add(Rule::refusal(409).verb("update").resource("podgroups.scheduling.run.ai").times(2));
    assert_eq!(intake.group(&second).await, member(&name, None, false));
    let group = intake.pod_group(&name).await;
    assert_eq!(group["spec"]["queue"], "vip");
    assert_eq!(group["metadata"]["labels"]["user"], "ada");
    assert_eq!(intake.writes("update", "PodGroup"), 1);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_somebody_made_or_deleted_is_found_so() {
    let intake = Intake::start().await;
    let owner = intake.create("jobs", job("train")).await;
    let name = format!("pg-train-{}", uid(&owner));
    // The names of groups are read before somebody makes this one.
    let other = intake.pod("other", None, json!({})).await;
    assert!(matches!(intake.group(&other).await, Grouped::Member { .. }));
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name}, "spec": {"minMember": 9, "queue": "vip"}});
    let made: kube::api::DynamicObject = serde_json::from_value(group).unwrap();
    intake.groups().create(&PostParams::default(), &made).await.unwrap();
    let pod = intake.pod("p", Some(&owner), json!({})).await;
    assert_eq!(intake.group(&pod).await, member(&name, None, false));
    let group: Value = intake.pod_group(&name).await;
    assert_eq!((&group["spec"]["minMember"], &group["spec"]["queue"]), (&json!(1), &json!("vip")));
    // Then it is deleted, and whoever watches groups says so.
    intake.groups().delete(&name, &DeleteParams::default()).await.unwrap();
    intake.grouper.forget("default", &name);
    assert_eq!(intake.group(&pod).await, member(&name, None, false));
    assert_eq!(intake.pod_group(&name).await["spec"]["queue"], "default-queue");
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_lead_writes_nothing() {
    let intake = Intake::start().await;
    let pod = intake.pod("p", None, json!({})).await;
    intake.fence.end();
    assert_eq!(failed(&intake.group(&pod).await), ("not-leader", false));
    assert_eq!(intake.all_groups().await, Vec::<String>::new());
    intake.stop().await;
}
