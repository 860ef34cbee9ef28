//! Takes orders, decides, writes, remembers, and tells how it went.
//!
//! Orders for one place are followed one after the other, for different places a few at once. Each attempt decides anew:
//! while an order waits for its pod or its volume, a newer one may have come.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_proto::delivery::{Delivered, Delivery, Place};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, Semaphore};

use super::ledger::{Ledger, Table};
use super::metrics::Metrics;
use super::records::RecordsFile;
use super::target::Volumes;
use super::writer::{WriteError, Writer};
use super::{Decision, OrderError, PodFacts, check_packed, check_place};
use crate::host::Host;
use crate::link::DeliverError;
use crate::problem::Problems;

/// How many tables are written at once.
const AT_ONCE: u32 = 4;

/// A packed table of this size is written alone: unpacking takes memory.
const LARGE: usize = 256 * 1024;

/// How long to wait before a pod or a volume is looked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// The same when it has been waited for long.
const AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// Who knows the pods of this node.
pub trait PodFactsSource: Send + Sync {
    /// The pod of this uid, if it is on this node.
    fn pod(&self, uid: &str) -> Option<PodFacts>;
}

/// How tables are delivered.
#[derive(Clone, Debug)]
pub struct DeliverySettings {
    /// The kubelet's directory on the node.
    pub kubelet: String,
    /// The agent's own directory, as a path of this process.
    pub state: PathBuf,
    /// Whether a table is on the disk before it is acknowledged.
    pub sync: bool,
    /// How long an order waits for the watch to see its pod.
    pub pod_patience: Duration,
    /// How long an order waits for the kubelet to make the volume.
    pub volume_patience: Duration,
}

/// Delivers tables. Copies share everything.
#[derive(Clone)]
pub struct Deliverer {
    inner: Arc<Inner>,
}

struct Inner {
    settings: DeliverySettings,
    pods: Arc<dyn PodFactsSource>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    turns: Mutex<HashMap<Place, Weak<Turn<()>>>>,
    slots: Arc<Semaphore>,
}

// === impl DeliverySettings ===

impl Default for DeliverySettings {
    fn default() -> Self {
        Self {
            kubelet: "/var/lib/kubelet".to_owned(),
            state: "/var/lib/muster".into(),
            sync: false,
            pod_patience: Duration::from_secs(10),
            volume_patience: Duration::from_secs(30),
        }
    }
}

// === impl DeliverError ===

impl DeliverError {
    fn internal(error: impl std::fmt::Display) -> Self {
        Self { reason: "internal", message: format!("writing a table: {error}") }
    }

    /// Whether it is what a change of the coordinator's leader brings, and nobody's fault.
    pub(super) fn is_late(&self) -> bool {
        ["older-epoch", "older-generation"].contains(&self.reason)
    }
}

impl From<OrderError> for DeliverError {
    fn from(refusal: OrderError) -> Self {
        Self { reason: refusal.reason(), message: refusal.to_string() }
    }
}

impl From<WriteError> for DeliverError {
    fn from(error: WriteError) -> Self {
        Self { reason: error.reason(), message: error.to_string() }
    }
}

// === impl Deliverer ===

