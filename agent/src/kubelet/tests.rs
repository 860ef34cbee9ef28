use std::path::Path;

use muster_proto::podresources::SOCKET;
use muster_proto::podresources::v1::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use muster_proto::podresources::v1::{
    AllocatableResourcesRequest, GetPodResourcesRequest, GetPodResourcesResponse,
    ListPodResourcesRequest,
};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::checkpoint::CheckpointEntry;
use super::*;
use crate::pods::PodMeta;

#[test]
fn the_kubelet_is_asked_at_once_and_at_most_ten_times_a_second() {
    let start = Instant::now();
    let mut pace = Pace::default();
    let mut now = start;
    let mut asked = Vec::new();
    for _ in 0..100 {
        now = pace.take(now);
        asked.push(now.duration_since(start));
    }
    assert_eq!(asked[0], QUIET);
    for window in asked.windows(MOST_PER_SECOND + 1) {
        assert!(window[MOST_PER_SECOND] - window[0] >= Duration::from_secs(1), "{window:?}");
    }
    let late = now + Duration::from_secs(60);
    assert_eq!(pace.take(late), late + QUIET, "after a pause nobody waits");
}

#[test]
fn a_pod_has_ended_when_it_was_not_listed_for_a_while_though_the_checkpoint_has_it() {
    let pod = PodRef { namespace: "ns".into(), name: "a".into(), uid: "1".into() };
    let meta = PodMeta { pod, annotations: BTreeMap::new(), rank_group: None, deleting: false };
    let pods = PodMap::from([(meta.key(), meta)]);
    let one = PodResources { name: "a".into(), namespace: "ns".into(), containers: vec![] };
    let (none, full) = (
        ListPodResourcesResponse::default(),
        ListPodResourcesResponse { pod_resources: vec![one] },
    );
    let entry = CheckpointEntry { pod: "1".into(), ..CheckpointEntry::default() };
    let file = Checkpoint { entries: vec![entry], unread: 0 };
    let start = Instant::now();
    let mut absences = Absences::default();
    let mut ended = |listed, after: Duration| {
        !absences.note(&pods, listed, Some(&file), start + after).is_empty()
    };
    let moment = Duration::from_millis(1);
    assert!(!ended(Some(&none), Duration::ZERO));
    assert!(!ended(Some(&none), ENDED - moment));
    assert!(!ended(Some(&full), ENDED), "the kubelet was starting");
    assert!(!ended(Some(&none), ENDED + moment));
    assert!(!ended(None, 2 * ENDED), "no answer is no absence that is new");
    assert!(ended(Some(&none), 2 * ENDED + moment));
    assert!(!ended(Some(&full), 3 * ENDED));
}

/// A kubelet that has these pods.
#[derive(Clone)]
struct Kubelet {
    pods: Arc<Mutex<Vec<&'static str>>>,
    /// Whether it serves Get.
    get: bool,
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let pod_resources = self.pods.lock().iter().map(|name| resources(name)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        if !self.get {
            return Err(Status::unknown("PodResources API Get method disabled"));
        }
        let name = request.into_inner().pod_name;
        match self.pods.lock().iter().find(|known| **known == name) {
            Some(name) => {
                let pod_resources = Some(resources(name));
                Ok(Response::new(GetPodResourcesResponse { pod_resources }))
            }
            None => Err(Status::unknown("pod not found")),
        }
    }
}

fn resources(name: &str) -> PodResources {
    PodResources { name: name.into(), namespace: "ns".into(), containers: vec![] }
}

fn serve(root: &Path, kubelet: Kubelet) {
    let place = root.join(SOCKET);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let listener = UnixListenerStream::new(UnixListener::bind(&place).unwrap());
    let service = PodResourcesListerServer::new(kubelet);
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(async move { server.serve_with_incoming(listener).await.unwrap() });
}

#[tokio::test]
async fn one_pod_is_asked_for_alone_where_the_kubelet_serves_that_and_lists_all_where_not() {
    let fresh = Duration::from_secs(600);
    for get in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let kubelet = Kubelet { pods: Arc::new(Mutex::new(vec!["old"])), get };
        serve(folder.path(), kubelet.clone());
        let socket = Socket::new(Host::at(folder.path()), "/var/lib/kubelet", fresh);
        let mut lister = Lister::new(socket);
        let problems = Problems::default();
        let pod =
            |name: &str| PodRef { namespace: "ns".into(), name: name.into(), uid: String::new() };
        let names = |list: Option<ListPodResourcesResponse>| -> Vec<String> {
            list.unwrap().pod_resources.into_iter().map(|pod| pod.name).collect()
        };
        let first = lister.list(Some(&pod("new")), fresh, &problems).await;
        assert_eq!(names(first), ["old"], "there was no list before");
        *kubelet.pods.lock() = vec!["new"];
        let alone = names(lister.list(Some(&pod("new")), fresh, &problems).await);
        let expected: &[&str] = if get { &["old", "new"] } else { &["new"] };
        assert_eq!(
            (alone, lister.no_get),
            (expected.iter().map(|it| (*it).into()).collect(), !get)
        );
        let again = names(lister.list(Some(&pod("new")), Duration::ZERO, &problems).await);
        assert_eq!(again, ["new"], "the last list is too old");
        *kubelet.pods.lock() = vec!["other"];
        let gone = names(lister.list(Some(&pod("new")), fresh, &problems).await);
        assert_eq!(gone, ["other"], "it is not there, so all is asked");
        assert_eq!(lister.offers(&Inventory::default(), &ResourceNames::default()).await, []);
        assert_eq!(problems.list(), []);
    }
}
