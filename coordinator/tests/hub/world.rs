//! A hub on loopback, and agents that write into memory.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_agent::link::client::{Client, LinkSettings};
use muster_agent::link::{Deliver, DeliverError, LinkState, LinkStatus, Me};
use muster_agent::problem::{Area, Problems};
use muster_hub::authenticate::{Authenticate, AuthenticateError};
use muster_hub::blob::Blob;
use muster_hub::{Hub, Role, Settings as HubSettings};
use muster_program::connections::Source;
use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::device::{Device, Inventory, Vendor};
use muster_proto::pod::{PodDevices, PodRef};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::certificate::Authority;

/// The name in good certificates.
pub const NAME: &str = "hub.muster.svc";

/// Longest wait of any test.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Tokens and their nodes, and how often somebody asked.
#[derive(Default)]
pub struct Tokens(pub Mutex<HashMap<String, String>>, pub AtomicUsize);

/// A hub that is served.
pub struct Served {
    pub hub: Hub,
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Where a fake agent writes.
#[derive(Default)]
pub struct Shelf {
    inner: Mutex<Tables>,
}

#[derive(Default)]
pub struct Tables {
    pub epoch: u64,
    pub tables: BTreeMap<Place, (u64, Digest, usize)>,
    pub writes: usize,
    /// Why every table is refused, if it is.
    pub refuses: Option<&'static str>,
}

/// A link that runs.
pub struct Agent {
    pub shelf: Arc<Shelf>,
    pub problems: Problems,
    pub status: watch::Receiver<LinkStatus>,
    pub inventory: watch::Sender<Arc<Inventory>>,
    pub pods: watch::Sender<Arc<Vec<PodDevices>>>,
    stop: CancellationToken,
    pub task: JoinHandle<()>,
}

/// An authority, tokens, and files for agents.
pub struct World {
    pub authority: Authority,
    pub tokens: Arc<Tokens>,
    pub folder: TempDir,
}

/// Waits until something is so.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub fn inventory(devices: u32) -> Arc<Inventory> {
    let devices = (0..devices).map(|id| Device::new(Vendor::Ascend, id, "/dev/davinci")).collect();
    Arc::new(Inventory { settled: true, devices, ..Inventory::default() })
}

pub fn pods(uids: &[&str]) -> Arc<Vec<PodDevices>> {
    let pod = |uid: &&str| {
        let pod = PodRef { namespace: "ns".into(), name: format!("pod-{uid}"), uid: (*uid).into() };
        PodDevices { pod, devices: Vec::new() }
    };
    Arc::new(uids.iter().map(pod).collect())
}

pub fn place(uid: &str) -> Place {
    Place { pod_uid: uid.into(), volume: "ranktable".into(), file: "ranktable.json".into() }
}

pub fn delivery(uid: &str, generation: u64, digest: Digest) -> Delivery {
    Delivery { place: place(uid), generation, digest, mode: 0o644, group: None }
}

/// Quick pings, so that whatever waits for one does not wait long.
pub fn quick() -> HubSettings {
    HubSettings { ping_every: Duration::from_millis(200), ..HubSettings::default() }
}

// === impl Tokens ===

impl Authenticate for Tokens {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _source: Source,
    ) -> BoxFuture<'a, Result<String, AuthenticateError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let node = self.0.lock().get(token).cloned();
        Box::pin(async move { node.ok_or_else(|| AuthenticateError::Token("unknown".to_owned())) })
    }
}

// === impl Served ===

impl Served {
    pub async fn start(hub: Hub, port: u16, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (served, stopped) = (hub.clone(), stop.clone());
        let task = tokio::spawn(async move {
            served.serve(listener, tls, stopped).await.unwrap();
        });
        Self { hub, address, stop, task }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("the server stops").unwrap();
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Packs a table and wants it for a pod.
    pub fn deliver(&self, node: &str, uid: &str, generation: u64, table: &[u8]) {
        let blob = self.hub.pack(table).unwrap();
        self.hub.deliver(node, delivery(uid, generation, blob.digest()), blob).unwrap();
    }

    pub fn refused_streams(&self, reason: &str) -> u64 {
        let reason = muster_hub::metrics::Reason { reason: reason.to_owned() };
        self.hub.metrics().refused_streams.get_or_create(&reason).get()
    }

    /// Connections that were closed so that others have room.
    pub fn closed(&self, reason: &'static str) -> u64 {
        let reason = muster_program::connections::CloseReason { reason };
        self.hub.metrics().closed_connections.get_or_create(&reason).get()
    }

    pub fn refused_orders(&self, reason: &str) -> u64 {
        let reason = muster_hub::metrics::Reason { reason: reason.to_owned() };
        self.hub.metrics().refused_orders.get_or_create(&reason).get()
    }
}

// === impl Shelf ===

impl Shelf {
    pub fn has(&self, uid: &str) -> Option<(u64, Digest, usize)> {
        self.inner.lock().tables.get(&place(uid)).copied()
    }

