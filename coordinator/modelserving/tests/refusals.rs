//! What an event asks for is done in the end, though the API server refuses it at first.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "modelserving_conformance/cluster.rs"]
mod cluster;

use std::time::Duration;

use cluster::Cluster;
use muster_modelserving::api::ModelServing;
use muster_modelserving::seen::PodGroupApi;
use serde_json::{Value, json};

const LOST: &str = "llm-0-server-0-1";
const LEFT: &str = "llm-0-server-0-0";

fn started(policy: &str, grace: i64) -> Cluster {
    let pod = json!({"spec": {"containers": [{"name": "engine", "image": "engine:v1"}]}});
    let serving: ModelServing = serde_json::from_value(json!({
        "metadata": {"name": "llm", "namespace": "serve", "uid": "u", "generation": 1},
        "spec": {
            "replicas": 1, "schedulerName": "volcano", "recoveryPolicy": policy,
            "template": {"restartGracePeriodSeconds": grace, "roles": [{
                "name": "server", "replicas": 1, "workerReplicas": 1,
                "entryTemplate": pod, "workerTemplate": pod,
            }]},
        },
    }))
    .unwrap();
    let mut cluster = Cluster::new(serving, PodGroupApi::Plain, false);
    cluster.start();
    cluster.settle();
    [LEFT, LOST].iter().for_each(|name| cluster.pod_is_ready(name));
    cluster.settle();
    cluster
}

fn uid(cluster: &Cluster, pod: &str) -> Option<String> {
    cluster.pods.get(pod).and_then(|pod| pod.metadata.uid.clone())
}

fn fail(cluster: &mut Cluster, pod: &str, status: Value) {
    cluster.change_pod(pod, |pod| pod.status = serde_json::from_value(status).unwrap());
    cluster.settle();
}

#[test]
fn a_lost_pod_takes_the_others_with_it_though_they_cannot_be_deleted_at_first() {
    for policy in ["RoleRecreate", "ServingGroupRecreate"] {
        for times in 1..5 {
            let mut cluster = started(policy, 0);
            let before = uid(&cluster, LEFT);
            cluster.stubborn = times;
            cluster.pod_goes(LOST);
            cluster.settle();
            assert_eq!(cluster.pods.len(), 2, "{policy}, {times}");
            assert_ne!(uid(&cluster, LEFT), before, "{policy}, {times}");
            assert_eq!((cluster.services.len(), cluster.pod_groups.len()), (1, 1));
        }
    }
}

#[test]
fn a_failed_pod_goes_though_it_cannot_be_deleted_at_first() {
    for (grace, times) in [(0, 1), (0, 3), (1, 1), (1, 3)] {
        let mut cluster = started("None", grace);
        let before = uid(&cluster, LOST);
        cluster.stubborn = times;
        fail(&mut cluster, LOST, json!({"phase": "Failed"}));
        if grace > 0 {
            assert_eq!(cluster.stubborn, times, "it has its time");
        }
        cluster.wait(Duration::from_secs(2));
        cluster.settle();
        assert_ne!(uid(&cluster, LOST), before, "{grace}, {times}");
        cluster.queue();
        cluster.settle();
        assert!(uid(&cluster, LOST).is_some(), "{grace}, {times}");
    }
}

#[test]
fn a_pod_that_has_come_back_in_its_time_stays() {
    let mut cluster = started("RoleRecreate", 1);
    let before = uid(&cluster, LOST);
    let again =
        json!([{"name": "e", "restartCount": 1, "ready": false, "image": "", "imageID": ""}]);
    fail(&mut cluster, LOST, json!({"phase": "Running", "containerStatuses": again}));
    cluster.queue();
    cluster.settle();
    cluster.pod_is_ready(LOST);
    cluster.wait(Duration::from_secs(2));
    cluster.settle();
    assert_eq!(uid(&cluster, LOST), before);
}
