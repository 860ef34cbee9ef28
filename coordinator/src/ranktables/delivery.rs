//! Who has the table and who does not: n of m, and when it is late, which node. Pure.

use muster_proto::delivery::Digest;

use super::group::RankGroup;
use super::member::{Home, Member};

/// So many who lack a table are named.
const NAMED: usize = 3;

/// How the delivery of a generation stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// Which.
    pub generation: u64,
    /// Pods that can read it.
    pub there: usize,
    /// Pods that should.
    pub all: usize,
    /// Some of the others, by node: node and reason.
    named: Vec<(String, String)>,
}

impl RankGroup {
    /// How the delivery of this generation stands. A group may have a thousand members, so only a few are named.
    pub fn delivery_status(&self, generation: u64, digest: Digest) -> DeliveryStatus {
        let receivers: Vec<&Member> =
            self.live().filter(|member| member.home != Home::None).collect();
        let mut lacking: Vec<&&Member> =
            receivers.iter().filter(|member| !member.has(generation, digest)).collect();
        let (all, there) = (receivers.len(), receivers.len() - lacking.len());
        let order = |member: &&&Member| (member.pod.node.clone(), member.pod.name.clone());
        if lacking.len() > NAMED {
            lacking.select_nth_unstable_by_key(NAMED, order);
            lacking.truncate(NAMED);
        }
        lacking.sort_by_key(order);
        let named = |member: &&&Member| (member.pod.node.clone(), why(member, generation));
        let named = lacking.iter().map(named).collect();
        DeliveryStatus { generation, there, all, named }
    }
}

fn why(member: &Member, generation: u64) -> String {
    let name = &member.pod.name;
    if matches!(member.home, Home::ConfigMap { .. }) {
        return format!("pod {name} was not told yet");
    }
    match &member.table.refused {
        Some(refusal) if refusal.generation == generation => {
            format!("pod {name}: {} ({})", refusal.message, refusal.reason)
        }
        _ if !member.table.connected => format!("pod {name}: the node's agent has no stream"),
        _ => format!("pod {name}: no word from the agent"),
    }
}

// === impl DeliveryStatus ===

impl DeliveryStatus {
    /// Whether everybody has it.
    pub fn is_complete(&self) -> bool {
        self.there == self.all
    }

    /// For a person: `7 of 8 pods have generation 3`, and who does not.
    pub fn message(&self, named: bool) -> String {
        let there =
            format!("{} of {} pods have generation {}", self.there, self.all, self.generation);
        if !named || self.is_complete() {
            return there;
        }
        let some: Vec<String> =
            self.named.iter().map(|(node, why)| format!("node {node}: {why}")).collect();
        let more = match (self.all - self.there).saturating_sub(self.named.len()) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{there}; late: {}{more}", some.join("; "))
    }
}
