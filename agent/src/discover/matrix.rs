//! Topology as a matrix.
