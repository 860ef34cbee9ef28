//! The Node object and the Lease of a simulated node.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::{Map, Value, json};

use super::devices::Devices;
use super::{NodeSpec, names};
use crate::clock::seconds;

const VERSION: &str = "v1.34.0-sandbox";

/// `10.254.0.1` for the first node, and so on.
pub fn address(index: u32) -> String {
    format!("10.254.{}.{}", index / 250, index % 250 + 1)
}

/// The first three bytes of the addresses of the node's pods.
pub fn pod_network(index: u32) -> String {
    format!("10.{}.{}", 128 + (index / 256) % 126, index % 256)
}

/// The Node without its status.
pub fn object(spec: &NodeSpec) -> Value {
    let arch = spec.profile.architecture();
    let mut labels = spec.profile.labels(spec.index);
    for (key, value) in [
        ("kubernetes.io/hostname", spec.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", arch),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels.extend(spec.labels.clone());
    let network = format!("{}.0/24", pod_network(spec.index));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": spec.name, "labels": labels },
        "spec": {
            "podCIDR": network,
            "podCIDRs": [network],
            "providerID": format!("sandbox://{}", spec.name),
            "taints": spec.taints,
        },
    })
}

/// The Node's status. `since` is when it became ready.
pub fn status(spec: &NodeSpec, devices: &Devices, since: Timestamp, now: Timestamp) -> Value {
    let mut capacity = Map::new();
    for (resource, amount) in spec.profile.capacity() {
        capacity.insert(resource.to_owned(), amount.into());
    }
    let mut allocatable = capacity.clone();
    for (resource, all, healthy) in devices.counts() {
        capacity.insert(resource.to_owned(), all.to_string().into());
        allocatable.insert(resource.to_owned(), healthy.to_string().into());
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": seconds(now), "lastTransitionTime": seconds(since) })
    };
    let id = muster_id(&spec.name);
    json!({
        "capacity": capacity,
        "allocatable": allocatable,
        "addresses": [
            { "type": "InternalIP", "address": address(spec.index) },
            { "type": "Hostname", "address": spec.name },
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID",
                "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        "nodeInfo": {
            "machineID": id, "systemUUID": id, "bootID": id,
            "kernelVersion": "5.10.0-sandbox", "osImage": "Muster sandbox",
            "containerRuntimeVersion": "containerd://2.0.0-sandbox",
            "kubeletVersion": VERSION, "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": spec.profile.architecture(),
        },
    })
}

/// The same text gives the same id.
fn muster_id(name: &str) -> String {
    use sha2::{Digest, Sha256};
    let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hash.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Creates the Node, or brings the labels of one that is there up to date; then writes its status.
pub async fn register(client: &Client, spec: &NodeSpec, status: &Value) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let object = object(spec);
    let body = serde_json::from_value(object.clone()).map_err(Error::SerdeError)?;
    let params =
        PostParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() };
    match api.create(&params, &body).await {
        Err(Error::Api(refused)) if refused.code == 409 => {
            let labels = json!({ "metadata": { "labels": object["metadata"]["labels"] } });
            api.patch(&spec.name, &patch_params(), &Patch::Merge(labels)).await?;
        }
        other => drop(other?),
    }
    write_status(client, &spec.name, status).await
}

/// Writes the Node's status.
pub async fn write_status(client: &Client, name: &str, status: &Value) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let patch = Patch::Strategic(json!({ "status": status }));
    api.patch_status(name, &patch_params(), &patch).await.map(drop)
}

/// Renews the node's Lease, making it when it is not there.
pub async fn renew(client: &Client, name: &str, now: Timestamp) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), names::LEASE_NAMESPACE);
    let spec = json!({
        "holderIdentity": name,
        "leaseDurationSeconds": names::LEASE_SECONDS,
        "renewTime": format!("{now:.6}"),
    });
    let patch = Patch::Merge(json!({ "spec": spec }));
    match api.patch(name, &patch_params(), &patch).await {
        Err(Error::Api(refused)) if refused.code == 404 => {}
        other => return other.map(drop),
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let uid = nodes.get(name).await?.metadata.uid;
    // It goes with the Node.
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid });
    let lease = json!({ "metadata": { "name": name, "ownerReferences": [owner] }, "spec": spec });
    let lease = serde_json::from_value(lease).map_err(Error::SerdeError)?;
    api.create(&PostParams::default(), &lease).await.map(drop)
}

pub(super) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() }
}
