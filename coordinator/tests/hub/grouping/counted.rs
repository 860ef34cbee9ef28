//! What it costs, and groups that count pods.

use serde_json::json;

use super::{Intake, job, member, uid};
use crate::cluster::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pods_of_one_job_cost_a_few_reads_and_one_write() {
    let intake = Intake::remembering().await;
    let owner = intake.create("jobs", job("train")).await;
    let mut pods = Vec::new();
    for at in 0..300 {
        pods.push(intake.pod(&format!("train-{at}"), Some(&owner), json!({})).await);
    }
    let expected = member(&format!("pg-train-{}", uid(&owner)), None, false);
    assert!(intake.group_all(&pods).await.iter().all(|grouped| *grouped == expected));
    // Job and namespace; where they are; the names of groups.
    assert_eq!((intake.reads("object"), intake.reads("kind"), intake.reads("groups")), (2, 2, 1));
    assert_eq!((intake.writes("create", "PodGroup"), intake.writes("update", "PodGroup")), (1, 0));
    assert_eq!(intake.writes("patch", "Pod"), 0);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn learners_that_come_at_once_are_all_counted() {
    let intake = Intake::start().await;
    let replica =
        json!({"template": {"spec": {"containers": [{"name": "di-container", "image": "i"}]}}});
    let owner = json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob",
        "metadata": {"name": "cartpole"}, "spec": {"coordinator": replica}});
    let owner = intake.create("dijobs", owner).await;
    let labels = |kind: &str| json!({"replica-type": kind, "dijob-name": "cartpole"});
    let first = intake.pod("coordinator", Some(&owner), labels("coordinator")).await;
    let name = format!("pg-cartpole-{}", uid(&owner));
    assert_eq!(intake.group(&first).await, member(&name, Some("coordinator"), true));
    assert_eq!(intake.pod_group(&name).await["spec"]["minMember"], 1);
    let mut learners = Vec::new();
    for at in 0..5 {
        let name = format!("learner-{at}");
        learners.push(intake.pod(&name, Some(&owner), labels("learner")).await);
    }
    let grouped = intake.group_all(&learners).await;
    assert_eq!(grouped, vec![member(&name, Some("learner"), true); 5]);
    assert_eq!(intake.pod_group(&name).await["spec"]["minMember"], 6);
    // One goes. Who asks right then may still count it, but the count settles by itself.
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(intake.sandbox.client(), "default");
    let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    pods.delete("learner-4", &now).await.unwrap();
    assert_eq!(intake.group(&learners[0]).await, member(&name, Some("learner"), true));
    eventually("5 learners become 4", async || {
        (intake.pod_group(&name).await["spec"]["minMember"] == 5).then_some(())
    })
    .await;
    intake.stop().await;
}
