//! `musterctl`, run on files, on snapshots and on the in-memory API: what it prints and how it ends.
#![allow(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod cluster_file;
mod explain;
mod files;
mod group;
mod names;
mod plan;
mod program;
mod room;
mod shard;
mod simulate;
mod trainjob;
