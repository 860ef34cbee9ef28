//! `musterctl modelserving plan`, run on files: what it prints and how it ends.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::program::{ProgramOutput, musterctl_in, root};

fn plan(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    musterctl_in(folder, &[&["modelserving", "plan"], arguments].concat())
}

/// Of the repository's own examples and templates.
fn example(name: &str, more: &[&str]) -> (i32, String, String) {
    let file = format!("docs/examples/modelserving-{name}.yaml");
    plan(&root(), &[&[file.as_str(), "--templates", "deploy/templates"], more].concat())
}

/// The cells of a table, without its header and without names that are hashes.
fn cells(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect());
    rows.filter(|row: &Vec<&str>| row[0] != "ControllerRevision").collect()
}

#[test]
fn each_object_has_a_line_in_the_order_of_its_creation() {
    let (code, table, error) = example("prefill-decode", &[]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(table.starts_with("KIND                NAME "), "{table}");
    let (prefill, decode) = ("pd-0-prefill-0", "pd-0-decode-0");
    assert_eq!(
        cells(&table),
        [
            ["Pod", "pd-0-prefill-0-0", "prefill-0", prefill, "2"],
            ["Pod", "pd-0-prefill-0-1", "prefill-0", prefill, "2"],
            ["Pod", "pd-0-decode-0-0", "decode-0", decode, "2"],
            ["Pod", "pd-0-decode-0-1", "decode-0", decode, "2"],
            ["Service", "pd-0-prefill-0-0", "prefill-0", "-", "-"],
            ["Service", "pd-0-decode-0-0", "decode-0", "-", "-"],
        ]
    );
    let (_, table, _) = example("mindie", &[]);
    let group = "qwen-inference-worker";
    assert_eq!(
        cells(&table),
        [
            ["Pod", "qwen-inference-worker-0", "worker-0", group, "2"],
            ["Pod", "qwen-inference-worker-1", "worker-1", group, "2"],
        ]
    );
    let (_, table, _) = example("vllm", &[]);
    let groups: Vec<&str> = cells(&table).iter().map(|row| row[3]).collect();
    assert_eq!(groups, ["vllm-0", "vllm-0", "-"]);
}

#[test]
fn objects_are_printed_as_the_controller_makes_them() {
    let (code, text, _) = example("mindie", &["-o", "json", "--delivery", "configmap"]);
    let list: Json = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &list["kind"]), (0, &json!("List")));
    let pods: Vec<&Json> =
        list["items"].as_array().unwrap().iter().filter(|it| it["kind"] == "Pod").collect();
    assert_eq!(pods.len(), 2);
    let spec = &pods[0]["spec"];
    assert_eq!(spec["initContainers"][0]["name"], "wait-ranktable");
    assert_eq!(spec["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
    assert_eq!(
        spec["volumes"][0]["configMap"]["name"], "qwen-inference-worker-ranktable",
        "{spec:#}"
    );
    assert_eq!(pods[0]["metadata"]["namespace"], "default");
    let (_, text, _) = example("mindie", &["-o", "yaml", "--delivery", "configmap"]);
    let documents: Vec<Json> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(Json::Array(documents), list["items"]);
}

#[test]
fn pod_groups_are_made_where_the_cluster_knows_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root().join("docs/examples/modelserving-vllm.yaml"));
    let gang = text.unwrap().replace("schedulerName: muster-scheduler", "schedulerName: volcano");
    let gang =
        gang.replace("  template:\n    roles:", "  template:\n    gangPolicy: {}\n    roles:");
    std::fs::write(folder.path().join("gang.yaml"), gang).unwrap();
    for (known, there) in [("absent", false), ("plain", true), ("sub-groups", true)] {
        let (code, table, error) = plan(folder.path(), &["gang.yaml", "--pod-groups", known]);
        assert_eq!(code, 0, "{error}");
        assert!(error.contains("give template ascend-ranktable-template-vllm-group"), "{error}");
        assert_eq!(table.contains("PodGroup"), there, "{known}: {table}");
    }
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let short = "apiVersion: workload.kthena.io/v1alpha1\nkind: ModelServing\nmetadata: {name: qwen, annotations: {kthena.io/ranktable-template: lost}}\nspec:\n  roles:\n  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}\n";
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lost.yaml", short);
    write("bad.yaml", &short.replace("replicas: 2", "replicas: -2"));
    let many = short.replace("replicas: 2", "replicas: 2000000000");
    write("shared.yaml", &many);
    write("many.yaml", &many.replace("kthena.io/ranktable-template: lost", ""));
    write("pod.yaml", "kind: Pod\nmetadata: {name: p}\n");
    write(
        "t.yaml",
        "kind: ConfigMap\nmetadata: {name: t}\ndata: {ranktable-template: '{{ x }}'}\n",
    );
    let bad = plan(folder.path(), &["bad.yaml"]);
    assert_eq!(
        bad,
        (1, "bad.yaml: ModelServing qwen: spec.roles[0].replicas: Invalid value: -2: role replicas must be a non-negative integer; set it to 0 or more; without the field it is 1\n".into(), String::new())
    );
    let (code, out, _) = plan(folder.path(), &["bad.yaml", "-o", "json"]);
    let findings: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &findings[0]["field"]), (1, &json!("spec.roles[0].replicas")));
    let (code, out, error) = plan(folder.path(), &["lost.yaml", "--templates", "t.yaml"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        error,
        "musterctl: lost.yaml: ModelServing qwen: template lost is not in --templates; these are: t\n"
    );
    write("known.yaml", &short.replace("lost", "t"));
    let (code, _, error) = plan(folder.path(), &["known.yaml", "--templates", "t.yaml"]);
    assert_eq!(code, 1);
    assert!(error.contains("function \"x\" not defined"), "{error}");
    let (code, out, _) = plan(folder.path(), &["shared.yaml"]);
    assert_eq!(code, 1);
    assert!(out.contains("spec.roles[worker].replicas") && out.contains("GroupTooLarge"), "{out}");
    let (code, _, error) = plan(folder.path(), &["many.yaml"]);
    assert_eq!(code, 1);
    assert!(error.contains("2000000000 pods, and 10000 are the most"), "{error}");
    let usages: [&[&str]; 5] = [
        &["pod.yaml"],
        &["absent.yaml"],
        &[],
        &["lost.yaml", "--templates", "pod.yaml"],
        &["lost.yaml", "--pod-groups", "many"],
    ];
    for wrong in usages {
        let (code, out, error) = plan(folder.path(), wrong);
        assert_eq!((code, out.as_str()), (2, ""), "{wrong:?}: {error}");
    }
    let (code, help, _) = plan(folder.path(), &["--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("Example:\n  musterctl modelserving plan serving.yaml"), "{help}");
}
