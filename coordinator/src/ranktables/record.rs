//! The record of a group: a ConfigMap that holds its table, and from which another coordinator goes on. Pure.
//!
//! ```text
//!   state      data                       when
//!   empty      file: ""                   the group has never had a table
//!   published  file: "…"                  it has one; over 1 MiB: binaryData file.zst; over that: the digest only
//!   changing   file: ""                   pods that read it by a ConfigMap volume must not see the last one
//! ```
//!
//! Generation, digests and epoch are annotations. A generation is recorded before anybody is told of it, so it never
//! names two contents, whoever crashes when.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use muster_proto::delivery::Digest;
use serde_json::{Value, json};

use super::member::GroupKey;
use crate::names;
use crate::ranktables::conditions::Condition;

/// What the values of a ConfigMap may have together, less some room.
pub const LARGEST: usize = 1024 * 1024 - 16 * 1024;

/// No generation is higher. What is, somebody has written by hand, and does not count.
pub const LAST_GENERATION: u64 = u64::MAX / 2;

/// Suffix of a packed table's key.
const PACKED: &str = ".zst";
/// Key of the numbering, packed.
const NUMBERING: &str = "numbering.zst";

/// Annotation of a record: `empty`, `published` or `changing`.
const STATE: &str = "muster.dev/ranktable-state";
/// Annotation of a record: the number of its table.
const GENERATION: &str = "muster.dev/ranktable-generation";
/// Annotation of a record: the epoch of the leader that wrote it.
const EPOCH: &str = "muster.dev/ranktable-epoch";
/// Annotation of a record: SHA-256 of the table.
const DIGEST: &str = "muster.dev/ranktable-digest";
/// Annotation of a record: the pods of the table.
const MEMBERS: &str = "muster.dev/ranktable-members";
/// Annotation of a record: a digest of what the table was made of.
const INPUT: &str = "muster.dev/ranktable-input";
/// Annotation of a record: a digest of the template.
const TEMPLATE: &str = "muster.dev/ranktable-template-digest";
/// Annotation of a record: when its input changed last.
const CHANGED: &str = "muster.dev/ranktable-changed";
/// Annotation with the group's conditions, as JSON.
pub const CONDITIONS: &str = "muster.dev/ranktable-conditions";

/// What a record is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There was never a table.
    #[default]
    Empty,
    /// There is one.
    Published,
    /// There was one, and the group is changing.
    Changing,
}

/// The table in a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// None, or its digest alone.
    #[default]
    None,
    /// As it is.
    Text(String),
    /// Packed.
    Packed(Bytes),
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Of the ConfigMap; empty before it is there.
    pub resource_version: String,
    /// Of the ConfigMap.
    pub uid: String,
    /// What it is about.
    pub state: State,
    /// Of the last table; 0 before the first. It only grows.
    pub generation: u64,
    /// In which this was written.
    pub epoch: u64,
    /// Of the table's bytes.
    pub digest: Option<Digest>,
    /// Of the pods that share the table.
    pub members: Option<Digest>,
    /// Of all that the table was made from, but its template.
    pub input: Option<Digest>,
    /// Of the template.
    pub template: Option<Digest>,
    /// When the input changed last, in RFC 3339.
    pub changed: String,
    /// Name of the file.
    pub file: String,
    /// The table.
    pub content: Content,
    /// The ranks, packed, where they must not change without need.
    pub numbering: Option<Bytes>,
    /// Who the ConfigMap goes with.
    pub owners: Vec<OwnerReference>,
    /// How the group is.
    pub conditions: Vec<Condition>,
    /// Somebody has changed the table in it, or taken its labels away.
    pub damaged: bool,
    /// It was never a record: somebody else's ConfigMap has the name.
    pub foreign: bool,
}

// === impl State ===

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Published => "published",
            Self::Changing => "changing",
        }
    }
}

// === impl Content ===

