//! Asks the kubelet, on its socket, which containers hold which devices.
//!
//! The connection is made when it is needed and made anew when it is dead, so a kubelet may go and come. Whoever could
//! put another socket in the kubelet's place could make the agent believe anything: the socket must be one, not
//! a link to one, and be owned by root or by the agent's own user.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use muster_proto::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use muster_proto::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, GetPodResourcesRequest,
    ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};
use rand::Rng;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::host::{Host, HostError};

/// The largest answer that is read. A full node's is some hundred KiB.
pub const LARGEST: usize = 16 * 1024 * 1024;

/// How often a busy kubelet is asked again, and how long after the first time.
const AGAIN: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

type Client = PodResourcesListerClient<Channel>;

/// The kubelet's socket.
#[derive(Debug)]
pub struct Socket {
    host: Host,
    directory: String,
    limit: Duration,
    client: Option<Client>,
}

/// Why the kubelet does not answer.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no socket.
    #[error("{path}: {error}; is the kubelet running, and is its directory mounted?")]
    Absent {
        /// Path of the kubelet's socket.
        path: String,
        /// What the system said.
        error: HostError,
    },
    /// It is something else.
    #[error("{0} is not a socket; only the kubelet's own is used")]
    NotSocket(String),
    /// It is somebody else's.
    #[error("{path} is owned by user {owner}; the kubelet's belongs to root")]
    Owner {
        /// Path of the kubelet's socket.
        path: String,
        /// Whose it is.
        owner: u32,
    },
    /// Nobody listens on the socket.
    #[error("{path}: {error}; is the kubelet running?")]
    Connect {
        /// Path of the kubelet's socket.
        path: String,
        /// What the system said.
        error: String,
    },
    /// There was no answer in time.
    #[error("the kubelet gave no answer to {call} within {limit:?}")]
    Timeout {
        /// What was asked.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// It answers too many already.
    #[error("the kubelet refuses {0}: too many requests; who else asks its pod-resources socket?")]
    Busy(&'static str),
    /// It said no.
    #[error("{call}: the kubelet says {code:?}: {message}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// The kind of refusal.
        code: Code,
        /// The kubelet's words, cut short.
        message: String,
    },
}

// === impl SocketError ===

impl SocketError {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::NotSocket(_) => "not-a-socket",
            Self::Owner { .. } => "foreign-owner",
            Self::Connect { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Busy(_) => "busy",
            Self::Refused { .. } => "refused",
        }
    }

    /// Whether the kubelet does not serve this call at all, or was told not to.
    pub fn is_unimplemented(&self) -> bool {
        match self {
            Self::Refused { code, message, .. } => {
                *code == Code::Unimplemented || message.contains("disabled")
            }
            _ => false,
        }
    }
}

// === impl Socket ===

impl Socket {
    /// The socket of the kubelet with this root directory, `/var/lib/kubelet`. Each call may take `limit`.
    pub fn new(host: Host, kubelet_root: &str, limit: Duration) -> Self {
        let directory = format!("{}/pod-resources", kubelet_root.trim_end_matches('/'));
        Self { host, directory, limit, client: None }
    }

    /// Where it is on the node.
    pub fn path(&self) -> String {
        format!("{}/kubelet.sock", self.directory)
    }

    /// What all containers hold.
    pub async fn list(&mut self) -> Result<ListPodResourcesResponse, SocketError> {
        let list =
            |mut client: Client| async move { client.list(ListPodResourcesRequest {}).await };
        self.call("List", list).await
    }

    /// What the containers of one pod hold. Kubelets before 1.34 refuse this unless they are told to serve it.
    pub async fn get(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PodResources>, SocketError> {
        let request = GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: namespace.to_owned(),
        };
        let get = |mut client: Client| {
            let request = request.clone();
            async move { client.get(request).await }
        };
        Ok(self.call("Get", get).await?.pod_resources)
    }

    /// The devices that the node could give, held or not.
    pub async fn allocatable(&mut self) -> Result<AllocatableResourcesResponse, SocketError> {
        let all = |mut client: Client| async move {
            client.get_allocatable_resources(AllocatableResourcesRequest {}).await
        };
        self.call("GetAllocatableResources", all).await
    }

    async fn call<T, F>(
        &mut self,
        name: &'static str,
        ask: impl Fn(Client) -> F,
    ) -> Result<T, SocketError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut busy = 0;
        loop {
            let (client, old) = match &self.client {
                Some(client) => (client.clone(), true),
                None => (self.connect().await?, false),
            };
            let answer = tokio::time::timeout(self.limit, ask(client.clone())).await;
            match answer {
                Ok(Ok(answer)) => {
                    self.client = Some(client);
                    return Ok(answer.into_inner());
                }
                Ok(Err(status)) if status.code() == Code::ResourceExhausted => {
                    self.client = Some(client);
                    busy += 1;
                    if busy > AGAIN {
                        return Err(SocketError::Busy(name));
                    }
                    let pause = PAUSE * 2_u32.pow(busy - 1);
                    let jitter = rand::rng().random_range(0.75..1.25);
                    tokio::time::sleep(pause.mul_f64(jitter)).await;
                }
                // The kubelet went while nobody asked: its successor is asked at once.
                Ok(Err(status)) if old && is_broken(&status) => self.client = None,
                Ok(Err(status)) => {
                    self.client = (!is_broken(&status)).then_some(client);
                    let message = status.message().chars().take(256).collect();
                    return Err(SocketError::Refused { call: name, code: status.code(), message });
                }
                Err(_late) => {
                    self.client = None;
                    return Err(SocketError::Timeout { call: name, limit: self.limit });
                }
            }
        }
    }

    async fn connect(&self) -> Result<Client, SocketError> {
        let path = self.path();
        let place = self.checked(&path)?;
        let endpoint = Endpoint::from_static("http://kubelet.invalid").connect_timeout(self.limit);
        let connector = tower::service_fn(move |_| {
            let place = place.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(place).await?)) }
        });
        let connecting = endpoint.connect_with_connector(connector);
        let channel = match tokio::time::timeout(self.limit, connecting).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                let error = innermost(&error);
                return Err(SocketError::Connect { path, error });
            }
            Err(_late) => return Err(SocketError::Timeout { call: "connect", limit: self.limit }),
        };
        Ok(Client::new(channel).max_decoding_message_size(LARGEST))
    }

    /// The socket as a path of this process, if it is one to trust. The kubelet's directory may be a link.
    fn checked(&self, path: &str) -> Result<PathBuf, SocketError> {
        let absent = |error| SocketError::Absent { path: path.to_owned(), error };
        let directory = self.host.resolve(&self.directory).map_err(absent)?;
        let place = self.host.path(&directory.join("kubelet.sock").to_string_lossy());
        let found = std::fs::symlink_metadata(&place)
            .map_err(|error| absent(HostError::Io { path: path.to_owned(), error }))?;
        if !found.file_type().is_socket() {
            return Err(SocketError::NotSocket(path.to_owned()));
        }
        let owner = found.uid();
        if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
            return Err(SocketError::Owner { path: path.to_owned(), owner });
        }
        Ok(place)
    }
}

/// Whether the connection is to blame, not the answer.
fn is_broken(status: &Status) -> bool {
    use std::error::Error;
    matches!(status.code(), Code::Unavailable | Code::Cancelled) || status.source().is_some()
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

#[cfg(test)]
mod tests;
