use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use muster_proto::podresources::v1::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use muster_proto::podresources::v1::{ContainerResources, GetPodResourcesResponse};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Request;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A kubelet that does as it is told.
#[derive(Clone, Default)]
struct Script {
    /// So many calls are refused first.
    busy: Arc<AtomicU32>,
    /// So many calls are never answered.
    hanging: Arc<AtomicU32>,
    /// Rung when a call hangs.
    hung: Arc<Notify>,
    /// The bytes of the answer, about.
    size: usize,
}

impl Script {
    fn counts_down(counter: &AtomicU32) -> bool {
        let down = |left: u32| left.checked_sub(1);
        counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, down).is_ok()
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Script {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        if Self::counts_down(&self.busy) {
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        if Self::counts_down(&self.hanging) {
            self.hung.notify_one();
            std::future::pending::<()>().await;
        }
        let containers =
            vec![ContainerResources { name: "x".repeat(self.size), ..Default::default() }];
        let pod = PodResources { name: "p".into(), namespace: "n".into(), containers };
        Ok(Response::new(ListPodResourcesResponse { pod_resources: vec![pod] }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Ok(Response::new(AllocatableResourcesResponse::default()))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        let request = request.into_inner();
        match request.pod_name.as_str() {
            "p" => Ok(Response::new(GetPodResourcesResponse {
                pod_resources: Some(PodResources { name: "p".into(), ..Default::default() }),
            })),
            _ => Err(Status::unknown("pod not found")),
        }
    }
}

fn place(root: &Path) -> PathBuf {
    let directory = root.join("var/lib/kubelet/pod-resources");
    std::fs::create_dir_all(&directory).unwrap();
    directory.join("kubelet.sock")
}

fn serve(root: &Path, script: Script) -> JoinHandle<()> {
    let place = place(root);
    let _old = std::fs::remove_file(&place);
    let listener = UnixListenerStream::new(UnixListener::bind(&place).unwrap());
    tokio::spawn(async move {
        let service = PodResourcesListerServer::new(script).max_encoding_message_size(64 << 20);
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(listener)
            .await
            .unwrap();
    })
}

fn socket(root: &Path) -> Socket {
    Socket::new(Host::at(root), "/var/lib/kubelet", PATIENCE)
}

#[tokio::test]
async fn all_three_calls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    serve(folder.path(), Script::default());
    let mut socket = socket(folder.path());
    assert_eq!(socket.list().await.unwrap().pod_resources.len(), 1);
    assert_eq!(socket.get("n", "p").await.unwrap().unwrap().name, "p");
    assert_eq!(socket.allocatable().await.unwrap().devices, []);
    let refused = socket.get("n", "q").await.unwrap_err();
    assert_eq!(
        (refused.reason(), refused.to_string().contains("pod not found")),
        ("refused", true)
    );
}

#[tokio::test]
async fn a_busy_kubelet_is_asked_again_and_a_very_busy_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::default();
    serve(folder.path(), script.clone());
    let mut socket = socket(folder.path());
    script.busy.store(2, Ordering::SeqCst);
    assert!(socket.list().await.is_ok());
    script.busy.store(100, Ordering::SeqCst);
    assert_eq!(socket.list().await.unwrap_err().reason(), "busy");
    assert_eq!(script.busy.load(Ordering::SeqCst), 100 - AGAIN - 1);
}

#[tokio::test]
async fn answers_are_large_but_not_too_large() {
    let folder = tempfile::tempdir().unwrap();
    serve(folder.path(), Script { size: 5 << 20, ..Script::default() });
    assert!(socket(folder.path()).list().await.is_ok());
    serve(folder.path(), Script { size: LARGEST + 1, ..Script::default() });
    assert_eq!(socket(folder.path()).list().await.unwrap_err().reason(), "refused");
}

#[tokio::test]
async fn a_kubelet_that_dies_in_a_call_is_an_error_and_its_successor_is_asked_next() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script { hanging: Arc::new(AtomicU32::new(1)), ..Script::default() };
    let hung = script.hung.clone();
    let place = place(folder.path());
    let mut socket = socket(folder.path());
    // A runtime of its own ends with all its connections, as a process does.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let root = folder.path().to_owned();
    let first = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            serve(&root, script);
            let _stopped = stopped.await;
        });
    });
    while !place.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let dying = async {
        hung.notified().await;
        stop.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(socket.list(), dying);
    first.join().unwrap();
    assert_eq!(answer.unwrap_err().reason(), "refused");
    let gone = socket.list().await.unwrap_err();
    assert_eq!(gone.reason(), "unreachable", "{gone}");
    serve(folder.path(), Script::default());
    assert!(socket.list().await.is_ok());
    // And once more, while nobody asks: the dead connection is not even noticed.
    let other = tempfile::tempdir().unwrap();
    std::fs::rename(&place, other.path().join("old")).unwrap();
    serve(folder.path(), Script::default());
    assert!(socket.list().await.is_ok());
}

#[tokio::test]
async fn a_kubelet_that_hangs_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script { hanging: Arc::new(AtomicU32::new(1)), ..Script::default() };
    serve(folder.path(), script);
    let limit = Duration::from_millis(200);
    let mut socket = Socket::new(Host::at(folder.path()), "/var/lib/kubelet/", limit);
    assert_eq!(socket.list().await.unwrap_err().reason(), "timeout");
    socket.limit = PATIENCE;
    assert!(socket.list().await.is_ok());
}

#[tokio::test]
async fn only_a_socket_in_its_place_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut socket = socket(folder.path());
    assert_eq!(socket.list().await.unwrap_err().reason(), "absent");
    let place = place(folder.path());
    assert_eq!(socket.list().await.unwrap_err().reason(), "absent");
    std::fs::write(&place, "").unwrap();
    assert_eq!(socket.list().await.unwrap_err().reason(), "not-a-socket");
    std::fs::remove_file(&place).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    let _listener = UnixListener::bind(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    assert_eq!(socket.list().await.unwrap_err().reason(), "not-a-socket");
    std::fs::remove_file(&place).unwrap();
    let _listener = UnixListener::bind(&place).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&place, Some(4711), None).unwrap();
        assert_eq!(socket.list().await.unwrap_err().reason(), "foreign-owner");
    }
}

#[tokio::test]
async fn a_kubelet_whose_directory_is_a_link_is_found() {
    let folder = tempfile::tempdir().unwrap();
    serve(&folder.path().join("data"), Script::default());
    std::fs::create_dir_all(folder.path().join("var/lib")).unwrap();
    let link = folder.path().join("var/lib/kubelet");
    std::os::unix::fs::symlink("/data/var/lib/kubelet", link).unwrap();
    assert!(socket(folder.path()).list().await.is_ok());
}
