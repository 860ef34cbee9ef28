//! Volcano's way to say how near pods must be, in the words of a Topology.
//!
//! Tiers are counted from below: tier 1 is the finest level of the topology that is not the node itself. `hard` makes the
//! highest tier allowed the required level, `soft` requires nothing; both prefer tier 1.

use crate::{
    input::{NetworkTopology, PodGroup},
    snapshot::Constraint,
};

use super::Builder;

/// Annotation that says which topology, where there are several.
const TOPOLOGY: &str = "kai.scheduler/topology";
/// The level that is the node itself.
const NODE: &str = "kubernetes.io/hostname";

// === impl Builder ===

impl Builder<'_> {
    /// How near pods of a Volcano group must be.
    pub(super) fn network_constraint(
        &self,
        object: &PodGroup,
        wanted: &NetworkTopology,
    ) -> Option<Constraint> {
        let hard = wanted.mode != "soft";
        let topologies = &self.input.topologies;
        let named = object.metadata.annotations.get(TOPOLOGY);
        let found = match (named, topologies.as_slice()) {
            (Some(name), all) => all.iter().find(|topology| topology.metadata.name == name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(topology) = found else {
            let unknown = || match named {
                Some(name) => name.to_owned(),
                None => format!("of networkTopology (annotate the group with {TOPOLOGY})"),
            };
            return hard.then(|| Constraint {
                topology_name: unknown(),
                topology: None,
                required: None,
                preferred: None,
            });
        };
        let levels = topology.spec.levels.iter().rev().map(|level| level.node_label.as_str());
        let tiers: Vec<&str> = levels.filter(|label| *label != NODE).collect();
        let finest = tiers.first()?;
        let highest = wanted.highest_tier_allowed.map(|tier| (tier as usize).max(1));
        // Above the highest tier there is the cluster: nothing is required.
        let required = match highest {
            Some(tier) => tiers.get(tier - 1),
            None => tiers.last(),
        };
        let name = topology.metadata.name.as_str();
        Some(Constraint {
            topology_name: name.to_owned(),
            topology: self.topology_ids.get(name).copied(),
            required: required.filter(|_| hard).map(|level| (*level).to_owned()),
            preferred: Some((*finest).to_owned()),
        })
    }
}
