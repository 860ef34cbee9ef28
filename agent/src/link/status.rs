//! How the link is, for people and metrics.

use serde::Serialize;

/// Where the link stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkState {
    /// There is no stream; another try comes soon.
    #[default]
    Down,
    /// A stream is being opened.
    Connecting,
    /// The hub has said Welcome.
    Up,
}

/// How the link is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkStatus {
    /// Where it stands.
    pub state: LinkState,
    /// The highest epoch seen.
    pub epoch: u64,
    /// The hub's address.
    pub address: String,
    /// Since when it stands there, in seconds of the epoch.
    pub since: i64,
    /// What went wrong last, and what kind it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Streams that were welcomed.
    pub connects: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Whole inventories that were sent.
    pub inventories_sent: u64,
    /// Bytes of tables that are held.
    pub held: usize,
}

/// What went wrong last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// What kind, for metrics.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// When, in seconds of the epoch.
    pub at: i64,
}
