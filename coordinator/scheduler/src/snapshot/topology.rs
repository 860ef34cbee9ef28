//! Topologies: trees of domains whose leaves hold nodes.

use super::NodeId;

/// The nodes, ordered by the levels of a topology.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Name of the Topology object.
    pub name: String,
    /// Labels that make its levels, the coarsest first.
    pub levels: Vec<String>,
    /// Its domains: the root first, parents before children.
    pub domains: Vec<Domain>,
}

/// A domain: nodes that share the values of some levels.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Values of its levels joined by dots; the root has none.
    pub id: String,
    /// 0 is the root, 1 the coarsest level.
    pub depth: usize,
    /// The domain above it.
    pub parent: Option<usize>,
    /// The domains below it, by id.
    pub children: Vec<usize>,
    /// All its nodes, by name.
    pub nodes: Vec<NodeId>,
}

// === impl Topology ===

impl Topology {
    /// How deep a level is: 1 is the coarsest.
    pub fn depth_of(&self, level: &str) -> Option<usize> {
        self.levels.iter().position(|label| label == level).map(|at| at + 1)
    }
}
