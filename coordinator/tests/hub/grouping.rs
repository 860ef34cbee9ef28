//! Pods become members of PodGroups on an API server, with the permissions of `deploy/` and no others.

mod counted;
mod kinds;
mod trouble;

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_podgrouper::Config;
use muster_runtime::election::Fence;
use muster_runtime::events::Events;
use muster_runtime::writer::Writer;
use muster_runtime::{Environment, ReconcileMetrics};
use muster_sandbox::Sandbox;
use muster_scheduling::grouper::cache::Limits;
use muster_scheduling::grouper::controller;
use muster_scheduling::grouper::metrics::{Read, Write};
use muster_scheduling::grouper::{Grouped, Grouper, Metrics, WARNING};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::permitted;

const CRDS: [&str; 5] = [
    include_str!("../../../deploy/crds/scheduling.run.ai_podgroups.yaml"),
    include_str!("../../../deploy/crds/dijob.yaml"),
    include_str!("../../../deploy/crds/trainer.kubeflow.org_trainjobs.yaml"),
    include_str!("../../../deploy/crds/scheduling.run.ai_queues.yaml"),
    include_str!("../../../tests/sandbox/assets/jobset-crd.yaml"),
];

/// An API server and a grouper.
struct Intake {
    sandbox: Sandbox,
    grouper: Grouper,
    controller: JoinHandle<()>,
    stop: CancellationToken,
    metrics: Metrics,
    fence: Fence,
}

impl Intake {
    /// With the coordinator's permissions.
    async fn start() -> Self {
        Self::with(async |sandbox| permitted(sandbox).await, Limits::default()).await
    }

    /// Without any limits, and with a client that tries everything once.
    async fn open() -> Self {
        let client = async |sandbox: &Sandbox| {
            permitted(sandbox).await;
            sandbox.client()
        };
        Self::with(client, Limits::default()).await
    }

    /// What was read once stays known, however slow the machine is: for tests that count reads.
    async fn remembering() -> Self {
        let long = Duration::from_secs(3600);
        let limits = Limits {
            object: long,
            absent: long,
            groups: long,
            pods: long,
            kind: long,
            ..Limits::default()
        };
        Self::with(async |sandbox| permitted(sandbox).await, limits).await
    }

    async fn with(client: impl AsyncFnOnce(&Sandbox) -> Client, limits: Limits) -> Self {
        let mut builder = Sandbox::builder().strict(true).controllers(None);
        for text in CRDS {
            for crd in serde_saphyr::from_multiple::<Value>(text).unwrap() {
                builder = builder.crd(crd);
            }
        }
        let sandbox = builder.start().await.unwrap();
        let client = client(&sandbox).await;
        let fence = Fence::new(1, Instant::now() + Duration::from_secs(3600));
        let (writer, metrics) = (Writer::new(client.clone(), fence.clone()), Metrics::default());
        let events = Events::new(client, "test");
        let grouper = Grouper::limited(writer, events, Config::default(), metrics.clone(), limits);
        let (stop, reconciles) = (CancellationToken::new(), ReconcileMetrics::default());
        let (tell, _) = mpsc::unbounded_channel();
        let running = controller::run(
            grouper.clone(),
            tell,
            (Environment::system(), reconciles),
            stop.clone(),
        );
        let controller = tokio::spawn(running);
        Self { sandbox, grouper, controller, stop, metrics, fence }
    }

    /// Creates an object of the default namespace; what the server has made of it.
    async fn create(&self, resource: &str, object: Value) -> Value {
        let version = object["apiVersion"].as_str().unwrap();
        let root = if version.contains('/') { "apis" } else { "api" };
        let path = format!("/{root}/{version}/namespaces/default/{resource}");
        let mut made = self.sandbox.create(&path, &object).await.unwrap();
        made["apiVersion"] = object["apiVersion"].clone();
        made["kind"] = object["kind"].clone();
        made
    }

    /// Creates a pod of this owner.
    async fn pod(&self, name: &str, owner: Option<&Value>, labels: Value) -> Value {
        self.create("pods", pod(name, owner, labels)).await
    }

    async fn group(&self, pod: &Value) -> Grouped {
        self.grouper.group(pod.clone()).await
    }

    /// Groups all of them at once.
    async fn group_all(&self, pods: &[Value]) -> Vec<Grouped> {
        join_all(pods.iter().map(|pod| self.group(pod))).await
    }

    fn groups(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("scheduling.run.ai", "v2alpha2", "PodGroup");
        let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
        Api::namespaced_with(self.sandbox.client(), "default", &resource)
    }

    async fn pod_group(&self, name: &str) -> Value {
        serde_json::to_value(self.groups().get(name).await.unwrap()).unwrap()
    }

    async fn all_groups(&self) -> Vec<String> {
        let all = self.groups().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter_map(|group| group.metadata.name).collect()
    }

    /// The pod as it is now.
    async fn look(&self, name: &str) -> Value {
        let pods: Api<Pod> = Api::namespaced(self.sandbox.client(), "default");
        serde_json::to_value(pods.get(name).await.unwrap()).unwrap()
    }

    /// What was said of a pod.
    async fn warnings(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.sandbox.client(), "default");
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name)
                && event.reason.as_deref() == Some(WARNING)
        };
        events.into_iter().filter(about).filter_map(|event| event.note).collect()
    }

    async fn label_namespace(&self, labels: Value) {
        let api: Api<Namespace> = Api::all(self.sandbox.client());
        let change = json!({"metadata": {"labels": labels}});
        api.patch("default", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    fn writes(&self, verb: &'static str, kind: &'static str) -> u64 {
        self.metrics.writes.get_or_create(&Write { verb, kind }).get()
    }

    fn reads(&self, what: &'static str) -> u64 {
        let of = |outcome| self.metrics.reads.get_or_create(&Read { what, outcome }).get();
        ["read", "absent", "refused", "failed"].into_iter().map(of).sum()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
        self.sandbox.stop().await;
    }
}

fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": true,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

fn pod(name: &str, owner: Option<&Value>, labels: Value) -> Value {
    let owners: Vec<Value> = owner.map(reference).into_iter().collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {"schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "image": "i"}]}})
}

fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([reference(owner)]);
    object
}

fn job(name: &str) -> Value {
    let pod = json!({"restartPolicy": "Never", "schedulerName": "muster-scheduler",
        "containers": [{"name": "c", "image": "i"}]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"parallelism": 4, "template": {"spec": pod}}})
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

fn member(group: &str, sub_group: Option<&str>, written: bool) -> Grouped {
    Grouped::Member { group: group.to_owned(), sub_group: sub_group.map(str::to_owned), written }
}
