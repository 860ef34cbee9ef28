//! `sg-nodelocalgreedy` and `sg-multinodegang`: ways in which victims are searched, in the order in which they are
//! configured.

use crate::framework::{Generator, Plugin, Point};

/// Victims of one node.
pub struct NodeLocal;

/// Victims of several nodes.
pub struct MultiNode;

impl Plugin for NodeLocal {
    fn name(&self) -> &'static str {
        "sg-nodelocalgreedy"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::ScenarioGenerator]
    }

    fn generator(&self) -> Option<Generator> {
        Some(Generator::NodeLocalGreedy)
    }
}

impl Plugin for MultiNode {
    fn name(&self) -> &'static str {
        "sg-multinodegang"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::ScenarioGenerator]
    }

    fn generator(&self) -> Option<Generator> {
        Some(Generator::MultiNodeGang)
    }
}
