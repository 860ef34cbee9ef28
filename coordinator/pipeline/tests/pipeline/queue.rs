//! Queue: PodGroups of jobs that Muster's scheduler places.

use serde_json::{Value, json};

use crate::given::{Given, job, of_kind, pod, runtime, trains};

fn ours(mut job: Value) -> Value {
    job["template"]["spec"]["template"]["spec"]["schedulerName"] = json!("muster-scheduler");
    job
}

fn group(outcome: &muster_pipeline::Outcome, name: &str) -> Value {
    let groups = of_kind(outcome, "PodGroup");
    let group = groups.iter().find(|g| g["metadata"]["name"] == name);
    group.unwrap_or_else(|| panic!("no PodGroup {name}"))["spec"].clone()
}

#[test]
fn queue_priority_and_topology_of_the_job_are_the_groups() {
    let given = Given::of([runtime(json!({"torch": {}}), json!([ours(trains("node"))]))]);
    let mut job = job(json!({"trainer": {"numNodes": 4}}));
    job["metadata"]["labels"] =
        json!({"kai.scheduler/queue": "team-a", "priorityClassName": "high"});
    job["metadata"]["annotations"] = json!({"kai.scheduler/topology": "racks",
        "kai.scheduler/topology-required-placement": "rack"});
    let outcome = given.pass(&job);
    assert_eq!(
        group(&outcome, "job"),
        json!({"queue": "team-a", "priorityClassName": "high", "minSubGroup": 1,
            "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "rack"},
            "subGroups": [{"name": "node", "minMember": 4}]})
    );
    let metadata = &pod(&outcome, 0)["metadata"];
    assert_eq!(metadata["annotations"]["pod-group-name"], "job");
    assert_eq!(metadata["labels"]["kai.scheduler/subgroup-name"], "node");
}

#[test]
fn other_schedulers_are_left_alone() {
    let given = Given::of([runtime(json!({"torch": {}}), json!([trains("node")]))]);
    assert!(of_kind(&given.pass(&job(json!({}))), "PodGroup").is_empty());
}

#[test]
fn nobody_waits_for_pods_that_do_not_exist_yet() {
    let (mut fetch, mut node, mut launcher) =
        (ours(trains("fetch")), ours(trains("node")), ours(trains("launcher")));
    fetch["template"]["metadata"] = json!({});
    launcher["template"]["metadata"] = json!({});
    node["dependsOn"] = json!([{"name": "fetch", "status": "Complete"}]);
    launcher["dependsOn"] = json!([{"name": "node", "status": "Ready"}]);
    let given = Given::of([runtime(json!({"torch": {}}), json!([fetch, node, launcher]))]);
    let outcome = given.pass(&job(json!({"trainer": {"numNodes": 2}})));
    assert_eq!(
        group(&outcome, "job-fetch")["subGroups"],
        json!([{"name": "fetch", "minMember": 1}])
    );
    assert_eq!(
        group(&outcome, "job")["subGroups"],
        json!([{"name": "node", "minMember": 2}, {"name": "launcher", "minMember": 0}])
    );
}

#[test]
fn a_group_that_runs_is_not_changed() {
    let mut given = Given::of([runtime(json!({"torch": {}}), json!([ours(trains("node"))]))]);
    given.apply(&given.pass(&job(json!({}))));
    assert!(of_kind(&given.pass(&job(json!({}))), "PodGroup").is_empty());
    assert_eq!(of_kind(&given.pass(&job(json!({"suspend": true}))), "PodGroup").len(), 1);
}