    pub fn writes(&self) -> usize {
        self.inner.lock().writes
    }

    pub fn refuse(&self, reason: Option<&'static str>) {
        self.inner.lock().refuses = reason;
    }

    pub fn set_epoch(&self, epoch: u64) {
        self.inner.lock().epoch = epoch;
    }
}

impl Deliver for Shelf {
    async fn deliver(
        &self,
        epoch: u64,
        delivery: Delivery,
        packed: Bytes,
    ) -> Result<Delivered, DeliverError> {
        let refused = |reason, message: &str| DeliverError { reason, message: message.to_owned() };
        let table = Blob::forged(delivery.digest, packed).table();
        let Some(table) = table.filter(|table| Digest::of(table) == delivery.digest) else {
            return Err(refused("digest-mismatch", "the content has another digest"));
        };
        let mut inner = self.inner.lock();
        if let Some(reason) = inner.refuses {
            return Err(refused(reason, "as told"));
        }
        if epoch < inner.epoch {
            return Err(refused("older-epoch", ""));
        }
        inner.epoch = epoch;
        inner.writes += 1;
        let Delivery { place, generation, digest, .. } = delivery;
        inner.tables.insert(place.clone(), (generation, digest, table.len()));
        Ok(Delivered { place, generation, digest })
    }

    async fn retire(&self, place: &Place, generation: u64) -> Result<(), DeliverError> {
        self.inner.lock().tables.retain(|at, (its, _, _)| at != place || *its > generation);
        Ok(())
    }

    fn delivered(&self) -> Vec<Delivered> {
        let one = |(place, (generation, digest, _)): (&Place, &(u64, Digest, usize))| Delivered {
            place: place.clone(),
            generation: *generation,
            digest: *digest,
        };
        self.inner.lock().tables.iter().map(one).collect()
    }

    fn epoch(&self) -> u64 {
        self.inner.lock().epoch
    }
}

// === impl Agent ===

impl Agent {
    pub fn start(settings: LinkSettings, node: &str, shelf: Arc<Shelf>) -> Self {
        let text = str::to_owned;
        let me =
            Me { node: text(node), boot_id: text("b"), version: text("1"), instance: text("i") };
        let (inventory, watched_inventory) = watch::channel(Arc::new(Inventory::default()));
        let (pods, watched_pods) = watch::channel(Arc::default());
        let (problems, stop) = (Problems::default(), CancellationToken::new());
        let (client, status) = Client::new(
            settings,
            me,
            shelf.clone(),
            watched_inventory,
            watched_pods,
            problems.clone(),
        );
        let task = tokio::spawn(client.run(stop.clone()));
        Self { shelf, problems, status, inventory, pods, stop, task }
    }

    pub async fn until(&mut self, what: &str, so: impl FnMut(&LinkStatus) -> bool) -> LinkStatus {
        let status = tokio::time::timeout(LIMIT, self.status.wait_for(so)).await;
        status.unwrap_or_else(|_| panic!("never: {what}")).unwrap().clone()
    }

    pub async fn up(&mut self) {
        self.until("up", |status| status.state == LinkState::Up).await;
    }

    /// The problem that the link has; waits for it.
    pub async fn problem(&self) -> (&'static str, String) {
        until("a problem of the link", || self.problems.open(Area::Link) > 0).await;
        let problem = self.problems.list().remove(0);
        (problem.reason, problem.message)
    }

    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("the link stops").unwrap();
    }
}

// === impl World ===

impl World {
    /// One token, `token-n1`, of node n1.
    pub fn new() -> Self {
        let tokens = Arc::new(Tokens::default());
        tokens.0.lock().insert("token-n1".into(), "n1".into());
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("ours");
        std::fs::write(folder.path().join("ca.crt"), &authority.pem).unwrap();
        std::fs::write(folder.path().join("token"), "token-n1\n").unwrap();
        Self { authority, tokens, folder }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.folder.path(), name)
    }

    pub fn new_hub(&self, settings: HubSettings, epoch: u64) -> Hub {
        Hub::new(settings, Role::Leader { epoch }, self.tokens.clone())
    }

    pub async fn hub(&self, settings: HubSettings, epoch: u64) -> Served {
        let tls = self.authority.server(NAME, false);
        Served::start(self.new_hub(settings, epoch), 0, Some(tls)).await
    }

    pub fn settings(&self, url: &str) -> LinkSettings {
        LinkSettings {
            domain: Some(NAME.to_owned()),
            backoff_least: Duration::from_millis(20),
            backoff_most: Duration::from_millis(200),
            ..LinkSettings::new(url, self.path("ca.crt"), self.path("token"))
        }
    }

    pub fn agent(&self, served: &Served) -> Agent {
        Agent::start(self.settings(&served.url()), "n1", Arc::default())
    }
}
