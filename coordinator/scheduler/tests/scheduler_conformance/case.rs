//! Recorded cases: what went in, and what came out.

use std::collections::BTreeMap;

use muster_conformance::Recordings;
use muster_scheduler::input::{Document, Limits, load};
use serde::Deserialize;

/// A recorded case.
pub struct Case {
    /// Its file, without folder and ending.
    pub name: String,
    /// What went in.
    pub document: Document,
    /// What came out.
    pub recorded: Recorded,
}

/// What came out, as far as the file says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// Only in `random/`: whose output counts.
    #[serde(default)]
    pub target: String,
    /// Only in `scenarios/`.
    pub expect: Option<Expect>,
    /// Of v0.12.0 in `random/`, of v0.17 in `newest/`.
    pub output: Option<Output>,
    /// Of v0.17 in `random/`.
    pub output_newest: Option<Output>,
}

/// What pods are when the actions have ended.
#[derive(Deserialize)]
pub struct Expect {
    /// By `namespace/name`.
    pub pods: BTreeMap<String, Pod>,
}

/// What a pod is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Its status.
    pub status: String,
    /// Its node.
    #[serde(default)]
    pub node: String,
    /// Whether the node must be the same.
    #[serde(default)]
    pub node_asserted: bool,
}

/// What a scheduler has decided.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Pod, action and node.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// By queue.
    #[serde(default)]
    pub fair_share: BTreeMap<String, Share>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Decision {
    /// `namespace/name`.
    pub pod: String,
    /// `bind`, `evict` or `pipeline`.
    pub action: String,
    /// The node.
    #[serde(default)]
    pub node: String,
}

/// A fair share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Devices.
    pub gpu: f64,
    /// Thousandths of processors.
    pub cpu: f64,
    /// Bytes.
    pub memory: f64,
}

/// The cases of a folder, by file name.
pub fn cases(recordings: &Recordings, folder: &str) -> Vec<Case> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let read = |path: &str| {
        let name = path.trim_start_matches(folder).trim_matches('/').trim_end_matches(".json");
        name.contains(&only).then(|| read(recordings.bytes(path), name.to_owned()))
    };
    recordings.files(folder).filter_map(read).collect()
}

fn read(bytes: &[u8], name: String) -> Case {
    let document = load(bytes, Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(document.input.set_aside.is_empty(), "{name}: {:?}", document.input.set_aside);
    let recorded = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    Case { name, document, recorded }
}
