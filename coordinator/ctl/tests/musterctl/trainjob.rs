//! `musterctl trainjob render`, run on files: what it prints and how it ends.

use serde_json::{Value as Json, json};

use crate::program::{ProgramOutput, musterctl};

fn render(arguments: &[&str]) -> ProgramOutput {
    musterctl(&[&["trainjob", "render"], arguments].concat())
}

fn document(arguments: &[&str]) -> Json {
    let (code, text, error) = render(arguments);
    assert_eq!((code, error.as_str()), (0, ""));
    serde_json::from_str(&text).unwrap()
}

fn pod(document: &Json) -> &Json {
    let objects = document["objects"].as_array().unwrap();
    let job_set = objects.iter().find(|object| object["kind"] == "JobSet").unwrap();
    &job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
}

#[test]
fn the_torch_example_becomes_a_jobset_of_two_nodes() {
    let document = document(&["-f", "docs/examples/trainjob-torch.yaml", "--reconcile"]);
    assert_eq!(document["errors"], json!([]));
    let env = &pod(&document)["spec"]["containers"][0]["env"];
    assert_eq!(env[0], json!({"name": "PET_NNODES", "value": "2"}));
    assert_eq!(document["reconcile"]["jobSetAfter"], "present");
    assert_eq!(document["snapshot"]["name"], "mnist-runtime-snapshot");
}

#[test]
fn the_ascend_example_waits_for_its_table() {
    let file = "docs/examples/trainjob-ascend.yaml";
    let document = document(&["-f", file, "--templates", "deploy/templates"]);
    assert_eq!(document["errors"], json!([]));
    let pod = pod(&document);
    assert_eq!(pod["metadata"]["annotations"]["muster.dev/rank-group-size"], "2");
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "wait-ranktable");
}

#[test]
fn errors_are_part_of_the_document_with_field_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"runtimeRef": {"name": "none"}}});
    std::fs::write(&file, job.to_string()).unwrap();
    let document = document(&["-f", file.to_str().unwrap()]);
    let error = &document["errors"][0];
    assert_eq!(
        (&error["phase"], &error["field"]),
        (&json!("trainjob-webhook"), &json!("spec.RuntimeRef"))
    );
    assert!(error["remedy"].as_str().unwrap().contains("create the runtime"));
}

#[test]
fn two_jobs_at_once_are_a_mistake_of_use() {
    let file = "docs/examples/trainjob-torch.yaml";
    let (code, out, error) = render(&["-f", file, "-f", file]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("2 TrainJobs"), "{error}");
}

/// What is refused of a torch job with this trainer: type and field of each error.
fn refused(trainer: &Json) -> Vec<String> {
    let step = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let pod = json!({"spec": {"containers": [{"name": "node", "image": "i"}]}});
    let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt"}, "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs":
        [{"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": pod}}}]}}}});
    let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "a", "uid": "u", "creationTimestamp": "2024-05-01T00:00:00Z"},
        "spec": {"runtimeRef": {"name": "rt"}, "trainer": trainer}});
    let document = musterctl::trainjob::document(vec![runtime, job], true).unwrap();
    let errors = document["errors"].as_array().unwrap();
    assert_eq!(errors.is_empty(), document["objects"] != json!([]), "{document}");
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let mut rows: Vec<String> =
        errors.iter().map(|e| format!("{} {}", text(&e["type"]), text(&e["field"]))).collect();
    rows.sort();
    rows
}

#[test]
fn numbers_are_read_as_the_api_server_reads_them() {
    let (nil, kind) = ("FieldValueInvalid <nil>", "FieldValueTypeInvalid");
    let nodes = format!("{kind} spec.trainer.numNodes");
    let cpu = format!("{kind} spec.trainer.resourcesPerNode.limits.cpu");
    let limits = |cpu: Json| json!({"resourcesPerNode": {"limits": {"cpu": cpu}}});
    for (trainer, wanted) in [
        (json!({"numNodes": 2.0}), vec![]),
        (json!({"numNodes": 1.5}), vec![nil, &nodes]),
        (json!({"numNodes": 3_000_000_000_u32}), vec![nil]),
        (limits(json!(2)), vec![]),
        (limits(json!("0.5")), vec![]),
        (limits(json!(0.5)), vec![nil, nil, &cpu, &cpu]),
        (limits(json!(true)), vec![nil, &cpu, &cpu]),
    ] {
        assert_eq!(refused(&trainer), wanted, "{trainer}");
    }
}
