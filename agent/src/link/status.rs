//! How the link is, for people and metrics.

use std::fmt::{self, Display};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Serialize;
use tokio::sync::watch;

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

/// Shows the link as metrics.
#[derive(Debug)]
pub struct LinkCollector(pub watch::Receiver<LinkStatus>);

// === impl LinkStatus ===

impl LinkStatus {
    /// Whether the hub has said Welcome.
    pub fn is_connected(&self) -> bool {
        self.state == LinkState::Up
    }
}

impl Display for LinkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            LinkState::Down => "no stream to",
            LinkState::Connecting => "connecting to",
            LinkState::Up => "connected to",
        };
        write!(f, "{state} {}, epoch {}", self.address, self.epoch)?;
        match &self.last_error {
            Some(error) if !self.is_connected() => write!(f, ": {}", error.message),
            _ => Ok(()),
        }
    }
}

// === impl LinkCollector ===

impl Collector for LinkCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.0.borrow().clone();
        let up = ConstGauge::new(i64::from(status.is_connected()));
        let help = "1 while there is a stream to the coordinator";
        up.encode(encoder.encode_descriptor("link_up", help, None, up.metric_type())?)?;
        let epoch = ConstGauge::new(i64::try_from(status.epoch).unwrap_or(i64::MAX));
        let help = "Epoch of the coordinator that leads";
        epoch.encode(encoder.encode_descriptor(
            "link_epoch",
            help,
            None,
            epoch.metric_type(),
        )?)?;
        for (name, help, count) in [
            ("link_connects", "Streams that the coordinator welcomed", status.connects),
            ("link_messages_sent", "Messages to the coordinator", status.sent),
            ("link_messages_received", "Messages of the coordinator", status.received),
            (
                "link_inventories_sent",
                "Whole inventories sent to the coordinator",
                status.inventories_sent,
            ),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}
