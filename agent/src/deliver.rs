//! Tables into volumes.
//!
//! This file decides *what* may be written: which names, for which pods, which generation over which. It is pure. The
//! files below it do it, as root, in directories that belong to pods and that pods may change at any moment:
//!
//! ```text
//!   link ──▶ Deliverer ──▶ decide ──▶ target: pods ─ uid ─ volumes ─ empty-dir ─ volume    (no symbolic links)
//!              │  ▲                              │
//!              ▼  │                              ▼
//!            records                          writer: .ranktable.json.3f… ──rename──▶ ranktable.json
//!            (own state directory)                    then ranktable.json.generation
//! ```
//!
//! Nothing that a pod wrote is ever read. What was delivered is remembered in the agent's own directory.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::delivery::{Delivered, Delivery, Digest, LARGEST_PACKED, Place};
use serde::{Deserialize, Serialize};

pub mod deliverer;
mod ledger;
mod metrics;
pub mod mounts;
mod orders;
pub mod records;
pub mod target;
pub mod unpack;
pub mod writer;

#[cfg(test)]
mod tests;

pub use crate::link::DeliverError;
pub use deliverer::{Deliverer, DeliverySettings, PodFactsSource};
pub use ledger::Table;
pub use metrics::Metrics;

/// No name of a file is longer.
const LONGEST_FILE: usize = 128;

/// What the watch of pods knows about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// The pod's `metadata.uid`.
    pub uid: String,
    /// The value of its label `muster.dev/rank-group`.
    pub rank_group: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The file that was made, to know it again. A pod can replace or remove it, and a reboot empties volumes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Print {
    /// Its file system.
    pub device: u64,
    /// Its number in it.
    pub inode: u64,
    /// The file's length.
    pub bytes: u64,
    /// When it was last written, in nanoseconds of the epoch.
    pub written: i64,
}

/// One table that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The table's generation within its rank group.
    pub generation: u64,
    /// SHA-256 of the table's bytes.
    pub digest: Digest,
    /// When, in seconds of the epoch.
    pub since: i64,
    /// What identifies the written file.
    pub print: Print,
    /// It is no longer there: not told to the coordinator, but still newer than what is older.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// Everything that was delivered, and the newest coordinator that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    epoch: u64,
    places: BTreeMap<Place, Record>,
}

/// What is to be done with an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The order is to be carried out.
    Write,
    /// This very table was delivered before.
    AlreadyThere,
    /// It must not be written.
    Refuse(OrderError),
}

/// Why an order is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// From a coordinator that is no longer the leader.
    #[error("epoch {0} is older than {1}: the coordinator that ordered it was replaced")]
    OlderEpoch(u64, u64),
    /// Something newer is there.
    #[error("generation {0} is older than {1}, which was delivered")]
    OlderGeneration(u64, u64),
    /// A generation has one content.
    #[error("generation {generation} was delivered with digest {known}, not {asked}")]
    GenerationReused {
        /// The generation that came twice.
        generation: u64,
        /// What was delivered.
        known: Digest,
        /// What is ordered now.
        asked: Digest,
    },
    /// Not a pod of this node.
    #[error("no pod of this node has uid {0:?}")]
    UnknownPod(String),
    /// The pod did not ask for tables.
    #[error("pod {0} has no label {label}: only pods of a rank group get tables",
            label = crate::names::RANK_GROUP)]
    NotAMember(String),
    /// It goes away.
    #[error("pod {0} is being deleted")]
    PodDeleting(String),
    /// Not a uid.
    #[error("uid {0:?} is neither a UUID nor 32 hexadecimal digits")]
    BadUid(String),
    /// Not a name of a volume.
    #[error("volume {0:?} is not a DNS label of at most 63 characters")]
    BadVolume(String),
    /// Not a name of a table.
    #[error(
        "file {0:?} is not a plain name: at most {LONGEST_FILE} of A-Z a-z 0-9 . _ -, no dot at the \
         beginning, not ending in .generation"
    )]
    BadFile(String),
    /// Not a mode of a table.
    #[error("mode {0:o} is not allowed: permission bits only, and not writable by others")]
    BadMode(u32),
    /// Too many bytes.
    #[error("the packed table has {0} bytes, more than {LARGEST_PACKED}")]
    TooLarge(u64),
}

/// What to do with an order of a coordinator of this epoch, given what was delivered and what is known of the pod.
pub fn decide(
    records: &Records,
    epoch: u64,
    delivery: &Delivery,
    pod: Option<&PodFacts>,
) -> Decision {
    match judge(records, epoch, delivery, pod) {
        Ok(decision) => decision,
        Err(refusal) => Decision::Refuse(refusal),
    }
}