impl Content {
    /// What a record can hold of a table beside so many other bytes: the text, the packed text, or nothing.
    pub fn of(text: &str, beside: usize) -> Self {
        let room = LARGEST.saturating_sub(beside);
        if text.len() <= room {
            return Self::Text(text.to_owned());
        }
        let packed = zstd::bulk::compress(text.as_bytes(), LEVEL).ok();
        let packed = packed.filter(|packed| packed.len() <= room);
        packed.map_or(Self::None, |packed| Self::Packed(packed.into()))
    }
}

// === impl Record ===

impl Record {
    /// The record of a group that has none yet: an empty file.
    pub fn empty(file: &str, owners: Vec<OwnerReference>, epoch: u64) -> Self {
        Self { file: file.to_owned(), owners, epoch, ..Self::default() }
    }

    /// Reads a ConfigMap. What somebody has broken in it counts as missing: a table is then made anew.
    pub fn read(map: &ConfigMap) -> Self {
        let none = BTreeMap::new();
        let annotations = map.metadata.annotations.as_ref().unwrap_or(&none);
        let get = |key: &str| annotations.get(key).map(String::as_str).unwrap_or_default();
        let digest = |key: &str| get(key).parse::<Digest>().ok();
        let data = map.data.as_ref().unwrap_or(&none);
        let mut binary = map.binary_data.clone().unwrap_or_default();
        let numbering = binary.remove(NUMBERING).map(|bytes| Bytes::from(bytes.0));
        let packed = binary.into_iter().find_map(|(key, bytes)| {
            Some((key.strip_suffix(PACKED)?.to_owned(), Bytes::from(bytes.0)))
        });
        // Keys that somebody has added are none of ours.
        let named = digest(DIGEST);
        let is_named = |text: &str| Some(Digest::of(text.as_bytes())) == named;
        let ours = data.iter().find(|(_, text)| !text.is_empty() && is_named(text));
        let plain = ours.or_else(|| data.iter().next());
        let strange = packed.is_some() && data.values().any(|text| !text.is_empty());
        let (file, content) = match (packed, plain) {
            (_, Some((file, text))) if ours.is_some() => {
                (file.clone(), Content::Text(text.clone()))
            }
            (Some((file, bytes)), _) => (file, Content::Packed(bytes)),
            (None, Some((file, text))) if text.is_empty() => (file.clone(), Content::None),
            (None, Some((file, text))) => (file.clone(), Content::Text(text.clone())),
            (None, None) => (String::new(), Content::None),
        };
        let state = match get(STATE) {
            "published" => State::Published,
            "changing" => State::Changing,
            _ => State::Empty,
        };
        let has_label =
            |key: &str| map.metadata.labels.iter().any(|labels| labels.contains_key(key));
        let labelled = has_label(names::RECORD) && has_label(names::RANK_GROUP);
        let changed = matches!(content, Content::Text(_)) && ours.is_none();
        let generation = get(GENERATION).parse().ok().filter(|number| *number <= LAST_GENERATION);
        Self {
            resource_version: map.metadata.resource_version.clone().unwrap_or_default(),
            uid: map.metadata.uid.clone().unwrap_or_default(),
            state,
            generation: generation.unwrap_or_default(),
            epoch: get(EPOCH).parse().unwrap_or_default(),
            digest: digest(DIGEST),
            members: digest(MEMBERS),
            input: digest(INPUT),
            template: digest(TEMPLATE),
            changed: get(CHANGED).to_owned(),
            file,
            content,
            numbering,
            owners: map.metadata.owner_references.clone().unwrap_or_default(),
            conditions: serde_json::from_str(get(CONDITIONS)).unwrap_or_default(),
            foreign: !has_label(names::RECORD) && !annotations.contains_key(STATE),
            damaged: !labelled || (state == State::Published && (changed || strange)),
        }
    }

