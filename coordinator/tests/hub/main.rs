//! The hub with real agents' links, over real sockets and TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod certificate;
mod certs;
mod cluster;
mod crowd;
mod elect;
mod grouping;
mod lead;
mod limits;
mod link;
mod manual_peer;
mod model;
mod permitted;
mod process;
mod queues;
mod review;
mod rotate;
mod trust;
mod webhook;
mod world;
