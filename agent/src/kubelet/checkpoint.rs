//! The file in which the kubelet remembers its allocations.
//!
//! It is the kubelet's private format and only read: its checksum is a hash of Go structures and says nothing to us.
//! It knows pods by uid, which pod-resources does not, and it keeps what the device plugin answered: under a
//! scheduler that chooses devices itself only that answer tells what a container really got.
//!
//! ```text
//!   PodDeviceEntries ─▶ PodUID, ContainerName, ResourceName, DeviceIDs     what the kubelet thinks it gave
//!                       AllocResp ─▶ *_VISIBLE_DEVICES, /dev/davinciN       what the plugin gave
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_proto::Message;
use muster_proto::annotation::MOST_DEVICES;
use muster_proto::device::Vendor;
use muster_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::device_id::number;

/// How much of the file is read.
pub const LARGEST: usize = 16 * 1024 * 1024;

/// What the kubelet remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// What each container holds of each resource.
    pub entries: Vec<CheckpointEntry>,
    /// How many entries could not be read.
    pub unread: usize,
}

/// What one container holds of one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointEntry {
    /// `metadata.uid` of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// Name of the extended resource.
    pub resource: String,
    /// The ids that the kubelet gave, sorted, each once.
    pub ids: Vec<String>,
    /// What the device plugin answered, where it can be read.
    pub answer: Option<ContainerAllocateResponse>,
}

/// Why the checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is larger than [`LARGEST`].
    #[error("the kubelet's checkpoint has {0} bytes, {LARGEST} are read")]
    TooLarge(usize),
    /// It is no such JSON.
    #[error(
        "the kubelet's checkpoint: {0}; its format may be that of a kubelet that is not known yet"
    )]
    Malformed(#[from] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    #[serde(default, deserialize_with = "entries")]
    pod_device_entries: Checkpoint,
}

/// Reads the list one by one: a whole list of anything would take far more memory than its text.
struct Entries;

/// One entry that cannot be read does not hide the others.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredEntry {
    Known {
        #[serde(rename = "PodUID")]
        pod: String,
        #[serde(rename = "ContainerName")]
        container: String,
        #[serde(rename = "ResourceName")]
        resource: String,
        #[serde(rename = "DeviceIDs")]
        ids: Ids,
        #[serde(rename = "AllocResp", default)]
        answer: Option<String>,
    },
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    /// By NUMA node; a device near two of them is there twice.
    ByNuma(BTreeMap<String, Option<Vec<String>>>),
    /// Before Kubernetes 1.20.
    Flat(Vec<String>),
    None(()),
}

// === impl CheckpointError ===

impl CheckpointError {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too-large",
            Self::Malformed(_) => "malformed",
        }
    }
}

// === impl Checkpoint ===

impl Checkpoint {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        if text.len() > LARGEST {
            return Err(CheckpointError::TooLarge(text.len()));
        }
        let file: File = serde_json::from_str(text)?;
        Ok(file.data.pod_device_entries)
    }

    /// The entries of one pod.
    pub fn of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a CheckpointEntry> {
        self.entries.iter().filter(move |entry| entry.pod == uid)
    }
}

/// The list of entries, or null. What cannot be read is counted as it comes and not kept.
fn entries<'de, D: Deserializer<'de>>(from: D) -> Result<Checkpoint, D::Error> {
    from.deserialize_any(Entries)
}

// === impl Entries ===

impl<'de> Visitor<'de> for Entries {
    type Value = Checkpoint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_unit<E>(self) -> Result<Checkpoint, E> {
        Ok(Checkpoint::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Checkpoint, A::Error> {
        let mut read = Checkpoint::default();
        while let Some(written) = seq.next_element()? {
            match written {
                StoredEntry::Known { pod, container, resource, ids, answer } => {
                    let answer = answer.and_then(|text| decode(&text));
                    read.entries.push(CheckpointEntry {
                        pod,
                        container,
                        resource,
                        ids: ids.all(),
                        answer,
                    });
                }
                StoredEntry::Other(_) => read.unread += 1,
            }
        }
        Ok(read)
    }
}

// === impl Ids ===

impl Ids {
    fn all(self) -> Vec<String> {
        let ids: BTreeSet<String> = match self {
            Self::ByNuma(nodes) => nodes.into_values().flatten().flatten().collect(),
            Self::Flat(ids) => ids.into_iter().collect(),
            Self::None(()) => BTreeSet::new(),
        };
        ids.into_iter().collect()
    }
}

fn decode(text: &str) -> Option<ContainerAllocateResponse> {
    let bytes = STANDARD.decode(text).ok()?;
    if bytes.is_empty() {
        return None;
    }
    ContainerAllocateResponse::decode(bytes.as_slice()).ok()
}

// === impl CheckpointEntry ===

impl CheckpointEntry {
    /// The devices that the plugin really gave, as ids. `None`: its answer does not tell, or tells of slices, which
    /// it numbers in its own way.
    pub fn really(&self, vendor: Vendor) -> Option<Vec<String>> {
        let answer = self.answer.as_ref()?;
        let env = |key: &str| answer.envs.get(key).map(String::as_str);
        match vendor {
            Vendor::Ascend => {
                if env("ASCEND_RUNTIME_OPTIONS").is_some_and(|it| it.contains("VIRTUAL")) {
                    return None;
                }
                env("ASCEND_VISIBLE_DEVICES").and_then(npus).or_else(|| files(answer))
            }
            Vendor::Nvidia => gpus(env("NVIDIA_VISIBLE_DEVICES")?),
        }
    }
}

/// `0,1`, `0-3`, `0-1,3`, `Ascend910-0,Ascend910-1`.
fn npus(text: &str) -> Option<Vec<String>> {
    let mut found = BTreeSet::new();
    for word in text.split(',').map(str::trim) {
        let (first, last) = match word.rsplit_once('-') {
            Some((name, last)) => (number(name).or(number(last))?, number(last)?),
            None => (number(word)?, number(word)?),
        };
        if last < first || (last - first) as usize >= MOST_DEVICES {
            return None;
        }
        found.extend(first..=last);
        if found.len() > MOST_DEVICES {
            return None;
        }
    }
    Some(found.into_iter().map(|id| id.to_string()).collect())
}

fn gpus(text: &str) -> Option<Vec<String>> {
    let words: BTreeSet<&str> = text.split(',').map(str::trim).collect();
    let names = |word: &&str| word.starts_with("GPU-") || number(word).is_some();
    let all = !words.is_empty() && words.len() <= MOST_DEVICES && words.iter().all(names);
    all.then(|| words.into_iter().map(str::to_owned).collect())
}

fn files(answer: &ContainerAllocateResponse) -> Option<Vec<String>> {
    let number_of = |path: &str| number(path.strip_prefix("/dev/davinci")?);
    let found: BTreeSet<u32> =
        answer.devices.iter().filter_map(|device| number_of(&device.host_path)).collect();
    let some = !found.is_empty() && found.len() <= MOST_DEVICES;
    some.then(|| found.into_iter().map(|id| id.to_string()).collect())
}

#[cfg(test)]
mod tests;