    /// The ConfigMap, to be applied. With the resourceVersion that was read, so that nobody else's change is lost.
    pub fn write(&self, key: &GroupKey) -> Value {
        let mut annotations = BTreeMap::from([
            (STATE, self.state.as_str().to_owned()),
            (GENERATION, self.generation.to_string()),
            (EPOCH, self.epoch.to_string()),
            (CONDITIONS, conditions(&self.conditions)),
        ]);
        let digests = [
            (DIGEST, self.digest),
            (MEMBERS, self.members),
            (INPUT, self.input),
            (TEMPLATE, self.template),
        ];
        annotations.extend(
            digests.into_iter().filter_map(|(key, digest)| Some((key, digest?.to_string()))),
        );
        if !self.changed.is_empty() {
            annotations.insert(CHANGED, self.changed.clone());
        }
        let (mut data, mut binary) = (BTreeMap::new(), BTreeMap::new());
        match &self.content {
            Content::Text(text) => drop(data.insert(self.file.clone(), text.clone())),
            Content::Packed(bytes) => {
                binary.insert(format!("{}{PACKED}", self.file), BASE64_STANDARD.encode(bytes));
            }
            Content::None => drop(data.insert(self.file.clone(), String::new())),
        }
        if let Some(numbering) = &self.numbering {
            binary.insert(NUMBERING.to_owned(), BASE64_STANDARD.encode(numbering));
        }
        let mut metadata = json!({
            "name": names::record(&key.name),
            "namespace": key.namespace,
            "labels": { names::RECORD: "true", names::RANK_GROUP: key.name },
            "annotations": annotations,
            "ownerReferences": self.owners,
        });
        if !self.resource_version.is_empty() {
            metadata["resourceVersion"] = json!(self.resource_version);
        }
        let mut map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
        if !binary.is_empty() {
            map["binaryData"] = json!(binary);
        }
        map
    }

    /// The table, unless it is not there or not the one that the digest names.
    pub fn table(&self) -> Option<Vec<u8>> {
        let bytes = match &self.content {
            Content::None => return None,
            Content::Text(text) => text.clone().into_bytes(),
            Content::Packed(packed) => unpack(packed)?,
        };
        (Some(Digest::of(&bytes)) == self.digest).then_some(bytes)
    }

    /// Whether it must be written again for what it should hold: the table that travels in so many bytes. Packed for a
    /// record it has fewer.
    pub fn needs_mending(&self, packed: usize) -> bool {
        let beside = self.numbering.as_ref().map_or(0, Bytes::len);
        let emptied = self.content == Content::None && packed <= LARGEST.saturating_sub(beside);
        self.state == State::Published && (self.damaged || emptied)
    }
}

/// The group that a record belongs to.
pub fn group_of(map: &ConfigMap) -> Option<GroupKey> {
    let name = map.metadata.labels.as_ref()?.get(names::RANK_GROUP)?.clone();
    let key = GroupKey { namespace: map.metadata.namespace.clone()?, name };
    (map.metadata.name.as_ref() == Some(&names::record(&key.name))).then_some(key)
}

/// Conditions as the annotation holds them.
pub fn conditions(conditions: &[Condition]) -> String {
    serde_json::to_string(conditions).unwrap_or_default()
}

/// Small before fast: what is larger than a ConfigMap may be is not kept.
const LEVEL: i32 = 3;

/// At most as much as a table may have.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    unpack_within(packed, usize::try_from(muster_proto::delivery::LARGEST_TABLE).ok()?)
}

fn unpack_within(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    // The size is in the frame, and is not trusted beyond the bound.
    let size = zstd::bulk::Decompressor::upper_bound(packed).unwrap_or(most).min(most);
    zstd::bulk::decompress(packed, size).ok()
}

/// The numbering of 100,000 ranks has less than 400 KB.
const LARGEST_NUMBERING: usize = 4 * 1024 * 1024;

/// The text of a numbering. Anybody may have put anything there.
pub fn unpack_numbering(packed: &Bytes) -> Option<String> {
    String::from_utf8(unpack_within(packed, LARGEST_NUMBERING)?).ok()
}

/// Packs a numbering.
pub fn pack_numbering(text: &str) -> Option<Bytes> {
    zstd::bulk::compress(text.as_bytes(), LEVEL).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests;
