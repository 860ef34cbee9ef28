//! Takes orders, decides, writes, remembers, and tells how it went.
//!
//! Orders for one place are followed one after the other, for different places a few at once. Each attempt decides anew:
//! while an order waits for its pod or its volume, a newer one may have come.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, Semaphore};

use super::records::RecordsFile;
use super::target::Volumes;
use super::writer::{WriteError, Writer};
use super::{Decision, PodFacts, Record, Records, Refusal, check_packed, check_place, decide};
use crate::host::Host;
use crate::link::Refused;
use crate::problem::{Area, Problems};

mod metrics;

pub use metrics::Metrics;

/// How many tables are written at once.
const AT_ONCE: usize = 4;

/// How long to wait before a pod or a volume is looked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// How many places are listed that never got a table.
const MOST_REFUSED: usize = 256;

/// Who knows the pods of this node.
pub trait PodFactsSource: Send + Sync {
    /// The pod of this uid, if it is on this node.
    fn pod(&self, uid: &str) -> Option<PodFacts>;
}

/// How tables are delivered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kubelet's directory on the node.
    pub kubelet: String,
    /// The agent's own directory, as a path of this process.
    pub state: std::path::PathBuf,
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
    settings: Settings,
    writer: Writer,
    pods: Arc<dyn PodFactsSource>,
    problems: Problems,
    metrics: Metrics,
    file: RecordsFile,
    /// Held while the file is written, so that an older state never replaces a newer one.
    saving: Mutex<()>,
    records: Mutex<Records>,
    errors: Mutex<BTreeMap<Place, String>>,
    turns: Mutex<HashMap<Place, Weak<Turn<()>>>>,
    slots: Semaphore,
}

/// A place as the status page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// Which generation is there; none: no table yet.
    pub generation: Option<u64>,
    /// Its content.
    pub digest: Option<Digest>,
    /// Its length.
    pub bytes: Option<u64>,
    /// Since when, in seconds of the epoch.
    pub since: Option<i64>,
    /// Why the last order was not followed.
    pub last_error: Option<String>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            kubelet: "/var/lib/kubelet".to_owned(),
            state: "/var/lib/muster".into(),
            sync: false,
            pod_patience: Duration::from_secs(2),
            volume_patience: Duration::from_secs(5),
        }
    }
}

// === impl Refused ===

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { reason: refusal.reason(), message: refusal.to_string() }
    }
}

