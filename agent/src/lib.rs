//! The node agent: finds devices, tells pods what they hold, delivers rank tables.
//!
//! Data moves one way, from device to file:
//!
//! ```text
//!   discover ──▶ Inventory ─┬───────────────▶ link ──▶ coordinator
//!   kubelet  ──▶ PodDevices ┤                  │
//!   pods     ──▶ names, uids┴─▶ annotate       ▼
//!                                            deliver ──▶ file in the pod's volume ──▶ wait
//! ```
//!
//! It runs as root on every node, so it trusts nothing: files, tools, sockets and the coordinator are bounded in size
//! and time, and one that misbehaves becomes a [`problem`], not a crash. Everything below `host` is a directory tree,
//! so that tests, simulated nodes and bug reports use the same code as a machine.

pub mod annotate;
pub mod args;
pub mod deliver;
pub mod directories;
pub mod discover;
pub mod host;
pub mod kubelet;
pub mod link;
pub mod names;
pub mod pods;
pub mod print;
pub mod problem;
pub mod run;
pub mod server_id;
pub mod status;
pub mod tool;
pub mod wait;
