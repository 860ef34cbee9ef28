//! Ranktable: Ascend training with a rank table.

use serde_json::{Value, json};

use crate::given::{Given, job, of_kind, pod, runtime, trains};

fn template() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hccl"},
        "data": {"mount-path": "/etc/table", "filename": "hccl.json", "ranktable-template": "{}"}})
}

fn wants(spec: Value) -> Value {
    let mut job = job(spec);
    job["metadata"]["annotations"] =
        json!({"muster.dev/ranktable-template": "hccl", "kthena.io/ranktable-order": "numeric"});
    job
}

#[test]
fn nodes_get_marks_volume_mount_waiter_and_the_path() {
    let given = Given::of([runtime(json!({"torch": {}}), json!([trains("node")])), template()]);
    let outcome = given.pass(&wants(json!({"trainer": {"numNodes": 2}})));
    let pod = pod(&outcome, 0);
    assert_eq!(pod["metadata"]["labels"]["muster.dev/rank-group"], "job");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["muster.dev/rank-group-size"], "2");
    assert_eq!(annotations["muster.dev/ranktable-template"], "hccl");
    assert_eq!(annotations["kthena.io/ranktable-order"], "numeric");
    let spec = &pod["spec"];
    assert_eq!(spec["volumes"][0]["name"], "ranktable");
    assert_eq!(spec["initContainers"][0]["name"], "wait-ranktable");
    let container = &spec["containers"][0];
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/table");
    let env = container["env"].as_array().unwrap();
    let path = json!({"name": "RANK_TABLE_FILE", "value": "/etc/table/hccl.json"});
    assert_eq!(env.last(), Some(&path));
}

#[test]
fn ranks_follow_the_nodes_unless_the_job_says_otherwise() {
    let given = Given::of([runtime(json!({"torch": {}}), json!([trains("node")])), template()]);
    let mut job = wants(json!({"trainer": {"numNodes": 2}}));
    job["metadata"]["annotations"] = json!({"muster.dev/ranktable-template": "hccl"});
    let outcome = given.pass(&job);
    let annotations = &pod(&outcome, 0)["metadata"]["annotations"];
    assert_eq!(annotations["muster.dev/ranktable-order"], "pod");
    let outcome = given.pass(&wants(json!({"trainer": {"numNodes": 2}})));
    let annotations = &pod(&outcome, 0)["metadata"]["annotations"];
    assert_eq!(annotations["muster.dev/ranktable-order"], json!(null), "the job says it");
    for key in ["muster.dev/ranktable-order", "kthena.io/ranktable-order"] {
        let mut nodes = trains("node");
        nodes["template"]["spec"]["template"]["metadata"] = json!({"annotations": {key: "seed"}});
        let given = Given::of([runtime(json!({"torch": {}}), json!([nodes])), template()]);
        let outcome = given.pass(&job);
        let annotations = &pod(&outcome, 0)["metadata"]["annotations"];
        let said = ["muster.dev/ranktable-order", "kthena.io/ranktable-order"]
            .map(|key| annotations[key].as_str().unwrap_or_default());
        assert_eq!(said.concat(), "seed", "{key}: the runtime says it");
    }
}

#[test]
fn with_mpi_the_nodes_share_the_table_and_a_launcher_that_trains() {
    let jobs = json!([trains("launcher"), trains("node")]);
    let given = Given::of([runtime(json!({"mpi": {"runLauncherAsNode": true}}), jobs), template()]);
    let outcome = given.pass(&wants(json!({"trainer": {"numNodes": 4}})));
    for index in [0, 1] {
        let annotations = &pod(&outcome, index)["metadata"]["annotations"];
        assert_eq!(annotations["muster.dev/rank-group-size"], "4", "{index}");
    }
}

#[test]
fn an_own_path_wins() {
    let mut node = trains("node");
    node["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "RANK_TABLE_FILE", "value": "/mine"}]);
    let given = Given::of([runtime(json!(null), json!([node])), template()]);
    let outcome = given.pass(&wants(json!({})));
    let env = &pod(&outcome, 0)["spec"]["containers"][0]["env"];
    assert_eq!(env, &json!([{"name": "RANK_TABLE_FILE", "value": "/mine"}]));
}

#[test]
fn a_template_that_is_not_there_is_told_with_its_name() {
    let given = Given::of([runtime(json!(null), json!([trains("node")]))]);
    let outcome = given.pass(&wants(json!({})));
    assert!(of_kind(&outcome, "JobSet").is_empty());
    let error = outcome.error.unwrap();
    assert!(error.contains("TrainJob team/job") && error.contains("hccl"), "{error}");
}

#[test]
fn a_runtime_without_a_step_that_trains_cannot_have_a_table() {
    let mut other = trains("node");
    other["template"]["metadata"] = json!({});
    let given = Given::of([runtime(json!(null), json!([other])), template()]);
    assert!(given.pass(&wants(json!({}))).error.unwrap().contains("label one"));
}
