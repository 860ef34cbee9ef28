//! What keeps groups waiting, once the actions have ended.

use std::collections::BTreeMap;

use crate::{
    reason::{Reason, Waiting},
    session::Session,
    snapshot::JobId,
};

// === impl Session ===

impl Session<'_> {
    /// What keeps a group waiting, if it waits.
    pub(super) fn waiting(&self, id: JobId) -> Option<Waiting> {
        let job = &self.snapshot.jobs[id];
        let sets = &job.pod_sets;
        let gated: usize = sets.iter().map(|set| self.state.pod_sets[*set].gated).sum();
        let pods = self.state.jobs[id].pending + gated;
        if pods == 0 && job.strays.is_empty() {
            return None;
        }
        let simple = |reason: Reason, message: String| Waiting {
            reason,
            message,
            pods,
            placed: 0,
            needed: 0,
            nodes: BTreeMap::new(),
        };
        let gang = crate::state::Gang::whole(id);
        Some(match (job.queue, self.ledger.refusals.get(&id)) {
            (None, _) => simple(
                Reason::QueueDoesNotExist,
                format!(
                    "queue {} does not exist, or a queue above it: create it, or name another",
                    job.queue_name
                ),
            ),
            (Some(queue), _) if !self.snapshot.queues[queue].is_leaf() => simple(
                Reason::QueueIsNotALeaf,
                format!("queue {} has queues below it: name one of those", job.queue_name),
            ),
            (_, Some(attempt)) => Waiting {
                reason: attempt.refusal.reason,
                message: attempt.refusal.message.clone(),
                pods,
                placed: attempt.placed,
                needed: attempt.needed,
                nodes: attempt.nodes.clone(),
            },
            _ if !self.is_ready(&gang, crate::snapshot::ROOT) => self.not_ready(id, pods),
            _ if pods == 0 => simple(
                Reason::UnknownSubGroup,
                format!("{} pods name a subgroup that does not exist", job.strays.len()),
            ),
            _ => simple(
                Reason::NoRoom,
                "it was not tried: the queue's depth for this cycle is used up".to_owned(),
            ),
        })
    }

    fn not_ready(&self, id: JobId, pods: usize) -> Waiting {
        let job = &self.snapshot.jobs[id];
        let mut missing = Vec::new();
        for set in &job.pod_sets {
            let (spec, count) = (&self.snapshot.pod_sets[*set], self.state.pod_sets[*set]);
            let ready = count.alive.saturating_sub(count.gated);
            if ready < spec.min as usize {
                // KAI's users look for these words. A group of one part is that part, which older releases of KAI do not name.
                let (of, end) = match job.pod_sets.len() == 1 {
                    true => (String::new(), ""),
                    false => (format!(" for SubGroup {}", spec.name), "."),
                };
                missing.push(format!(
                    " Waiting for {} pods{of}, currently {} exist, {} are gated{end}",
                    spec.min, count.alive, count.gated
                ));
            }
        }
        let impossible = job.members.iter().any(|member| match &member.kind {
            crate::snapshot::MemberKind::Set { min: Some(min), children } => {
                *min as usize > children.len()
            }
            _ => false,
        });
        let (reason, message) = if impossible {
            let message =
                "minSubGroup asks for more subgroups than there are: lower it, or add subgroups";
            (Reason::ImpossibleSubGroups, message.to_owned())
        } else {
            let missing = missing.concat();
            (Reason::NotEnoughPods, format!("Job is not ready for scheduling.{missing}"))
        };
        let needed = job.pod_sets.iter().map(|set| self.snapshot.pod_sets[*set].min as usize).sum();
        Waiting { reason, message, pods, placed: 0, needed, nodes: BTreeMap::new() }
    }
}
