//! The first queues of a cluster.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::runtime::watcher;
use muster_runtime::election::Fence;
use muster_runtime::reflector::watch;
use muster_runtime::writer::Writer;
use muster_sandbox::Sandbox;
use muster_sandbox::faults::Rule;
use muster_scheduling::bootstrap::{DEFINITION, PARENT, bootstrap, queues};
use muster_scheduling::names::BOOTSTRAP;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::permitted;
use crate::world::LIMIT;

const CRD: &str = include_str!("../../../deploy/crds/scheduling.run.ai_queues.yaml");

struct Cluster {
    sandbox: Sandbox,
    client: kube::Client,
}

impl Cluster {
    async fn start() -> Self {
        let sandbox = Sandbox::builder().strict(true).controllers(None).start().await.unwrap();
        let client = permitted(&sandbox).await;
        Self { sandbox, client }
    }

    async fn define(&self) {
        let crd: Value = serde_saphyr::from_str(CRD).unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.sandbox.create(path, &crd).await.unwrap();
    }

    /// What a leader does, until it is done.
    async fn lead(&self) {
        let named = watcher::Config::default().fields(&format!("metadata.name={DEFINITION}"));
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let (definition, follow) = watch(api, named, |_| {});
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow.run(stop.clone()));
        let fence = Fence::new(1, Instant::now() + Duration::from_secs(3600));
        let writer = Writer::new(self.client.clone(), fence);
        let done = bootstrap(definition, writer, stop.clone());
        tokio::time::timeout(LIMIT, done).await.expect("it is done");
        stop.cancel();
        following.await.unwrap();
    }

    fn api(&self) -> Api<DynamicObject> {
        queues(&self.sandbox.client())
    }

    async fn names(&self) -> Vec<String> {
        let all = self.api().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter_map(|queue| queue.metadata.name).collect()
    }

    async fn queue(&self, name: &str, annotations: Value) {
        let queue = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"resources": {}}});
        self.sandbox.create("/apis/scheduling.run.ai/v2/queues", &queue).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_queues_gets_two_and_keeps_what_people_make_of_them() {
    let cluster = Cluster::start().await;
    let ((), ()) = tokio::join!(cluster.lead(), cluster.define());
    assert_eq!(cluster.names().await, [PARENT, "default-queue"]);
    let all = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    for (name, parent) in [(PARENT, Value::Null), ("default-queue", json!(PARENT))] {
        let queue = cluster.api().get(name).await.unwrap();
        assert_eq!(queue.data["spec"]["parentQueue"], parent);
        for resource in ["cpu", "gpu", "memory"] {
            assert_eq!(queue.data["spec"]["resources"][resource], all);
        }
        assert!(!queue.metadata.annotations.unwrap_or_default().contains_key(BOOTSTRAP));
    }
    cluster.api().delete("default-queue", &DeleteParams::default()).await.unwrap();
    cluster.lead().await;
    assert_eq!(cluster.names().await, [PARENT]);
    cluster.queue("research", json!({})).await;
    cluster.api().delete(PARENT, &DeleteParams::default()).await.unwrap();
    cluster.lead().await;
    assert_eq!(cluster.names().await, ["research"]);
    cluster.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_leader_that_died_has_begun_is_completed() {
    let cluster = Cluster::start().await;
    cluster.define().await;
    cluster.queue(PARENT, json!({BOOTSTRAP: "begun"})).await;
    cluster.queue("research", json!({})).await;
    cluster
        .sandbox
        .faults()
        .add(Rule::refusal(500).verb("create").resource("queues.scheduling.run.ai").times(1));
    cluster.lead().await;
    assert_eq!(cluster.names().await, [PARENT, "default-queue", "research"]);
    let parent = cluster.api().get(PARENT).await.unwrap();
    assert!(!parent.metadata.annotations.unwrap_or_default().contains_key(BOOTSTRAP));
    cluster.sandbox.stop().await;
}
