//! Which coordinator leads.

pub mod fence;

pub use fence::{Deposed, Fence};

/// Whether this coordinator leads.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It does, as long as the fence stands.
    Leading(Fence),
    /// It does not; this is where the leader's hub is, if one is known: `https://host:port`.
    Standby {
        /// The address.
        leader: Option<String>,
    },
}
