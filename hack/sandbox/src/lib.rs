//! An embedded Kubernetes API with simulated nodes.

pub mod clock;

pub mod hardware;
pub mod kubelet;
