//! Topology as a matrix.

mod plain;

pub(crate) use plain::{plain, uncoloured};
