//! What the crate does, part by part.

#[path = "behaviour/config.rs"]
mod config;
#[path = "behaviour/division.rs"]
mod division;
#[path = "behaviour/load.rs"]
mod load;
