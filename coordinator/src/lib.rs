//! The coordinator, as far as it is built: the hub, where every agent's stream ends.

pub mod hub;
