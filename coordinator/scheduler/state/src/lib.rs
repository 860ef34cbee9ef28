//! The scheduler at work: what is known of a cluster, what a cycle orders, and what has come of it. No clock, no I/O,
//! no async.
//!
//! ```text
//!   objects as they change ──▶ cluster ──▶ cycle: snapshot, decide ──▶ orders: bind, evict ──▶ (edge) ──▶ API
//!                                ▲  ▲                                                             │
//!                                │  └── in_flight: bindings on their way · nomination: room being made ◀┘ outcomes
//!                                └── the watch confirms · reservation: devices that pods share
//!   faults of devices and nodes ──▶ fault: notes on groups, then evictions
//! ```
//!
//! Start with [`cluster::Cluster`] and [`cycle`].

pub mod cluster;
pub mod cycle;
pub mod evicted;
pub mod fault;
pub mod in_flight;
mod index;
pub mod live;
pub mod names;
pub mod nomination;
pub mod object;
pub mod orders;
pub mod reservation;
mod room;
mod set_aside;
mod sharing;
pub mod status;
pub mod usage;

pub use cluster::{Cluster, Settings};
pub use object::{Kind, Object};
pub use orders::{Bind, Cycle, Evict, Outcome};
pub use reservation::Steps;
