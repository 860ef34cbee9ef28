//! The pod-resources gRPC service of a node, on its unix socket.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use muster_proto::podresources::v1::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use muster_proto::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, NumaNode, PodResources, TopologyInfo,
};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::time::Instant;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::devices::{Devices, Registered};

/// What the service answers from: the node's devices and its active pods.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Devices and who holds them.
    pub devices: Devices,
    /// Active pods by uid.
    pub pods: BTreeMap<String, PodView>,
}

/// An active pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Sidecars and main containers; plain init containers are not shown.
    pub containers: Vec<String>,
}

/// Calls per second that the service takes, and how many at once after a pause.
const RATE: f64 = 100.0;
const BURST: f64 = 10.0;

struct Service {
    view: Arc<Mutex<View>>,
    tokens: Mutex<(f64, Instant)>,
}

/// Serves `view` on the socket until `stop`. A socket file that is there is replaced.
pub async fn serve(
    socket: &Path,
    view: Arc<Mutex<View>>,
    stop: CancellationToken,
) -> io::Result<tokio::task::JoinHandle<()>> {
    if let Some(directory) = socket.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    let service = Service { view, tokens: Mutex::new((BURST, Instant::now())) };
    let socket = socket.to_owned();
    Ok(tokio::spawn(async move {
        let served = tonic::transport::Server::builder()
            .add_service(PodResourcesListerServer::new(service))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::warn!(socket = %socket.display(), %error, "pod-resources service ended");
        }
    }))
}

// === impl Service ===

#[tonic::async_trait]
impl PodResourcesLister for Service {
    async fn list(
        &self,
        _request: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.admit()?;
        let view = self.view.lock();
        let pod_resources = view.pods.iter().map(|(uid, pod)| view.pod(uid, pod)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _request: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.admit()?;
        let view = self.view.lock();
        let registered = view.devices.registered().iter();
        let devices = registered
            .flat_map(|(resource, all)| all.iter().map(move |r| (resource, r)))
            .filter(|(_, registered)| registered.healthy)
            .map(|(resource, registered)| entry(resource, registered))
            .collect();
        Ok(Response::new(AllocatableResourcesResponse { devices, ..Default::default() }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.admit()?;
        let GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let view = self.view.lock();
        let found =
            view.pods.iter().find(|(_, p)| p.name == pod_name && p.namespace == pod_namespace);
        let (uid, pod) = found.ok_or_else(|| {
            Status::unknown(format!("pod {pod_name} in namespace {pod_namespace} not found"))
        })?;
        let pod_resources = Some(view.pod(uid, pod));
        Ok(Response::new(GetPodResourcesResponse { pod_resources }))
    }
}

impl Service {
    fn admit(&self) -> Result<(), Status> {
        let mut bucket = self.tokens.lock();
        let now = Instant::now();
        let (tokens, since) = *bucket;
        let tokens = (tokens + now.duration_since(since).as_secs_f64() * RATE).min(BURST);
        if tokens < 1.0 {
            *bucket = (tokens, now);
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        *bucket = (tokens - 1.0, now);
        Ok(())
    }
}

// === impl View ===

impl View {
    fn pod(&self, uid: &str, pod: &PodView) -> PodResources {
        let container = |name: &String| {
            let held = self.devices.held_by(uid).filter(|held| held.container == *name);
            let devices = held
                .flat_map(|held| held.ids.iter().map(move |id| (&held.resource, id)))
                .map(|(resource, id)| match self.devices.find(resource, id) {
                    Some(registered) => entry(resource, registered),
                    None => ContainerDevices {
                        resource_name: resource.clone(),
                        device_ids: vec![id.clone()],
                        topology: None,
                    },
                })
                .collect();
            ContainerResources { name: name.clone(), devices, ..Default::default() }
        };
        PodResources {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            containers: pod.containers.iter().map(container).collect(),
        }
    }
}

/// One device per entry, as the kubelet sends them.
fn entry(resource: &str, registered: &Registered) -> ContainerDevices {
    let numa = registered.device.numa;
    ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: vec![registered.device.id.clone()],
        topology: numa.map(|id| TopologyInfo { nodes: vec![NumaNode { id }] }),
    }
}

#[cfg(test)]
mod tests {
    use muster_proto::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
    use serde_json::json;
    use tokio::net::UnixStream;
    use tonic::transport::{Channel, Endpoint};

    use super::*;
    use crate::hardware::Profile;

    async fn connect(socket: std::path::PathBuf) -> PodResourcesListerClient<Channel> {
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
        });
        let channel =
            Endpoint::from_static("http://node").connect_with_connector(connector).await.unwrap();
        PodResourcesListerClient::new(channel)
    }

    #[tokio::test]
    async fn a_client_on_the_socket_sees_who_holds_which_device() {
        let root = tempfile::tempdir().unwrap();
        let mut view = View::default();
        view.devices.register("huawei.com/Ascend310P", Profile::Ascend310p.devices(0));
        let limits = json!({ "limits": { "huawei.com/Ascend310P": "2" } });
        let pod = json!({ "metadata": { "uid": "u" }, "spec": { "containers": [
            { "name": "c", "resources": limits }, { "name": "plain" }] } });
        view.devices.allocate(&pod).unwrap();
        view.devices.set_health("Ascend310P-7", false);
        let containers = vec!["c".to_owned(), "plain".to_owned()];
        let shown = PodView { namespace: "ns".into(), name: "p".into(), containers };
        view.pods.insert("u".into(), shown);

        let socket = root.path().join("a/kubelet.sock");
        let stop = CancellationToken::new();
        let served = serve(&socket, Arc::new(Mutex::new(view)), stop.clone()).await.unwrap();
        let mut client = connect(socket).await;

        let listed = client.list(ListPodResourcesRequest {}).await.unwrap().into_inner();
        let pod = &listed.pod_resources[0];
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("ns", "p"));
        let ids: Vec<&str> =
            pod.containers[0].devices.iter().map(|d| d.device_ids[0].as_str()).collect();
        assert_eq!(ids, ["Ascend310P-0", "Ascend310P-1"]);
        assert!(pod.containers[1].devices.is_empty());

        let all = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
        assert_eq!(all.into_inner().devices.len(), 7);

        let wanted = |name: &str| GetPodResourcesRequest {
            pod_name: name.into(),
            pod_namespace: "ns".into(),
        };
        let got = client.get(wanted("p")).await.unwrap().into_inner();
        assert_eq!(got.pod_resources.as_ref(), Some(pod));
        let missing = client.get(wanted("q")).await.unwrap_err();
        assert_eq!(missing.message(), "pod q in namespace ns not found");

        let mut refused = None;
        for _ in 0..200 {
            if let Err(status) = client.list(ListPodResourcesRequest {}).await {
                refused = Some(status.code());
                break;
            }
        }
        assert_eq!(refused, Some(tonic::Code::ResourceExhausted));
        stop.cancel();
        served.await.unwrap();
    }
}
