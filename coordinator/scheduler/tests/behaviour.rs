//! What the crate does, part by part.

#[path = "behaviour/load.rs"]
mod load;
