//! Limits and quotas, from a queue to the top: nothing above the limit, and nothing above the quota that nobody can
//! preempt.

use crate::{
    framework::View,
    reason::{NodeRefusal, Reason, Refusal},
    snapshot::{
        FIRST_KIND, GpuKind, JobId, NOTHING, NodeId, Quantities, QueueId, Snapshot, Table, TaskId,
        ceil2, plus,
    },
    state::memory_of,
};

use super::{Proportion, QueueShare, UNLIMITED, ancestors};

/// What queues share, as messages call it; kinds of accelerators by their names where there are several.
const NAMES: [&str; 3] = ["CPU (thousandths)", "memory (bytes)", "accelerators"];

/// Whether queues have room for pods. Memory of devices counts by the largest device: what is too much then is too
/// much anywhere.
pub(super) fn job(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    job: JobId,
    tasks: &[TaskId],
    limits: bool,
) -> Result<(), Refusal> {
    let snapshot = view.snapshot;
    let mut asked = NOTHING;
    for task in tasks {
        let class = &snapshot.classes[snapshot.tasks[*task].class];
        let amount = if class.gpu.kind == GpuKind::Memory {
            let gpus = snapshot.max_gpu_memory.map_or(0.0, |of| class.gpu.memory_fraction(of));
            snapshot.dimensions.with_gpus(class.quantities, |_| gpus)
        } else {
            class.quantities
        };
        asked = plus(asked, amount);
    }
    check(snapshot, queues, job, asked, limits)
}

/// The same for one pod on one node, whose devices say what memory of them is.
pub(super) fn task(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    task: TaskId,
    node: NodeId,
) -> Result<(), NodeRefusal> {
    let snapshot = view.snapshot;
    let spec = &snapshot.tasks[task];
    let Some(job) = spec.job else { return Ok(()) };
    let class = &snapshot.classes[spec.class];
    let node = &snapshot.nodes[node];
    let asked = snapshot.dimensions.with_gpus(class.quantities, |accelerators| {
        if class.gpu.is_shared() {
            let of = node.gpu_memory.max(1) as f64;
            class.gpu.count as f64 * ceil2(memory_of(&class.gpu, node) as f64 / of)
        } else {
            accelerators - class.gpu.claimed as f64
        }
    });
    fits(view, queues, job, asked).map_err(|_| NodeRefusal::OverCapacity)
}

fn fits(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    job: JobId,
    asked: Quantities,
) -> Result<(), ()> {
    let spec = &view.snapshot.jobs[job];
    for queue in Proportion::up(view, spec.queue) {
        let share = &queues[queue];
        if over(share.limit, share.held(), asked).is_some()
            || (!spec.preemptible && over(share.deserved, share.fixed, asked).is_some())
        {
            return Err(());
        }
    }
    Ok(())
}

pub(super) fn check(
    snapshot: &Snapshot,
    queues: &Table<QueueId, QueueShare>,
    job: JobId,
    asked: Quantities,
    limits: bool,
) -> Result<(), Refusal> {
    let spec = &snapshot.jobs[job];
    let name = |queue: QueueId| snapshot.queues[queue].name.as_str();
    if limits {
        for queue in ancestors(snapshot, spec.queue) {
            let share = &queues[queue];
            if let Some((at, limit, has, asks)) = over(share.limit, share.held(), asked) {
                let what = what(snapshot, at);
                let message = format!(
                    "queue {} may have {limit} {what} and has {has}; it asks for {asks}: raise the limit, or wait",
                    name(queue)
                );
                return Err(Refusal::new(Reason::OverLimit, message));
            }
        }
    }
    if spec.preemptible {
        return Ok(());
    }
    for queue in ancestors(snapshot, spec.queue) {
        let share = &queues[queue];
        if let Some((at, quota, has, asks)) = over(share.deserved, share.fixed, asked) {
            let what = what(snapshot, at);
            let message = format!(
                "queue {} owns {quota} {what}, of which pods that cannot be preempted have {has}; it asks for {asks} \
                 and cannot be preempted either: raise the quota, make it preemptible, or wait",
                name(queue)
            );
            return Err(Refusal::new(Reason::NonPreemptibleOverQuota, message));
        }
    }
    Ok(())
}

/// What messages call one of the things that queues share.
fn what(snapshot: &Snapshot, at: usize) -> &str {
    let kinds = snapshot.dimensions.kinds();
    let kind = at.checked_sub(FIRST_KIND).filter(|_| kinds.len() > 1).and_then(|at| kinds.get(at));
    kind.map_or_else(|| NAMES.get(at).copied().unwrap_or_default(), String::as_str)
}

/// The first thing of which there would be too much: where it is among those that queues share, the bound, what there
/// is, what is asked.
fn over(bound: Quantities, has: Quantities, asked: Quantities) -> Option<(usize, f64, f64, f64)> {
    let rows = bound.into_iter().zip(has).zip(asked).enumerate();
    rows.map(|(at, ((bound, has), asked))| (at, bound, has, asked))
        .find(|(_, bound, has, asked)| *bound != UNLIMITED && *asked != 0.0 && *bound < has + asked)
}
