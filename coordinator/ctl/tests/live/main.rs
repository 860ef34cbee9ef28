//! What asks a cluster, run on snapshots and on the in-memory API: what it prints and how it ends.
#![allow(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod desk;
mod explain;
mod names;
mod room;
mod shard;
