//! Which coordinator leads.
//!
//! ```text
//!   API server: one Lease ──look──▶ candidate (pure: what now?) ──write, by resourceVersion──▶ the Lease
//!                                       │
//!                                    elector ──▶ Leadership: Leading(Fence) or Standby
//! ```
//!
//! Nobody's clock is trusted but one's own, and of that only how much time has passed. A lease is over when *we* have
//! not seen it change for as long as it lasts. A leader stops earlier than that: its fence stands for two thirds of the
//! lease, counted from before the last renewal was sent. So the fence is down before anybody else may lead, whether
//! or not the leader can still hear of it.
//!
//! Start reading at [`candidate`].

use std::time::Duration;

pub mod candidate;
pub mod elector;
pub mod fence;
pub mod metrics;
pub mod record;

pub use elector::Elector;
pub use fence::{Fence, NotLeader};
pub use metrics::Metrics;

use crate::names;

/// The longest lease that is made or believed. A longer one, written by hand, must not stop everything.
pub const LONGEST: Duration = Duration::from_secs(60);

/// The shortest lease that is made.
pub const SHORTEST: Duration = Duration::from_millis(500);

/// Whether this coordinator leads.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// It does, as long as the fence stands.
    Leading(Fence),
    /// It does not; this is where the leader's hub is, if one is known: `https://host:port`.
    Standby {
        /// The address.
        leader: Option<String>,
    },
}

/// How a coordinator takes part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; no other process may ever have the same. See [`identity`].
    pub identity: String,
    /// Where our hub is: `https://host:port`.
    pub address: String,
    /// How long others wait for a leader that has gone silent; kept between [`SHORTEST`] and [`LONGEST`].
    pub lease: Duration,
}

/// A name for this process that no other has, not even the next one on the same host.
pub fn identity(host: &str) -> String {
    format!("{host}_{}", uuid::Uuid::new_v4())
}

// === impl Settings ===

impl Settings {
    /// The usual Lease, for 15 seconds.
    pub fn new(
        namespace: impl Into<String>,
        identity: impl Into<String>,
        address: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: names::LEASE.to_owned(),
            identity: identity.into(),
            address: address.into(),
            lease: Duration::from_secs(15),
        }
    }
}
