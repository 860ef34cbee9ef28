//! Certificates: made, kept and renewed by the coordinator.
