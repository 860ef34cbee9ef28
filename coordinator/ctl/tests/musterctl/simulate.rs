//! `musterctl simulate`, run on files: what it prints and how it ends.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::program::{ProgramOutput, musterctl_in};

fn simulate(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    musterctl_in(folder, &[&["simulate"], arguments].concat())
}

/// A node of two devices, a job that runs on both, and two that wait: a more important one, and one that is too large.
fn cluster() -> Json {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let queue = |name: &str, parent: &str| {
        json!({"metadata": {"name": name}, "spec": {"parentQueue": parent,
            "resources": {"gpu": free, "cpu": free, "memory": free}}})
    };
    let group = |name: &str, class: &str, age: u32| {
        json!({"metadata": {"name": name, "namespace": "d", "creationTimestamp": format!("2025-12-31T00:00:{age:02}Z")},
            "spec": {"queue": "team", "minMember": 1, "priorityClassName": class}})
    };
    let pod = |name: &str, devices: u32, node: &str| {
        let phase = if node.is_empty() { "Pending" } else { "Running" };
        json!({"metadata": {"name": name, "namespace": "d", "annotations": {"pod-group-name": name}},
            "spec": {"schedulerName": "kai-scheduler", "nodeName": node,
                "containers": [{"resources": {"requests": {"nvidia.com/gpu": devices}}}]},
            "status": {"phase": phase}})
    };
    json!({
        "now": "2026-01-01T00:00:00Z",
        "nodes": [{"metadata": {"name": "n0", "labels": {"nvidia.com/gpu.count": "2"}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": 10, "nvidia.com/gpu": 2},
                "conditions": [{"type": "Ready", "status": "True"}]}}],
        "queues": [queue("root", ""), queue("team", "root")],
        "podGroups": [group("old", "train", 0), group("new", "build", 1), group("huge", "train", 2)],
        "pods": [pod("old", 2, "n0"), pod("new", 2, ""), pod("huge", 9, "")],
        "priorityClasses": [{"metadata": {"name": "train"}, "value": 50}, {"metadata": {"name": "build"}, "value": 100}],
    })
}

fn folder(cluster: &Json) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cluster.json"), cluster.to_string()).unwrap();
    folder
}

#[test]
fn json_has_decisions_pods_shares_and_reasons() {
    let folder = folder(&cluster());
    let (code, out, error) = simulate(folder.path(), &["-f", "cluster.json", "-o", "json"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let out: Json = serde_json::from_str(&out).unwrap();
    let decisions: Vec<_> =
        out["decisions"].as_array().unwrap().iter().map(|d| (&d["pod"], &d["action"])).collect();
    assert_eq!(
        decisions,
        [(&json!("d/new"), &json!("pipeline")), (&json!("d/old"), &json!("evict"))]
    );
    assert_eq!(out["pods"]["d/old"]["status"], "Releasing");
    assert_eq!(out["pods"]["d/new"], json!({"status": "Pipelined", "node": "n0"}));
    assert_eq!(out["fairShare"]["root"]["gpu"], 2.0);
    assert_eq!(out["reasons"]["d/huge"]["reason"], "LargerThanAnyNode");
    assert!(out["cycleMs"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_table_says_what_runs_who_leaves_for_whom_and_what_waits() {
    let folder = folder(&cluster());
    let (code, out, _) = simulate(folder.path(), &["-f", "cluster.json"]);
    assert_eq!(code, 0);
    let has = |start: &str, words: &[&str]| {
        out.lines()
            .any(|line| line.starts_with(start) && words.iter().all(|word| line.contains(word)))
    };
    assert!(has("d/new ", &["n0", "when others have left"]), "{out}");
    assert!(has("d/old ", &["n0", "d/new", "preempt"]), "{out}");
    assert!(has("d/huge ", &["LargerThanAnyNode"]), "{out}");
    assert!(has("0 bound, 1 promised, 1 evicted, 1 groups wait", &[]), "{out}");
}

#[test]
fn after_a_cycle_bound_pods_run_and_evicted_ones_wait() {
    let folder = folder(&cluster());
    let (code, out, _) =
        simulate(folder.path(), &["-f", "cluster.json", "--cycles", "3", "-o", "json"]);
    assert_eq!(code, 0);
    let out: Json = serde_json::from_str(&out).unwrap();
    let status = |cycle: usize, pod: &str| out["cycles"][cycle]["pods"][pod]["status"].clone();
    assert_eq!([0, 1, 2].map(|cycle| status(cycle, "d/new")), ["Pipelined", "Binding", "Running"]);
    assert_eq!([0, 1, 2].map(|cycle| status(cycle, "d/old")), ["Releasing", "Pending", "Pending"]);
}

#[test]
fn a_configuration_of_its_own_counts_and_is_checked() {
    let folder = folder(&cluster());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("allocate.yaml", "actions: allocate\n");
    let (_, out, _) = simulate(folder.path(), &["-f", "cluster.json", "--config", "allocate.yaml"]);
    assert!(out.contains("0 bound, 0 promised, 0 evicted, 2 groups wait"), "{out}");

    write(
        "shard.yaml",
        "kind: SchedulingShard\nspec: {actions: {preempt: {enabled: false}}, plugins: {odd: {}}}\n",
    );
    let (code, out, error) =
        simulate(folder.path(), &["-f", "cluster.json", "--config", "shard.yaml"]);
    assert_eq!(code, 0);
    assert!(out.contains("0 evicted"), "{out}");
    assert!(error.contains("there is no plugin `odd`, so it is left out"), "{error}");

    write("bad.yaml", "actions: alocate\n");
    let (code, _, error) = simulate(folder.path(), &["-f", "cluster.json", "--config", "bad.yaml"]);
    assert_eq!(code, 1);
    assert!(error.contains("bad.yaml: line 1: there is no action `alocate`"), "{error}");
}

#[test]
fn a_bad_object_is_named_and_the_others_are_scheduled() {
    let mut cluster = cluster();
    cluster["pods"]
        .as_array_mut()
        .unwrap()
        .push(json!({"metadata": {"name": "odd", "namespace": "d"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}}));
    let folder = folder(&cluster);
    let (code, out, error) = simulate(folder.path(), &["-f", "cluster.json"]);
    assert_eq!(code, 0);
    assert!(out.contains("1 promised"), "{out}");
    assert!(
        error.contains(
            "set aside: Pod d/odd: spec.containers[0].resources.requests.cpu: `-1` is negative"
        ),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_cluster_is_wrong_use() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.json"), "[1").unwrap();
    assert_eq!(simulate(folder.path(), &["-f", "x.json"]).0, 2);
    assert_eq!(simulate(folder.path(), &["-f", "absent.json"]).0, 2);
}
