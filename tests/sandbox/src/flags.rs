//! Values of flags that all programs with a sandbox share.

use std::str::FromStr;

use clap::ValueEnum;

use crate::control::Which;
use crate::hardware::Profile;

/// A controller by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    /// The garbage collector.
    Gc,
    /// Namespaces: their content, service accounts and authorities.
    Namespace,
    /// The controller of Jobs.
    Job,
    /// JobSets, and what JobSet's webhooks do.
    Jobset,
    /// The controller of EndpointSlices.
    Service,
    /// The default scheduler.
    Scheduler,
    /// The controller of PodDisruptionBudgets.
    Disruption,
    /// Pods of lost nodes.
    Pods,
    /// Taints of nodes.
    Nodes,
}

/// Some nodes of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGroup {
    /// The hardware that the nodes have.
    pub profile: Profile,
    /// How many nodes there are.
    pub count: u32,
}

// === impl Controller ===

impl Controller {
    /// Leaves it out.
    pub fn leave_out(self, which: &mut Which) {
        match self {
            Self::Gc => which.gc = false,
            Self::Namespace => which.namespace = false,
            Self::Job => which.job = false,
            Self::Jobset => which.jobset = false,
            Self::Service => which.service = false,
            Self::Scheduler => which.scheduler = false,
            Self::Disruption => which.disruption = false,
            Self::Pods => which.pods = false,
            Self::Nodes => which.nodes = false,
        }
    }
}

// === impl NodeGroup ===

impl FromStr for NodeGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once('=').unwrap_or((text, "1"));
        let profile = name.parse::<Profile>().map_err(|error| error.to_string())?;
        match count.parse() {
            Ok(count @ 1..=5000) => Ok(Self { profile, count }),
            _ => Err(format!("{count:?} is not a number of nodes: give 1 to 5000")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_nodes_is_a_profile_and_perhaps_a_count() {
        let group = |text: &str| text.parse::<NodeGroup>();
        assert_eq!(group("cpu").map(|g| g.count), Ok(1));
        assert_eq!(group("ascend-910b-8=3").map(|g| g.count), Ok(3));
        for wrong in ["", "cpu=", "cpu=0", "cpu=many", "abacus=2"] {
            assert!(group(wrong).is_err(), "{wrong}");
        }
    }
}
