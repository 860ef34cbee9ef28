//! An embedded Kubernetes API with simulated nodes.

pub mod builtin;
pub mod clock;
pub mod store;
