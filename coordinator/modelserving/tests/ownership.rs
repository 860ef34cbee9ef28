//! Only what is ours goes: things of others stay, though their names and labels are like ours.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "modelserving_conformance/cluster.rs"]
mod cluster;

use cluster::Cluster;
use muster_modelserving::api::ModelServing;
use muster_modelserving::naming::{GROUP, NAME, ROLE, ROLE_ID, Shape};
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::step::Kind;
use serde_json::{Value, json};

fn serving(policy: &str) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "engine", "image": "engine:v1"}]}});
    json!({
        "metadata": {"name": "llm", "namespace": "serve", "uid": "u", "generation": 1},
        "spec": {
            "replicas": 1, "schedulerName": "volcano", "recoveryPolicy": policy,
            "template": {"roles": [{
                "name": "server", "replicas": 1, "workerReplicas": 1,
                "entryTemplate": pod, "workerTemplate": pod,
            }]},
        },
    })
}

fn cluster(serving: &Value) -> Cluster {
    let serving: ModelServing = serde_json::from_value(serving.clone()).unwrap();
    Cluster::new(serving, PodGroupApi::Plain, false)
}

fn start(cluster: &mut Cluster) {
    cluster.start();
    cluster.settle();
    let names: Vec<String> = cluster.pods.keys().cloned().collect();
    names.iter().for_each(|name| cluster.pod_is_ready(name));
    cluster.settle();
}

/// Something that the ModelServing of this name and the other shape has made.
fn put_foreign(cluster: &mut Cluster, kind: Kind, name: &str, labels: Value) {
    let owner = json!({"apiVersion": Shape::Short.api_version(), "kind": "ModelServing",
        "name": "llm", "uid": "other"});
    let body = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": []}, "revision": 1, "data": [],
    });
    let mut body = body;
    if kind == Kind::Service || kind == Kind::ControllerRevision {
        body.as_object_mut().unwrap().remove("spec");
    }
    cluster.put(kind, name.to_owned(), body);
}

fn labels(group: &str) -> Value {
    json!({NAME: "llm", GROUP: group, ROLE: "server", ROLE_ID: "server-0"})
}

fn scale(cluster: &mut Cluster, serving: &Value, groups: i64) {
    let mut serving = serving.clone();
    serving["spec"]["replicas"] = groups.into();
    cluster.change_spec(serde_json::from_value(serving["spec"].clone()).unwrap());
    cluster.settle();
}

#[test]
fn a_group_goes_without_the_pods_that_others_have_in_one_of_its_name() {
    let serving = serving("RoleRecreate");
    let mut cluster = cluster(&serving);
    put_foreign(&mut cluster, Kind::Pod, "llm-server-0", labels("llm-0"));
    put_foreign(&mut cluster, Kind::Service, "theirs", labels("llm-0"));
    start(&mut cluster);
    assert_eq!(cluster.pods.len(), 3);
    scale(&mut cluster, &serving, 0);
    assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), ["llm-server-0"]);
    assert_eq!(cluster.services.keys().collect::<Vec<_>>(), ["theirs"]);
    assert!(cluster.machine.store().groups().is_empty(), "what others have does not hold it");
    scale(&mut cluster, &serving, 1);
    assert_eq!(cluster.pods.len(), 3);
}

#[test]
fn a_lost_pod_takes_no_pods_of_others_with_it() {
    for policy in ["RoleRecreate", "ServingGroupRecreate"] {
        let mut cluster = cluster(&serving(policy));
        put_foreign(&mut cluster, Kind::Pod, "llm-server-0", labels("llm-0"));
        start(&mut cluster);
        let theirs = cluster.pods["llm-server-0"].metadata.uid.clone();
        cluster.pod_goes("llm-0-server-0-1");
        cluster.settle();
        assert_eq!(cluster.pods["llm-server-0"].metadata.uid, theirs, "{policy}");
        assert_eq!(cluster.pods.len(), 3, "{policy}: it comes back");
    }
}

#[test]
fn pods_of_others_do_not_make_up_for_those_that_are_missing() {
    let mut cluster = cluster(&serving("None"));
    put_foreign(&mut cluster, Kind::Pod, "llm-server-0", labels("llm-0"));
    start(&mut cluster);
    cluster.pod_goes("llm-0-server-0-1");
    cluster.queue();
    cluster.settle();
    assert!(cluster.pods.contains_key("llm-0-server-0-1"));
}

#[test]
fn a_label_of_the_template_does_not_reach_into_another_serving() {
    let mut serving = serving("RoleRecreate");
    let entry = &mut serving["spec"]["template"]["roles"][0]["entryTemplate"];
    entry["metadata"] = json!({"labels": {GROUP: "other-0"}});
    let mut cluster = cluster(&serving);
    let theirs = json!({NAME: "other", GROUP: "other-0", ROLE: "server", ROLE_ID: "server-0"});
    put_foreign(&mut cluster, Kind::Pod, "other-0-server-0-0", theirs);
    start(&mut cluster);
    scale(&mut cluster, &serving, 0);
    assert!(cluster.pods.contains_key("other-0-server-0-0"));
}

#[test]
fn pod_groups_and_revisions_of_others_stay() {
    let serving = serving("RoleRecreate");
    let mut cluster = cluster(&serving);
    put_foreign(&mut cluster, Kind::PodGroup, "llm-0", json!({NAME: "llm", GROUP: "llm-0"}));
    put_foreign(&mut cluster, Kind::PodGroup, "llm-1", json!({}));
    put_foreign(&mut cluster, Kind::ControllerRevision, "llm-theirs", json!({NAME: "llm"}));
    start(&mut cluster);
    scale(&mut cluster, &serving, 2);
    scale(&mut cluster, &serving, 0);
    assert_eq!(cluster.pod_groups.keys().collect::<Vec<_>>(), ["llm-0", "llm-1"]);
    assert!(cluster.revisions.contains_key("llm-theirs"));
    assert!(cluster.pods.is_empty() && cluster.services.is_empty());
}

#[test]
fn a_revision_of_others_is_not_replaced() {
    let serving = serving("RoleRecreate");
    let mut cluster = cluster(&serving);
    let roles = &cluster.serving.as_ref().unwrap().spec.template.roles;
    let name = format!("llm-{}", muster_modelserving::revision::roles(roles));
    put_foreign(&mut cluster, Kind::ControllerRevision, &name, json!({NAME: "llm"}));
    let theirs = cluster.revisions[&name].metadata.uid.clone();
    start(&mut cluster);
    assert_eq!(cluster.revisions[&name].metadata.uid, theirs);
    assert_eq!(cluster.pods.len(), 2, "that their revision has its name holds nothing up");
}
