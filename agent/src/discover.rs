//! What the node has: sources read, merged, and published when something changed.
//!
//! ```text
//!   files (milliseconds) ──▶ first inventory, not settled ──┐
//!   tools, libraries (slow) ──▶ settled inventory ──────────┼─▶ watch channel, changes only
//!   directories change, slow poll ──▶ again ────────────────┘
//! ```

pub mod ascend;
pub mod matrix;
pub mod net;
pub mod nvidia;
pub mod pci;
pub mod rdma;
pub mod topology;

use muster_proto::device::{Device, Driver, HostAddress, Link, Nic, SuperPod};

use crate::problem::Finding;

/// What one source has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its driver.
    pub drivers: Vec<Driver>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// How devices are joined by the vendor's own links and tools' word; PCI distances are filled in later.
    pub links: Vec<Link>,
    /// The node's place in a super-pod.
    pub super_pod: Option<SuperPod>,
    /// Addresses of the host.
    pub addresses: Vec<HostAddress>,
    /// What was wrong.
    pub findings: Vec<Finding>,
}
