//! What was delivered, where and why not: the part of delivering that touches disks.
//!
//! Everything here may block and is called from threads that may. Who is first is the caller's business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use parking_lot::Mutex;
use serde::Serialize;

use super::metrics::Metrics;
use super::records::RecordsFile;
use super::writer::{WriteError, Writer};
use super::{Decision, PodFacts, Record, Records, check_place, decide};
use crate::link::DeliverError;
use crate::problem::{Area, Finding, Problems};

/// How many places are listed that never got a table.
const MOST_REFUSED: usize = 256;

/// A place as the status page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The pod, volume and file of the table.
    #[serde(flatten)]
    pub place: Place,
    /// Which generation is there; none: no table yet.
    pub generation: Option<u64>,
    /// SHA-256 of the table's bytes, if it was delivered.
    pub digest: Option<Digest>,
    /// The file's length, if it was delivered.
    pub bytes: Option<u64>,
    /// Since when, in seconds of the epoch.
    pub since: Option<i64>,
    /// Why the last order was not followed.
    pub last_error: Option<String>,
}

/// The memory of a node's tables, and the hand that writes them.
pub(super) struct Ledger {
    writer: Writer,
    problems: Problems,
    metrics: Metrics,
    /// Held while it is written, so that an older state never replaces a newer one.
    file: Mutex<RecordsFile>,
    records: Mutex<Records>,
    errors: Mutex<BTreeMap<Place, String>>,
}

// === impl Ledger ===

impl Ledger {
    /// Reads what was delivered before, and looks whether it is still there.
    pub(super) fn open(
        writer: Writer,
        file: RecordsFile,
        problems: Problems,
        metrics: Metrics,
    ) -> Self {
        let (records, finding) = file.load();
        let readable = finding.is_none();
        if let Some(finding) = finding {
            problems.raise(Area::Deliver, finding);
        }
        let ledger = Self {
            writer,
            problems,
            metrics,
            file: Mutex::new(file),
            records: Mutex::new(records),
            errors: Mutex::default(),
        };
        ledger.verify();
        if readable {
            // What cannot be remembered is better known now than after the first table.
            ledger.save();
        }
        ledger
    }

    pub(super) fn decide(
        &self,
        epoch: u64,
        delivery: &Delivery,
        pod: Option<&PodFacts>,
    ) -> Decision {
        decide(&self.records.lock(), epoch, delivery, pod)
    }

    pub(super) fn record(&self, place: &Place) -> Option<Record> {
        self.records.lock().get(place).copied()
    }

    pub(super) fn delivered(&self) -> Vec<Delivered> {
        self.records.lock().delivered()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.records.lock().epoch()
    }

    pub(super) fn saw(&self, epoch: u64) -> bool {
        self.records.lock().saw(epoch)
    }

    /// Forgets all of pods that are gone. Says whether there is something to save.
    pub(super) fn prune(&self, live: &BTreeSet<String>) -> bool {
        self.errors.lock().retain(|place, _| {
            let lives = live.contains(&place.pod_uid);
            if !lives {
                self.problems.clear(Area::Deliver, &place.to_string());
            }
            lives
        });
        self.records.lock().prune(live)
    }

    /// Every place, for the status page.
    pub(super) fn tables(&self) -> Vec<Table> {
        let empty = |place: &Place| Table {
            place: place.clone(),
            generation: None,
            digest: None,
            bytes: None,
            since: None,
            last_error: None,
        };
        let mut tables = BTreeMap::new();
        for (place, record) in self.records.lock().iter().filter(|(_, record)| !record.lost) {
            let Record { generation, digest, since, print, .. } = *record;
            let table = Table {
                generation: Some(generation),
                digest: Some(digest),
                bytes: Some(print.bytes),
                since: Some(since),
                ..empty(place)
            };
            tables.insert(place.clone(), table);
        }
        for (place, error) in self.errors.lock().iter() {
            let table = tables.entry(place.clone()).or_insert_with(|| empty(place));
            table.last_error = Some(error.clone());
        }
        tables.into_values().collect()
    }