impl From<WriteError> for Refused {
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
        settings: Settings,
        pods: Arc<dyn PodFactsSource>,
        problems: Problems,
        metrics: Metrics,
    ) -> Self {
        let file = RecordsFile::new(&settings.state);
        let (records, finding) = file.load();
        if let Some(finding) = finding {
            problems.raise(Area::Deliver, finding);
        }
        let volumes = Volumes::new(host, &settings.kubelet);
        let writer = Writer::new(volumes, settings.sync);
        let inner = Inner {
            settings,
            writer,
            pods,
            problems,
            metrics,
            file,
            saving: Mutex::default(),
            records: Mutex::new(records),
            errors: Mutex::default(),
            turns: Mutex::default(),
            slots: Semaphore::new(AT_ONCE),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Follows an order of a coordinator of this epoch. The table is there when this is well.
    pub async fn deliver(
        &self,
        epoch: u64,
        delivery: Delivery,
        packed: Bytes,
    ) -> Result<Delivered, Refused> {
        let begun = Instant::now();
        let metrics = &self.inner.metrics;
        let result = self.follow(epoch, &delivery, packed).await;
        metrics.took(begun.elapsed());
        match &result {
            Ok(result) => metrics.count(result),
            Err(refused) => metrics.count(refused.reason),
        }
        let Delivery { place, generation, digest, .. } = delivery;
        self.inner.told(&place, result.as_ref().err());
        result.map(|_| Delivered { place, generation, digest })
    }

    async fn follow(
        &self,
        epoch: u64,
        delivery: &Delivery,
        packed: Bytes,
    ) -> Result<&'static str, Refused> {
        let inner = &self.inner;
        let place = &delivery.place;
        check_place(place)?;
        check_packed(packed.len())?;
        let _turn = self.turn(place).await;
        self.saw(epoch);
        let begun = tokio::time::Instant::now();
        loop {
            let pod = inner.pods.pod(&place.pod_uid);
            let decision = decide(&inner.records.lock(), epoch, delivery, pod.as_ref());
            let waited = begun.elapsed();
            match decision {
                Decision::Refuse(Refusal::UnknownPod(_))
                    if waited < inner.settings.pod_patience => {}
                Decision::Refuse(refusal) => return Err(refusal.into()),
                Decision::Write | Decision::AlreadyThere => {
                    match self.attempt(delivery.clone(), packed.clone()).await {
                        Err((true, _)) if waited < inner.settings.volume_patience => {}
                        result => return result.map_err(|(_, error)| error),
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Tries once; the error says whether it may be well in a moment.
    async fn attempt(
        &self,
        delivery: Delivery,
        packed: Bytes,
    ) -> Result<&'static str, (bool, Refused)> {
        let lost = |message: String| (false, Refused { reason: "internal", message });
        let slot = self.inner.slots.acquire().await;
        let _slot = slot.map_err(|error| lost(error.to_string()))?;
        let inner = self.inner.clone();
        let work = tokio::task::spawn_blocking(move || inner.write(&delivery, &packed));
        let done = work.await.map_err(|error| lost(format!("writing a table: {error}")))?;
        done.map_err(|error| (error.is_early(), error.into()))
    }

    /// Removes a table of this generation or an older one, if it is still the one that was delivered, and forgets it.
    /// One that is not there is as good as removed.
    pub async fn retire(&self, place: &Place, generation: u64) -> Result<(), Refused> {
        let _turn = self.turn(place).await;
        let record = self.inner.records.lock().get(place).copied();
        let Some(record) = record.filter(|record| record.generation <= generation) else {
            return Ok(());
        };
        let (inner, at) = (self.inner.clone(), place.clone());
        let work = tokio::task::spawn_blocking(move || inner.retire(&at, &record));
        let result = match work.await {
            Ok(result) => result.map_err(Refused::from),
            Err(error) => Err(Refused { reason: "internal", message: error.to_string() }),
        };
        self.inner.told(place, result.as_ref().err());
        result.map(drop)
    }

    /// What is where, for the coordinator.
    pub fn delivered(&self) -> Vec<Delivered> {
        self.inner.records.lock().delivered()
    }

    /// The highest epoch that was seen.
    pub fn epoch(&self) -> u64 {
        self.inner.records.lock().epoch()
    }

    /// A coordinator of this epoch spoke: those of an older one are refused from now on.
    pub fn saw(&self, epoch: u64) {
        let newer = self.inner.records.lock().saw(epoch);
        if newer {
            self.save_soon();
        }
    }

    /// Forgets all of pods that are gone.
    pub fn prune(&self, live: &BTreeSet<String>) {
        let inner = &self.inner;
        let pruned = inner.records.lock().prune(live);
        let mut errors = inner.errors.lock();
        errors.retain(|place, _| {
            let lives = live.contains(&place.pod_uid);
            if !lives {
                inner.problems.clear(Area::Deliver, &place.to_string());
            }
            lives
        });
        drop(errors);
        if pruned {
            self.save_soon();
        }
    }

    fn save_soon(&self) {
        let inner = self.inner.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || inner.save())),
            Err(_) => inner.save(),
        }
    }

    /// Every place, for the status page.
    pub fn tables(&self) -> Vec<Table> {
        let empty = |place: &Place| Table {
            place: place.clone(),
            generation: None,
            digest: None,
            bytes: None,
            since: None,
            last_error: None,
        };
        let mut tables = BTreeMap::new();
        for (place, record) in self.inner.records.lock().iter() {
            let Record { generation, digest, since, print } = *record;
            let table = Table {
                generation: Some(generation),
                digest: Some(digest),
                bytes: Some(print.bytes),
                since: Some(since),
                ..empty(place)
            };
            tables.insert(place.clone(), table);
        }
        for (place, error) in self.inner.errors.lock().iter() {
            let table = tables.entry(place.clone()).or_insert_with(|| empty(place));
            table.last_error = Some(error.clone());
        }
        tables.into_values().collect()
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

// === impl Inner ===

impl Inner {
    fn write(&self, delivery: &Delivery, packed: &[u8]) -> Result<&'static str, WriteError> {
        let Delivery { place, generation, digest, .. } = delivery;
        let known = self.records.lock().get(place).copied();
        let same = known.filter(|known| known.generation == *generation);
        if let Some(known) = same
            && self.writer.is_there(place, &known.print)?
        {
            return Ok("already-there");
        }
        let print = self.writer.write(delivery, packed, &|| ())?;
        let since = jiff::Timestamp::now().as_second();
        let record = Record { generation: *generation, digest: *digest, since, print };
        self.records.lock().set(place.clone(), record);
        self.metrics.wrote(print.bytes);
        self.save();
        tracing::info!(%place, generation, bytes = print.bytes, "table delivered");
        Ok("written")
    }

    fn retire(&self, place: &Place, record: &Record) -> Result<bool, WriteError> {
        let removed = match self.writer.remove(place, &record.print) {
            // The volume went, and the table with it.
            Err(error) if error.is_early() => Ok(false),
            result => result,
        }?;
        self.records.lock().forget(place);
        self.save();
        tracing::info!(%place, generation = record.generation, removed, "table retired");
        Ok(removed)
    }

    fn save(&self) {
        let _saving = self.saving.lock();
        let records = self.records.lock().clone();
        match self.file.save(&records) {
            Ok(()) => self.problems.clear(Area::Deliver, &self.file.path().display().to_string()),
            Err(finding) => self.problems.raise(Area::Deliver, finding),
        }
    }

    fn told(&self, place: &Place, error: Option<&Refused>) {
        let mut errors = self.errors.lock();
        match error {
            None => {
                errors.remove(place);
                self.problems.clear(Area::Deliver, &place.to_string());
            }
            Some(Refused { reason, message }) => {
                let known = errors.contains_key(place) || errors.len() < MOST_REFUSED;
                // A name that was refused is somebody's mistake and may have any length.
                let sane = check_place(place).is_ok();
                if known && sane {
                    errors.insert(place.clone(), message.clone());
                }
                let subject = if sane { place.to_string() } else { "order".to_owned() };
                let finding = crate::problem::Finding::new(reason, subject, message);
                self.problems.raise(Area::Deliver, finding);
            }
        }
    }
}