fn judge(
    records: &Records,
    epoch: u64,
    delivery: &Delivery,
    pod: Option<&PodFacts>,
) -> Result<Decision, OrderError> {
    let Delivery { place, generation, digest, mode, .. } = delivery;
    check_place(place)?;
    if *mode & !0o775 != 0 {
        return Err(OrderError::BadMode(*mode));
    }
    if epoch < records.epoch {
        return Err(OrderError::OlderEpoch(epoch, records.epoch));
    }
    let known = records.places.get(place);
    if let Some(known) = known {
        if *generation < known.generation {
            return Err(OrderError::OlderGeneration(*generation, known.generation));
        }
        if *generation == known.generation && *digest != known.digest {
            let (generation, known, asked) = (*generation, known.digest, *digest);
            return Err(OrderError::GenerationReused { generation, known, asked });
        }
    }
    let uid = || place.pod_uid.clone();
    let pod = pod.filter(|pod| pod.uid == place.pod_uid);
    let pod = pod.ok_or_else(|| OrderError::UnknownPod(uid()))?;
    if pod.rank_group.is_none() {
        return Err(OrderError::NotAMember(uid()));
    }
    if pod.deleting {
        return Err(OrderError::PodDeleting(uid()));
    }
    let same = known.is_some_and(|known| known.generation == *generation);
    Ok(if same { Decision::AlreadyThere } else { Decision::Write })
}

/// Whether every name is one component of a path, and one that a table may have.
pub fn check_place(place: &Place) -> Result<(), OrderError> {
    let Place { pod_uid, volume, file } = place;
    if !is_uid(pod_uid) {
        return Err(OrderError::BadUid(shortened(pod_uid)));
    }
    if !is_label(volume) {
        return Err(OrderError::BadVolume(shortened(volume)));
    }
    if !is_file(file) {
        return Err(OrderError::BadFile(shortened(file)));
    }
    Ok(())
}

/// Whether a table of this many packed bytes is taken.
pub fn check_packed(bytes: usize) -> Result<(), OrderError> {
    let bytes = bytes as u64;
    if bytes > LARGEST_PACKED { Err(OrderError::TooLarge(bytes)) } else { Ok(()) }
}

fn is_uid(text: &str) -> bool {
    let dashed = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    match text.len() {
        36 => text.bytes().enumerate().all(dashed),
        32 => text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_file(text: &str) -> bool {
    (1..=LONGEST_FILE).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !text.starts_with('.')
        && !text.ends_with(".generation")
}

/// A name that was refused may be long; the beginning says enough.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_FILE).collect()
}

// === impl OrderError ===

impl OrderError {
    /// One word for metrics and for the coordinator.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OlderEpoch(..) => "older-epoch",
            Self::OlderGeneration(..) => "older-generation",
            Self::GenerationReused { .. } => "generation-reused",
            Self::UnknownPod(_) => "unknown-pod",
            Self::NotAMember(_) => "not-a-member",
            Self::PodDeleting(_) => "pod-deleting",
            Self::BadUid(_) => "bad-uid",
            Self::BadVolume(_) => "bad-volume",
            Self::BadFile(_) => "bad-file",
            Self::BadMode(_) => "bad-mode",
            Self::TooLarge(_) => "too-large",
        }
    }
}

// === impl Records ===

impl Records {
    /// The highest epoch that was seen.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A coordinator of this epoch spoke. Says whether it is a newer one than all before.
    pub fn saw(&mut self, epoch: u64) -> bool {
        let newer = epoch > self.epoch;
        self.epoch = self.epoch.max(epoch);
        newer
    }

    /// What is at a place.
    pub fn get(&self, place: &Place) -> Option<&Record> {
        self.places.get(place)
    }

    /// A table was delivered.
    pub fn set(&mut self, place: Place, record: Record) {
        self.places.insert(place, record);
    }

    /// A table is no longer what was written, unless another was written meanwhile. Says whether that is news.
    pub fn lose(&mut self, place: &Place, record: &Record) -> bool {
        match self.places.get_mut(place) {
            Some(known) if known == record && !known.lost => {
                known.lost = true;
                true
            }
            _ => false,
        }
    }

    /// A table was retired.
    pub fn forget(&mut self, place: &Place) -> bool {
        self.places.remove(place).is_some()
    }

    /// Forgets tables of pods that are gone. Says whether there were any.
    pub fn prune(&mut self, live: &BTreeSet<String>) -> bool {
        let before = self.places.len();
        self.places.retain(|place, _| live.contains(&place.pod_uid));
        self.places.len() != before
    }

    /// All, by place.
    pub fn iter(&self) -> impl Iterator<Item = (&Place, &Record)> {
        self.places.iter()
    }

    /// All, as the coordinator is told.
    pub fn delivered(&self) -> Vec<Delivered> {
        let told = |(place, record): (&Place, &Record)| Delivered {
            place: place.clone(),
            generation: record.generation,
            digest: record.digest,
        };
        self.places.iter().filter(|(_, record)| !record.lost).map(told).collect()
    }
}
