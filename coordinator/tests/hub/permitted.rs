//! What the permissions of `deploy/` are enough for, and where they end.

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, ago, eventually};

const SHAPES: [&str; 2] = ["workload.serving.volcano.sh", "workload.kthena.io"];

/// Group, resource, verbs that the controller of ModelServings uses.
const USED: [(&str, &str, &str); 6] = [
    ("", "pods", "get list watch create delete deletecollection patch"),
    ("", "services", "get list watch create delete"),
    ("", "configmaps", "get list watch create patch delete"),
    ("apps", "controllerrevisions", "get list watch create delete"),
    ("scheduling.volcano.sh", "podgroups", "get list watch create update delete"),
    ("", "events", "create"),
];

/// And what it leaves to others.
const LEFT: [(&str, &str, &str); 5] = [
    ("", "pods", "update"),
    ("", "configmaps", "update"),
    ("", "secrets", "update patch delete"),
    ("apps", "deployments", "create"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "list create"),
];

async fn may(cluster: &Cluster, group: &str, resource: &str, verb: &str) -> bool {
    let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {"namespace": "default", "group": group,
            "resource": resource, "subresource": sub, "verb": verb}},
    }))
    .unwrap();
    let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    api.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_may_do_what_it_does_for_model_servings_and_no_more() {
    let cluster = Cluster::start(ago(0)).await;
    for (allowed, table) in [(true, &USED[..]), (false, &LEFT[..])] {
        for (group, resource, verbs) in table {
            for verb in verbs.split(' ') {
                let found = may(&cluster, group, resource, verb).await;
                assert_eq!(found, allowed, "{verb} {resource} of {group:?}");
            }
        }
    }
    for group in SHAPES {
        for verb in ["get", "list", "watch"] {
            assert!(may(&cluster, group, "modelservings", verb).await, "{verb} of {group}");
        }
        for verb in ["create", "update", "patch", "delete"] {
            assert!(!may(&cluster, group, "modelservings", verb).await, "{verb} of {group}");
        }
        for verb in ["update", "patch"] {
            assert!(may(&cluster, group, "modelservings/status", verb).await, "{verb} of {group}");
        }
    }
    // A definition is found by its name, and by no other.
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let groups = SHAPES.map(|group| format!("modelservings.{group}"));
    for name in groups.iter().map(String::as_str).chain(["podgroups.scheduling.volcano.sh"]) {
        let found = definitions.list(&named(name)).await.unwrap();
        assert_eq!(found.items.len(), 0, "{name} is not there, but one may ask");
        let how = WatchParams::default().fields(&format!("metadata.name={name}"));
        definitions.watch(&how, "0").await.map(drop).unwrap();
    }
    definitions.list(&named("widgets.example.com")).await.unwrap_err();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_may_do_what_it_does_for_dijobs_and_no_more() {
    let cluster = Cluster::start(ago(0)).await;
    let group = "diengine.opendilab.org";
    for (resource, verbs, allowed) in [
        ("dijobs", "get list watch", true),
        ("dijobs", "create update patch delete", false),
        ("dijobs/status", "update patch", true),
        ("aggregatorconfigs", "get list watch", true),
        ("aggregatorconfigs", "create update patch delete", false),
    ] {
        for verb in verbs.split(' ') {
            assert_eq!(may(&cluster, group, resource, verb).await, allowed, "{verb} {resource}");
        }
    }
    for (verb, allowed) in [("list", true), ("watch", true), ("update", false), ("patch", false)] {
        assert_eq!(may(&cluster, "", "nodes", verb).await, allowed, "{verb} nodes");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_may_do_what_its_scheduler_does_and_no_more() {
    let cluster = Cluster::start(ago(0)).await;
    let kai = "scheduling.run.ai";
    for (group, resource, verbs, allowed) in [
        (kai, "podgroups", "get list watch create update patch", true),
        (kai, "podgroups", "delete deletecollection", false),
        (kai, "podgroups/status", "update patch", true),
        (kai, "queues", "get list watch create patch", true),
        (kai, "queues", "update delete", false),
        (kai, "queues/status", "update patch", true),
        (kai, "bindrequests", "get list watch", true),
        (kai, "bindrequests", "create update patch delete", false),
        (kai, "bindrequests/status", "update patch", false),
        // Reservation pods and the variables of pods that share a device.
        ("", "pods", "create patch delete", true),
        ("", "configmaps", "get create patch", true),
        ("kai.scheduler", "topologies", "get list watch", true),
        ("kai.scheduler", "topologies", "create update patch delete", false),
        ("", "pods/binding", "create", true),
        ("", "pods/eviction", "create", true),
        ("", "pods/status", "patch", true),
        ("", "pods/status", "update", false),
        ("", "pods/exec", "create", false),
        ("", "nodes", "get list watch", true),
        ("", "nodes/status", "update patch", false),
        ("", "namespaces", "get", true),
        ("", "namespaces", "create update patch delete", false),
        ("", "persistentvolumes", "get list watch", true),
        ("", "persistentvolumeclaims", "get list watch", true),
        ("storage.k8s.io", "storageclasses", "get list watch", true),
        ("scheduling.k8s.io", "priorityclasses", "get list watch", true),
        ("scheduling.k8s.io", "priorityclasses", "create update patch delete", false),
    ] {
        for verb in verbs.split(' ') {
            let found = may(&cluster, group, resource, verb).await;
            assert_eq!(found, allowed, "{verb} {resource} of {group:?}");
        }
    }
    // Owners of every kind that has rules of its own are read and never written.
    for (group, _, kind) in muster_podgrouper::kinds::known().filter(|(_, _, kind)| *kind != "Pod")
    {
        let resource = format!("{}s", kind.to_lowercase());
        assert!(may(&cluster, group, &resource, "get").await, "get {resource} of {group}");
        assert!(!may(&cluster, group, &resource, "update").await, "update {resource} of {group}");
    }
    cluster.stop().await;
}

const LEADER_WORKER_SETS: &str =
    include_str!("../../../deploy/coordinator/leader-worker-sets.yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_may_apply_model_servings_only_where_it_makes_them_of_leader_worker_sets() {
    let cluster = Cluster::start(ago(0)).await;
    let sets = "leaderworkerset.x-k8s.io";
    let needed = [
        (sets, "leaderworkersets", "list watch"),
        (sets, "leaderworkersets/status", "patch"),
        (sets, "leaderworkersets/finalizers", "update"),
        (SHAPES[0], "modelservings", "create patch"),
    ];
    let left = [
        (sets, "leaderworkersets", "create update patch delete"),
        (SHAPES[0], "modelservings", "update delete"),
        (SHAPES[1], "modelservings", "create update patch delete"),
    ];
    for installed in [false, true] {
        if installed {
            for document in serde_saphyr::from_multiple::<Value>(LEADER_WORKER_SETS).unwrap() {
                let plural = document["kind"].as_str().unwrap().to_lowercase();
                let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}s");
                cluster.sandbox.create(&path, &document).await.unwrap();
            }
        }
        for (group, resource, verbs) in needed {
            for verb in verbs.split(' ') {
                eventually(&format!("{verb} {resource}: {installed}"), async || {
                    (may(&cluster, group, resource, verb).await == installed).then_some(())
                })
                .await;
            }
        }
        for (group, resource, verbs) in left {
            for verb in verbs.split(' ') {
                assert!(!may(&cluster, group, resource, verb).await, "{verb} {resource}");
            }
        }
    }
    cluster.stop().await;
}
