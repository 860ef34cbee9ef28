//! What names mean.

use serde_json::json;

use crate::cluster_file::{ClusterFile, group, owned, pod};
use crate::program::{musterctl, root, run_in};

/// A TrainJob with its JobSet and Job, as the API knows them.
fn family() -> ClusterFile {
    let owner = |kind: &str, name: &str, of: &str, above: &str| {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"}});
        if of.is_empty() { object } else { owned(object, of, above) }
    };
    ClusterFile::new()
        .with("podGroups", [owned(group("pg-train", "team-a", 1, 1), "TrainJob", "train")])
        .with("pods", [owned(pod("train-0", "pg-train", 1, ""), "Job", "train-node-0")])
        .with(
            "owners",
            [
                owner("Job", "train-node-0", "JobSet", "train"),
                owner("JobSet", "train", "TrainJob", "train"),
                owner("TrainJob", "train", "", ""),
                owner("TrainJob", "young", "", ""),
            ],
        )
}

#[test]
fn a_workload_is_found_by_what_it_owns_whatever_kind_is_said() {
    let file = family();
    let asked: [&[&str]; 7] = [
        &["explain", "train"],
        &["explain", "trainjob/train"],
        &["explain", "TrainJobs.trainer.kubeflow.org", "train"],
        &["explain", "jobset/train"],
        &["explain", "job/train-node-0"],
        &["explain", "pg/pg-train"],
        &["explain", "po/train-0"],
    ];
    for words in asked {
        let answer = file.json(words);
        assert_eq!(answer["groups"][0]["name"], "pg-train", "{words:?}");
        assert_eq!(answer["groups"][0]["pods"][0]["name"], "ml/train-0", "{words:?}");
    }
    // The topmost of one name stands for all below it.
    assert_eq!(file.json(&["explain", "train"])["kind"], "TrainJob");
}

#[test]
fn owners_that_are_only_named_are_enough() {
    let mut file = family();
    file.0["owners"] = json!([]);
    assert_eq!(file.json(&["explain", "trainjob/train"])["groups"][0]["name"], "pg-train");
    assert_eq!(file.json(&["explain", "job/train-node-0"])["groups"][0]["name"], "pg-train");
}

#[test]
fn a_workload_without_pods_is_told_so() {
    let (code, out, _) = family().text(&["explain", "trainjob/young"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("TrainJob ml/young has no pods\n"), "{out}");
    assert!(out.contains("kubectl describe trainjob young -n ml"), "{out}");
}

#[test]
fn an_unknown_name_is_wrong_use_and_names_what_is_like_it() {
    let file = family();
    let (code, out, error) = file.ask(&["explain", "trai"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("there is no object trai in any namespace: there is"), "{error}");
    assert!(error.contains("trainjob/train -n ml"), "{error}");
    let (code, _, error) = file.ask(&["explain", "train", "-n", "other"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no object train in namespace other"), "{error}");
    let (code, _, error) = file.ask(&["explain", "dijob/zzz"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no dijob zzz"), "{error}");
    for (asked, shown) in
        [("queues/q", "queues q"), ("Node/n", "nodes n"), ("topologies/t", "topology t")]
    {
        let (code, _, error) = file.ask(&["explain", asked]);
        assert_eq!(code, 2);
        assert!(error.contains(&format!("`musterctl {shown}` shows it")), "{error}");
    }
}

#[test]
fn a_name_of_several_things_is_wrong_use_and_names_them() {
    let mut elsewhere = group("pg-train", "team-a", 1, 2);
    elsewhere["metadata"]["namespace"] = json!("other");
    let file = family().with("podGroups", [elsewhere]).with("pods", [pod("train", "", 1, "")]);
    let (code, _, error) = file.ask(&["explain", "train"]);
    assert_eq!(code, 2);
    assert!(error.contains("say pod/train -n ml, or trainjob/train -n ml"), "{error}");
    let (code, _, error) = file.ask(&["explain", "pg-train"]);
    assert_eq!(code, 2);
    assert!(error.contains("podgroup/pg-train -n other"), "{error}");
    assert_eq!(file.ask(&["explain", "pg-train", "-n", "ml"]).0, 0);
}

#[test]
fn groups_of_one_name_in_two_namespaces_keep_their_own_pods() {
    let mut twin = group("old", "nowhere", 1, 5);
    twin["metadata"]["namespace"] = json!("other");
    let mut its = pod("old-0", "old", 1, "");
    its["metadata"]["namespace"] = json!("other");
    let file = ClusterFile::new().with("podGroups", [twin]).with("pods", [its]);
    assert_eq!(file.ask(&["explain", "podgroup/old", "-n", "ml"]).0, 0);
    let answer = file.json(&["explain", "podgroup/old", "-n", "other"]);
    assert_eq!(answer["groups"][0]["now"]["reason"], "QueueDoesNotExist");
    assert_eq!(answer["groups"][0]["pods"].as_array().unwrap().len(), 1);
}

#[test]
fn words_that_are_no_name_are_wrong_use() {
    let file = ClusterFile::new();
    for words in [&["explain", "a/b/c"][..], &["explain", "/x"], &["explain", "pod/"], &["explain"]]
    {
        let (code, out, _) = file.ask(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
    }
}

#[test]
fn a_file_that_is_no_snapshot_is_wrong_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    std::fs::write(&file, "{\"pods\": 3}").unwrap();
    for verb in ["queues", "nodes", "topology"] {
        let (code, _, error) = musterctl(&[verb, "-f", file.to_str().unwrap()]);
        assert_eq!(code, 2, "{verb}");
        assert!(error.contains("x.json: the document cannot be read"), "{error}");
        assert_eq!(musterctl(&[verb, "-f", "/absent.json"]).0, 2, "{verb}");
    }
}

#[test]
fn as_a_plugin_it_calls_itself_kubectl_muster() {
    let plugin = env!("CARGO_BIN_EXE_kubectl-muster");
    let (code, out, _) = run_in(&root(), plugin, &["--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage: kubectl muster <COMMAND>"), "{out}");
    assert!(out.contains("kubectl muster explain trainjob/train"), "{out}");
    assert!(!out.contains("musterctl"), "{out}");
    let (_, out, _) = run_in(&root(), plugin, &["explain", "--help"]);
    assert!(out.contains("Usage: kubectl muster explain"), "{out}");
    assert!(out.contains("kubectl muster explain train -f snapshot.json"), "{out}");
}

/// What the documentation shows is what is printed.
#[test]
fn the_page_about_explain_tells_the_truth() {
    let page = std::fs::read_to_string(root().join("docs/explain.md")).unwrap();
    let mut shown = 0;
    for block in page.split("```\n").filter_map(|block| block.strip_prefix("$ musterctl ")) {
        let (command, expected) = block.split_once('\n').unwrap();
        let (_, out, error) = musterctl(&command.split_whitespace().collect::<Vec<_>>());
        assert_eq!((out.as_str(), error.as_str()), (expected, ""));
        shown += 1;
    }
    assert_eq!(shown, 4);
}
