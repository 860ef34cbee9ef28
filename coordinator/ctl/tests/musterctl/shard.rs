//! Which configuration decides: the cluster's shard, as with the coordinator, or a file.

use std::fs;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::cluster_file::ClusterFile;

/// One group that fits, and a shard of this name that says so much.
fn cluster_file(shard: &str, spec: Json) -> ClusterFile {
    let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
        "metadata": {"name": shard}, "spec": spec});
    ClusterFile::new().waiting("small", "team-a", 1, 8).with("schedulingShards", [shard])
}

/// What keeps the group waiting, and what is said beside.
fn asked(file: &ClusterFile, more: &[&str]) -> (Json, String) {
    let (_, _, error) = file.text(&[&["explain", "podgroup/small"], more].concat());
    let answer = file.json(&[&["explain", "small"], more].concat());
    (answer["groups"][0].clone(), error)
}

#[test]
fn the_cluster_decides_by_its_shard_and_by_no_other() {
    let plain = asked(&ClusterFile::new().waiting("small", "team-a", 1, 8), &[]);
    assert_eq!(plain.1, "");
    let off = json!({"actions": {"allocate": {"enabled": false}, "reclaim": {"enabled": false},
        "preempt": {"enabled": false}, "consolidation": {"enabled": false}}});
    let served = asked(&cluster_file("default", off.clone()), &[]);
    assert!(served.1.contains("configuration: SchedulingShard default"), "{}", served.1);
    assert_ne!(served.0, plain.0, "nothing is placed without actions");
    assert_eq!(asked(&cluster_file("pool-a", off), &[]), plain, "another shard is another's");
}

#[test]
fn a_shard_that_cannot_be_used_is_named_and_a_file_counts_before_any() {
    let plain = asked(&ClusterFile::new().waiting("small", "team-a", 1, 8), &[]);
    let odd = asked(&cluster_file("default", json!({"placementStrategy": {"gpu": "heap"}})), &[]);
    for word in ["defaults", "SchedulingShard default cannot be used", "placementStrategy.gpu"] {
        assert!(odd.1.contains(word), "{}", odd.1);
    }
    assert_eq!(odd.0, plain.0, "by the defaults");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("shard.yaml");
    fs::write(&file, "kind: SchedulingShard\nspec: {kValue: 0.5}\n").unwrap();
    let off = json!({"actions": {"allocate": {"enabled": false}}});
    let named = asked(&cluster_file("default", off), &["--config", file.to_str().unwrap()]);
    assert!(!named.1.contains("SchedulingShard default"), "{}", named.1);
    assert_eq!(named.0, plain.0);
}
