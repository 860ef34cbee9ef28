//! `musterctl group`, run on files: what it prints and how it ends.

use serde_json::{Value as Json, json};

use crate::program::{ProgramOutput, musterctl, root};

fn group(arguments: &[&str]) -> ProgramOutput {
    musterctl(&[&["group"], arguments].concat())
}

/// Of objects that are no file yet.
fn given(objects: Json, more: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.json");
    std::fs::write(&file, objects.to_string()).unwrap();
    group(&[&["-f", file.to_str().unwrap()], more].concat())
}

fn items(text: &str) -> Vec<Json> {
    let list: Json = serde_json::from_str(text).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn template() -> Json {
    json!({"spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn a_job_set_is_shown_as_a_tree_with_its_pods() {
    let (code, table, error) = group(&["-f", "docs/examples/group-jobset.yaml"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [
            vec!["pg-train-UID", "2", "parts", "7", "research", "train", "created"],
            vec!["launcher", "1", "part"],
            vec!["launcher-replica-0", "1", "pod", "1"],
            vec!["workers", "2", "parts"],
            vec!["workers-replica-0", "3", "pods", "3"],
            vec!["workers-replica-1", "3", "pods", "3"],
        ]
    );
    let page = std::fs::read_to_string(root().join("docs/pod-groups.md")).unwrap();
    for line in table.lines() {
        assert!(page.contains(line), "docs/pod-groups.md lacks: {line}");
    }
}

#[test]
fn all_examples_of_model_servings_have_groups() {
    let ours = "muster-scheduler";
    for (name, scheduler) in [("mindie", "x"), ("prefill-decode", ours), ("vllm", ours)] {
        let file = format!("docs/examples/modelserving-{name}.yaml");
        let (code, text, error) = group(&["-f", &file, "-o", "json", "--scheduler", scheduler]);
        assert_eq!((code, items(&text).len()), (0, 1), "{name}: {error}");
        for group in items(&text) {
            assert_eq!(group["kind"], "PodGroup");
            assert!(group["spec"]["subGroups"][0]["name"].is_string(), "{name}: {group}");
        }
    }
}

#[test]
fn pods_and_groups_of_the_files_are_taken_as_they_are() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "a", "uid": "7"}, "spec": {"template": template()}});
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "7"}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template()["spec"],
        "metadata": {"name": "j-x", "namespace": "a", "uid": "8", "ownerReferences": owner}});
    let there = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "pg-j-7", "namespace": "a"}, "spec": {"minMember": 4, "queue": "mine"}});
    let (code, table, _) = given(json!([job, pod, there]), &[]);
    assert_eq!(code, 0);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["pg-j-7", "1", "pod", "1", "mine", "train", "updated"]);
}

#[test]
fn each_pod_of_a_deployment_is_alone_and_other_schedulers_keep_theirs() {
    let web = |scheduler: &str| {
        let mut template = template();
        template["spec"]["schedulerName"] = json!(scheduler);
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "template": template}})
    };
    let (code, text, _) = given(json!([web("mine")]), &["--scheduler", "mine", "-o", "json"]);
    assert_eq!((code, items(&text).len()), (0, 3));
    let (code, text, error) = given(json!([web("other")]), &["-o", "json"]);
    assert_eq!((code, items(&text).len()), (0, 0));
    assert!(
        error.contains("and 2 more are left alone: other has it; see it with --scheduler other"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_grouped_is_named_with_its_remedy_and_does_not_stop_others() {
    let broken = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"},
        "spec": {"headGroupSpec": {"template": template()},
            "workerGroupSpecs": [{"groupName": "g", "replicas": 1, "minReplicas": 5}]}});
    let good = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
        "spec": {"template": template()}});
    let (code, table, error) = given(json!([broken, good]), &[]);
    assert_eq!(code, 1);
    assert!(table.contains("pg-s-UID"), "{table}");
    assert!(
        error.contains("RayCluster default/r: spec.workerGroupSpecs[0].minReplicas"),
        "{error}"
    );
    assert!(error.contains("raise replicas"), "{error}");
}

#[test]
fn the_yaml_can_be_read_again() {
    let (code, text, _) = group(&["-f", "docs/examples/group-jobset.yaml", "-o", "yaml"]);
    assert_eq!(code, 0);
    let group: Json = serde_saphyr::from_str(&text).unwrap();
    let part = &group["spec"]["subGroups"][3];
    assert_eq!(part["topologyConstraint"]["requiredTopologyLevel"], "rack");
}
