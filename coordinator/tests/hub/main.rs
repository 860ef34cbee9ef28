//! The hub with real agents' links, over real sockets and TLS.

mod certificate;
mod crowd;
mod link;
mod model;
mod review;
mod trust;
mod world;
