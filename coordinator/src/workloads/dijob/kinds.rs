//! The kinds as the API server hands them out. Specs stay JSON until one object is looked at: one that cannot be read
//! must not hide the others.

use k8s_openapi::api::core::v1::{Node, NodeStatus, ObjectReference, Pod as ApiPod};
use kube::Resource;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::core::{ApiResource, ObjectMeta, TypeMeta};
use muster_api::kind;
use muster_dijob::api::{self, DIJob};
use muster_dijob::pod::Pod;
use muster_runtime::writer::{Fenced, Writer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::workloads::modelserving::written::Body;

/// A DIJob.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Job(pub Body);

/// An AggregatorConfig.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Body);

/// A pod of a job, with all that is in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobPod(pub Pod);

kind!(Job, NamespaceResourceScope, "DIJob", api::GROUP, "v1alpha1", "dijobs", 0.metadata);
kind!(
    Config,
    NamespaceResourceScope,
    "AggregatorConfig",
    api::GROUP,
    "v1alpha1",
    "aggregatorconfigs",
    0.metadata
);
kind!(JobPod, NamespaceResourceScope, "Pod", "", "v1", "pods", 0.metadata);

// === impl Job ===

impl Job {
    /// The form that is worked on.
    pub fn read(&self) -> Result<DIJob, String> {
        read(&self.0)
    }

    /// Its status, if that can be read.
    pub fn status(&self) -> Option<api::Status> {
        api::read(self.0.rest.get("status")?).ok()
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Whom events are about.
    pub fn reference(&self) -> ObjectReference {
        let metadata = &self.0.metadata;
        ObjectReference {
            api_version: Some(api::API_VERSION.to_owned()),
            kind: Some(api::KIND.to_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

// === impl Config ===

impl Config {
    /// The form that is worked on.
    pub fn read(&self) -> Result<api::AggregatorConfig, String> {
        read(&self.0)
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &Body) -> Result<T, String> {
    let body = serde_json::to_value(body).map_err(|error| error.to_string())?;
    api::read(&body)
}

/// Of a pod only this is looked at.
pub fn trim_pod(pod: &mut JobPod) {
    pod.0.metadata.managed_fields = None;
    let read = ["phase", "conditions", "containerStatuses", "podIP", "podIPs", "hostIP", "hostIPs"];
    pod.0.status.retain(|key, _| read.contains(&key.as_str()));
}

/// Of a node only this is looked at.
pub fn trim_node(node: &mut Node) {
    node.metadata = ObjectMeta {
        name: node.metadata.name.take(),
        resource_version: node.metadata.resource_version.take(),
        ..ObjectMeta::default()
    };
    node.spec = None;
    let allocatable = node.status.take().and_then(|status| status.allocatable);
    node.status = Some(NodeStatus { allocatable, ..NodeStatus::default() });
}

/// Pods or services of a namespace, as they are written.
pub fn raw<K: Resource<DynamicType = ()>>(
    writer: &Writer,
    namespace: &str,
) -> Fenced<DynamicObject> {
    writer.dynamic(&ApiResource::erase::<K>(&()), Some(namespace))
}

/// Pods of a namespace, as they are written.
pub fn raw_pods(writer: &Writer, namespace: &str) -> Fenced<DynamicObject> {
    raw::<ApiPod>(writer, namespace)
}

/// An object to be created, with all that is in it.
pub fn dynamic(mut object: Value) -> DynamicObject {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]) };
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        for key in ["apiVersion", "kind", "metadata"] {
            object.remove(key);
        }
    }
    // It was made here, from one.
    let metadata = serde_json::from_value(metadata).unwrap_or_default();
    DynamicObject { types: Some(types), metadata, data: object }
}

/// Deletes this very object, and no other of its name.
pub fn this_one(uid: &str, grace: Option<u32>) -> DeleteParams {
    let precondition = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams {
        grace_period_seconds: grace,
        preconditions: (!uid.is_empty()).then_some(precondition),
        ..DeleteParams::default()
    }
}
