use serde_json::{Value, json};

use super::*;

fn meta(name: &str, uid: &str, more: Value) -> ObjectMeta {
    let mut meta = json!({"namespace": "ns", "name": name, "uid": uid,
        "managedFields": [{"manager": "kubectl"}]});
    for (key, value) in more.as_object().unwrap() {
        meta[key] = value.clone();
    }
    serde_json::from_value(meta).unwrap()
}

fn follower() -> Follower {
    Follower { resources: ResourceNames::default(), pods: PodMap::new(), listing: None }
}

fn names(follower: &Follower) -> Vec<(&str, &str)> {
    follower.pods.values().map(|pod| (pod.pod.name.as_str(), pod.pod.uid.as_str())).collect()
}

#[test]
fn only_what_is_read_is_kept() {
    let mut follower = follower();
    let pod = meta(
        "a",
        "1",
        json!({"annotations": {"huawei.com/AscendReal": "Ascend910-0", "huawei.com/kltDev": "x",
            "huawei.com/Ascend910": "y", "ascend.com/ranktable": "{}", "other": "z"},
            "labels": {"muster.dev/rank-group": "g", "app": "b"}}),
    );
    assert!(follower.take(Event::Apply(pod)));
    let kept = follower.pods.values().next().unwrap();
    let keys: Vec<&str> = kept.annotations.keys().map(String::as_str).collect();
    let expected = [
        "ascend.com/ranktable",
        "huawei.com/Ascend910",
        "huawei.com/AscendReal",
        "huawei.com/kltDev",
    ];
    assert_eq!(keys, expected);
    assert_eq!((kept.rank_group.as_deref(), kept.deleting), (Some("g"), false));
    let changed = meta("a", "1", json!({"annotations": {"other": "y"}}));
    assert!(follower.take(Event::Apply(changed.clone())));
    assert!(!follower.take(Event::Apply(changed)), "nothing that is read has changed");
}

#[test]
fn the_copy_of_a_static_pod_keeps_the_uid_that_the_kubelet_made() {
    let hash = "0123456789abcdef0123456789abcdef";
    let uid = |annotations: Value| {
        let mut follower = follower();
        follower.take(Event::Apply(meta("a", "1", json!({ "annotations": annotations }))));
        follower.pods.values().next().unwrap().kubelet_uid().to_owned()
    };
    let (key, mirror) = ("kubernetes.io/config.hash", "kubernetes.io/config.mirror");
    assert_eq!(uid(json!({ key: hash, mirror: hash })), hash);
    for other in ["", "../0123456789abcdef0123456789abcd", &hash[1..], &hash.to_uppercase()] {
        assert_eq!(uid(json!({ key: other, mirror: other })), "1", "{other}");
    }
    assert_eq!(uid(json!({ key: hash })), "1");
    assert_eq!(uid(json!({})), "1");
}

#[test]
fn a_listing_replaces_what_was_known_when_it_is_complete() {
    let mut follower = follower();
    follower.take(Event::Apply(meta("gone", "1", json!({}))));
    assert!(!follower.take(Event::Init));
    assert!(!follower.take(Event::InitApply(meta("a", "2", json!({})))));
    assert_eq!(names(&follower), [("gone", "1")]);
    assert!(follower.take(Event::InitDone));
    assert_eq!(names(&follower), [("a", "2")]);
}

#[test]
fn the_end_of_a_pod_is_not_the_end_of_its_successor() {
    let mut follower = follower();
    let ending = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
    follower.take(Event::Apply(meta("a", "1", ending.clone())));
    assert!(follower.pods.values().all(|pod| pod.deleting));
    follower.take(Event::Apply(meta("a", "2", json!({}))));
    assert!(!follower.take(Event::Delete(meta("a", "1", ending))));
    assert_eq!(names(&follower), [("a", "2")]);
    assert!(follower.take(Event::Delete(meta("a", "2", json!({})))));
    assert_eq!(names(&follower), []);
}

#[test]
fn the_address_of_a_node_is_its_first_internal_one() {
    let node = |addresses: Value| {
        internal_ip(&serde_json::from_value(json!({"status": {"addresses": addresses}})).unwrap())
    };
    let host = json!({"type": "Hostname", "address": "n"});
    let odd = json!({"type": "InternalIP", "address": "n.local"});
    let first = json!({"type": "InternalIP", "address": "10.0.0.1"});
    let second = json!({"type": "InternalIP", "address": "fd00::1"});
    assert_eq!(node(json!([host, odd, first, second])), Some("10.0.0.1".parse().unwrap()));
    assert_eq!(node(json!([host])), None);
}