    /// Writes a table that may be written, unless it is there; says which. It was ordered then.
    pub(super) fn write(
        &self,
        delivery: &Delivery,
        packed: &[u8],
        ordered: Instant,
    ) -> Result<&'static str, WriteError> {
        let Delivery { place, generation, digest, .. } = delivery;
        let known = self.records.lock().get(place).copied();
        let same = known.filter(|known| known.generation == *generation);
        if let Some(known) = same
            && self.writer.is_there(place, &known.print)?
        {
            self.records.lock().set(place.clone(), Record { lost: false, ..known });
            return Ok("already-there");
        }
        let written = self.writer.write(delivery, packed, &|| ());
        let (print, replaced) = written.inspect_err(|_| self.verify_one(place))?;
        self.metrics.wrote(print.bytes, ordered.elapsed());
        let since = jiff::Timestamp::now().as_second();
        let (generation, digest) = (*generation, *digest);
        let record = Record { generation, digest, since, print, lost: false };
        self.records.lock().set(place.clone(), record);
        self.note_one(place);
        tracing::info!(%place, generation, bytes = print.bytes, "table delivered");
        drop(replaced);
        Ok("written")
    }

    /// Looks whether every table is still there.
    pub(super) fn verify(&self) {
        let records = self.records.lock().clone();
        for (place, record) in records.iter() {
            self.check(place, record);
        }
    }

    fn verify_one(&self, place: &Place) {
        if let Some(record) = self.record(place) {
            self.check(place, &record);
        }
    }

    fn check(&self, place: &Place, record: &Record) {
        let there = self.writer.is_there(place, &record.print).unwrap_or(false);
        if !there && self.records.lock().lose(place, record) {
            tracing::info!(%place, record.generation, "table is gone or changed");
        }
    }

    /// Removes a table, if it is still the one that was delivered, and forgets it.
    pub(super) fn retire(&self, place: &Place, record: &Record) -> Result<bool, WriteError> {
        let removed = match self.writer.remove(place, &record.print) {
            // The volume went, and the table with it.
            Err(error) if error.is_early() => Ok(false),
            result => result,
        }?;
        self.records.lock().forget(place);
        self.note_one(place);
        tracing::info!(%place, generation = record.generation, removed, "table retired");
        Ok(removed)
    }

    /// Keeps it for the next start; it is on the disk when this returns.
    pub(super) fn save(&self) {
        self.keep(|file, records| file.save(records, true));
    }

    /// Keeps it for the next start. A disk may need longer for that than a whole table takes, so nobody waits for it.
    pub(super) fn note(&self) {
        self.keep(|file, records| file.save(records, false));
    }

    /// The same when only this place has changed.
    fn note_one(&self, place: &Place) {
        self.keep(|file, records| file.change(records, place));
    }

    fn keep(&self, write: impl FnOnce(&mut RecordsFile, &Records) -> Result<(), Finding>) {
        let mut file = self.file.lock();
        let records = self.records.lock().clone();
        match write(&mut file, &records) {
            Ok(()) => self.problems.clear(Area::Deliver, &file.path().display().to_string()),
            Err(finding) => self.problems.raise(Area::Deliver, finding),
        }
    }

    /// An order was followed, or not.
    pub(super) fn report(&self, place: &Place, error: Option<&DeliverError>) {
        let mut errors = self.errors.lock();
        match error {
            None => {
                errors.remove(place);
                self.problems.clear(Area::Deliver, &place.to_string());
            }
            Some(late) if late.is_late() => tracing::info!(%place, "{late}"),
            Some(DeliverError { reason, message }) => {
                let known = errors.contains_key(place) || errors.len() < MOST_REFUSED;
                // A name that was refused is somebody's mistake and may have any length.
                let sane = check_place(place).is_ok();
                if known && sane {
                    errors.insert(place.clone(), message.clone());
                }
                let subject = if sane { place.to_string() } else { "order".to_owned() };
                let finding = Finding::new(reason, subject, message);
                self.problems.raise(Area::Deliver, finding);
            }
        }
    }
}
