//! Why evictions are lawful.

use crate::{
    decisions::Cause,
    session::Session,
    snapshot::{FIRST_KIND, JobId, NOTHING, Quantities, TaskId},
};

// === impl Session ===

impl Session<'_> {
    /// Accelerators, by kind where there are several.
    fn devices_text(&self, of: &Quantities) -> String {
        let kinds = self.snapshot.dimensions.kinds();
        let amounts = of.iter().skip(FIRST_KIND).zip(kinds);
        let texts: Vec<String> = match kinds {
            [_] => amounts.map(|(amount, _)| format!("{amount} accelerators")).collect(),
            _ => amounts.map(|(amount, kind)| format!("{amount} {kind}")).collect(),
        };
        texts.join(", ")
    }

    /// Why a pod may lose its place.
    pub(crate) fn why_lawful(&self, task: TaskId, cause: &Cause) -> String {
        let queue_of = |job: JobId| self.snapshot.jobs[job].queue;
        let victim = self.snapshot.tasks[task].job;
        let name = |queue| self.snapshot.queues[queue].name.as_str();
        match (cause.action, victim, cause.beneficiary) {
            ("reclaim", Some(victim), Some(winner)) => {
                let (Some(from), Some(to)) = (queue_of(victim), queue_of(winner)) else {
                    return String::new();
                };
                let amounts = |queue| {
                    let text = |quantities: Option<Quantities>| {
                        let quantities = quantities.unwrap_or(NOTHING);
                        let [cpu, memory, ..] = quantities;
                        let devices = self.devices_text(&quantities);
                        format!("{devices}, {cpu}m CPU, {memory} bytes")
                    };
                    format!(
                        "has {}, quota {}, fair share {}",
                        text(self.queue_allocated(queue)),
                        text(self.queue_deserved(queue)),
                        text(self.fair_share(queue))
                    )
                };
                format!(
                    "queue {} is above its share for queue {}: {} {}; {} {}",
                    name(from),
                    name(to),
                    name(from),
                    amounts(from),
                    name(to),
                    amounts(to)
                )
            }
            ("preempt", Some(victim), Some(winner)) => {
                let (low, high) = (&self.snapshot.jobs[victim], &self.snapshot.jobs[winner]);
                format!(
                    "priority {} gives way to {} in queue {}",
                    low.priority, high.priority, high.queue_name
                )
            }
            ("consolidation", ..) => "it has another place, and the move makes room".to_owned(),
            (_, Some(victim), _) => {
                let needs: Vec<String> = self.snapshot.jobs[victim]
                    .pod_sets
                    .iter()
                    .map(|set| {
                        let spec = &self.snapshot.pod_sets[*set];
                        format!(
                            "{} of {} in {}",
                            self.state.pod_sets[*set].used, spec.min, spec.name
                        )
                    })
                    .collect();
                format!(
                    "its group has run with too few pods for longer than its grace: {}",
                    needs.join(", ")
                )
            }
            _ => String::new(),
        }
    }
}
