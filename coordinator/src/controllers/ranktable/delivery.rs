//! Who has the table and who does not: n of m, and when it is late, which node. Pure.

use muster_proto::delivery::Digest;

use super::group::Group;
use super::member::{Home, Member};

/// How the delivery of a generation stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Pods that can read it.
    pub there: usize,
    /// Pods that should.
    pub all: usize,
    /// The others: node and reason, by node.
    pub lacking: Vec<(String, String)>,
}

impl Group {
    /// How the delivery of this generation stands.
    pub fn delivery(&self, generation: u64, digest: Digest) -> Standing {
        let mut standing = Standing::default();
        for member in self.live().filter(|member| member.home != Home::None) {
            standing.all += 1;
            match member.has(generation, digest) {
                true => standing.there += 1,
                false => standing.lacking.push((member.pod.node.clone(), why(member, generation))),
            }
        }
        standing.lacking.sort();
        standing
    }
}

fn why(member: &Member, generation: u64) -> String {
    let name = &member.pod.name;
    if matches!(member.home, Home::ConfigMap { .. }) {
        return format!("pod {name} was not told yet");
    }
    match &member.seat.refused {
        Some(refusal) if refusal.generation == generation => {
            format!("pod {name}: {} ({})", refusal.message, refusal.reason)
        }
        _ if !member.seat.linked => format!("pod {name}: the node's agent has no stream"),
        _ => format!("pod {name}: no word from the agent"),
    }
}

// === impl Standing ===

impl Standing {
    /// Whether everybody has it.
    pub fn is_complete(&self) -> bool {
        self.there == self.all
    }

    /// For a person: `7 of 8 pods have generation 3`, and who does not.
    pub fn message(&self, generation: u64, named: bool) -> String {
        let told = format!("{} of {} pods have generation {generation}", self.there, self.all);
        if !named || self.lacking.is_empty() {
            return told;
        }
        let most = 3;
        let some: Vec<String> = self
            .lacking
            .iter()
            .take(most)
            .map(|(node, why)| format!("node {node}: {why}"))
            .collect();
        let more = match self.lacking.len().saturating_sub(most) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{told}; late: {}{more}", some.join("; "))
    }
}
