//! An embedded Kubernetes API with simulated nodes.

pub mod admit;
pub mod auth;
pub mod clock;
pub mod store;
