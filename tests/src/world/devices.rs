//! Which devices a pod holds, asked of its node as an agent asks: over the pod-resources socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use muster_proto::podresources::SOCKET;
use muster_proto::podresources::v1::ListPodResourcesRequest;
use muster_proto::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use super::World;

/// Device ids by resource, all containers of a pod together.
pub type HeldDevices = BTreeMap<String, Vec<String>>;

impl World {
    /// What the node's kubelet says that the pod holds. A pod that has ended holds nothing.
    pub async fn devices(&self, pod: &Pod) -> anyhow::Result<HeldDevices> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.with_context(|| format!("pod {name} has no node"))?;
        let handle = self.kubelets().and_then(|kubelets| kubelets.node(node));
        let handle = handle.with_context(|| format!("node {node} of pod {name} is not ours"))?;
        let socket = handle.spec().root.join(SOCKET);
        let mut client = connect(socket.clone())
            .await
            .with_context(|| format!("pod-resources socket {}", socket.display()))?;
        let answer = client.list(ListPodResourcesRequest {}).await?.into_inner();
        let mut held = HeldDevices::new();
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let ours = answer.pod_resources.into_iter();
        for shown in ours.filter(|shown| shown.name == name && shown.namespace == namespace) {
            for devices in shown.containers.into_iter().flat_map(|container| container.devices) {
                held.entry(devices.resource_name).or_default().extend(devices.device_ids);
            }
        }
        Ok(held)
    }
}

async fn connect(socket: PathBuf) -> anyhow::Result<PodResourcesListerClient<Channel>> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://node");
    Ok(PodResourcesListerClient::new(endpoint.connect_with_connector(connector).await?))
}
