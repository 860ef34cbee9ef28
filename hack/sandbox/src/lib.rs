//! An embedded Kubernetes API with simulated nodes.

pub mod clock;