impl std::fmt::Debug for Deliverer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliverer").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl Deliverer {
    /// For the pods of a host. Reads what was delivered before.
    pub fn new(
        host: Host,
        settings: DeliverySettings,
        pods: Arc<dyn PodFactsSource>,
        problems: Problems,
        metrics: Metrics,
    ) -> Self {
        let volumes = Volumes::new(host, &settings.kubelet);
        let writer = Writer::new(volumes, settings.sync);
        let file = RecordsFile::new(&settings.state);
        let inner = Inner {
            ledger: Arc::new(Ledger::open(writer, file, problems, metrics.clone())),
            settings,
            pods,
            metrics,
            turns: Mutex::default(),
            slots: Arc::new(Semaphore::new(AT_ONCE as usize)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Follows an order of a coordinator of this epoch. The table is there when this is well.
    pub async fn deliver(
        &self,
        epoch: u64,
        delivery: Delivery,
        packed: Bytes,
    ) -> Result<Delivered, DeliverError> {
        let begun = Instant::now();
        let metrics = &self.inner.metrics;
        let result = self.follow(epoch, &delivery, packed, begun).await;
        metrics.took(begun.elapsed());
        match &result {
            Ok(result) => metrics.count(result),
            Err(refused) => metrics.count(refused.reason),
        }
        let Delivery { place, generation, digest, .. } = delivery;
        self.inner.ledger.report(&place, result.as_ref().err());
        result.map(|_| Delivered { place, generation, digest })
    }

    async fn follow(
        &self,
        epoch: u64,
        delivery: &Delivery,
        packed: Bytes,
        ordered: Instant,
    ) -> Result<&'static str, DeliverError> {
        let inner = &self.inner;
        let place = &delivery.place;
        check_place(place)?;
        check_packed(packed.len())?;
        let mut turn = self.turn(place).await;
        self.saw(epoch);
        let begun = tokio::time::Instant::now();
        loop {
            let pod = inner.pods.pod(&place.pod_uid);
            let decision = inner.ledger.decide(epoch, delivery, pod.as_ref());
            let waited = begun.elapsed();
            match decision {
                Decision::Refuse(OrderError::UnknownPod(_))
                    if waited < inner.settings.pod_patience => {}
                Decision::Refuse(refusal) => return Err(refusal.into()),
                Decision::Write | Decision::AlreadyThere => {
                    let (result, same) =
                        self.attempt(delivery.clone(), packed.clone(), ordered, turn).await?;
                    match result {
                        Err(error)
                            if error.is_early() && waited < inner.settings.volume_patience => {}
                        result => return Ok(result?),
                    }
                    turn = same;
                }
            }
            tokio::time::sleep((waited / 10).clamp(AGAIN, AGAIN_AT_MOST)).await;
        }
    }

    /// Tries once. The turn goes with the work and comes back: whoever ordered may have gone meanwhile, and the next
    /// order must still wait for the end of this one.
    async fn attempt(
        &self,
        delivery: Delivery,
        packed: Bytes,
        ordered: Instant,
        turn: OwnedMutexGuard<()>,
    ) -> Result<(Result<&'static str, WriteError>, OwnedMutexGuard<()>), DeliverError> {
        let weight = if packed.len() > LARGE { AT_ONCE } else { 1 };
        let slot = self.inner.slots.clone().acquire_many_owned(weight).await;
        let slot = slot.map_err(DeliverError::internal)?;
        let ledger = self.inner.ledger.clone();
        let work = tokio::task::spawn_blocking(move || {
            let result = ledger.write(&delivery, &packed, ordered);
            drop(slot);
            (result, turn)
        });
        work.await.map_err(DeliverError::internal)
    }

    /// Removes a table of this generation or an older one, if it is still the one that was delivered, and forgets it.
    /// One that is not there is as good as removed.
    pub async fn retire(&self, place: &Place, generation: u64) -> Result<(), DeliverError> {
        let turn = self.turn(place).await;
        let record = self.inner.ledger.record(place);
        let Some(record) = record.filter(|record| record.generation <= generation) else {
            return Ok(());
        };
        let (ledger, at) = (self.inner.ledger.clone(), place.clone());
        let work = tokio::task::spawn_blocking(move || {
            let result = ledger.retire(&at, &record);
            drop(turn);
            result
        });
        let result = match work.await {
            Ok(result) => result.map_err(DeliverError::from),
            Err(error) => Err(DeliverError::internal(error)),
        };
        self.inner.ledger.report(place, result.as_ref().err());
        result.map(drop)
    }

    /// Looks whether every table is still there; those that are not are no longer told to the coordinator, so that it
    /// sends them again. Done at the start; worth doing before each greeting.
    pub async fn verify(&self) {
        let ledger = self.inner.ledger.clone();
        // It fails only with the whole process; the records stay as they are.
        let _done = tokio::task::spawn_blocking(move || ledger.verify()).await;
    }

    /// What is where, for the coordinator.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.inner.ledger.delivered()
    }

    /// The highest epoch that was seen.
    pub fn epoch(&self) -> u64 {
        self.inner.ledger.epoch()
    }

    /// A coordinator of this epoch spoke: those of an older one are refused from now on.
    pub fn saw(&self, epoch: u64) {
        if self.inner.ledger.saw(epoch) {
            self.save_soon();
        }
    }

    /// The same, and it is on the disk when this returns.
    pub async fn remember(&self, epoch: u64) {
        if self.inner.ledger.saw(epoch) {
            let ledger = self.inner.ledger.clone();
            // It fails only with the whole process.
            let _done = tokio::task::spawn_blocking(move || ledger.save()).await;
        }
    }

    /// Forgets all of pods that are gone.
    pub fn prune(&self, live: &BTreeSet<String>) {
        if self.inner.ledger.prune(live) {
            self.save_soon();
        }
    }

    fn save_soon(&self) {
        let ledger = self.inner.ledger.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || ledger.note())),
            Err(_) => ledger.note(),
        }
    }

    /// Every place, for the status page.
    pub fn tables(&self) -> Vec<Table> {
        self.inner.ledger.tables()
    }

    /// Waits until this order is the first one for its place.
    async fn turn(&self, place: &Place) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.inner.turns.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(place).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::new(Turn::new(()));
                turns.insert(place.clone(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}
