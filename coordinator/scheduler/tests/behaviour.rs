//! What the crate does, part by part.

#[path = "behaviour/config.rs"]
mod config;
#[path = "behaviour/load.rs"]
mod load;
