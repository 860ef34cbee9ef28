//! `numa`: zones of a node.

use std::collections::BTreeMap;

use crate::{
    framework::{Plugin, Point},
    input::{Meta, NodeResourceTopology, Pod},
    snapshot::Dimensions,
};

/// Zones of a node.
#[derive(Clone, Debug, Default)]
pub struct Zones {}

impl Zones {
    /// Zones as a node's agent tells them.
    pub fn of(_: &NodeResourceTopology, _: &Dimensions) -> Self {
        Self {}
    }
}

/// Zones that a pod's marks say it has: zone, dimension, amount.
pub fn placement_of(_: &Meta, _: &Dimensions) -> Vec<(usize, usize, f64)> {
    Vec::new()
}

/// What containers of a pod need aligned, and whether their requests are their limits.
pub fn needs_of(_: &Pod, _: &Dimensions) -> (Vec<(bool, Vec<(usize, f64)>)>, bool) {
    (Vec::new(), false)
}

/// Zones of nodes.
pub struct Numa {}

impl Numa {
    /// With `ignoreList` and `reconstructAvailable`.
    pub fn new(_: &BTreeMap<String, String>) -> Self {
        Self {}
    }
}

impl Plugin for Numa {
    fn name(&self) -> &'static str {
        "numa"
    }

    fn points(&self) -> &'static [Point] {
        &[]
    }
}
