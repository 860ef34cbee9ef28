//! `proportion`: fair share, quotas, limits, the order of queues, and who may reclaim from whom.
//!
//! Each queue has a quota of its own ([`QueueShare::deserved`]) and a part of what nobody owns or uses; both make its
//! fair share, fixed when the cycle begins. What it has changes with every place that a pod gets or loses.

mod capacity;
pub mod division;
mod impossible;
mod promised;
mod queue_order;
mod reclaim;

use std::{cmp::Ordering, collections::BTreeMap};

pub use self::{impossible::jobs as impossible_jobs, promised::over_capacity};

use crate::{
    framework::{Plugin, Point, QueueSide, Scenario, View},
    reason::{NodeRefusal, Refusal},
    snapshot::{
        FIRST_KIND, GpuKind, Id, JobId, NOTHING, NodeId, Quantities, QueueId, Snapshot, Status,
        Table, TaskId, minus, plus,
    },
    state::Gang,
};

/// An unlimited amount.
pub const UNLIMITED: f64 = -1.0;

/// What a queue has, may have and should have: CPU, memory, accelerators of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueShare {
    /// What is its own.
    pub deserved: Quantities,
    /// What it cannot go above.
    pub limit: Quantities,
    /// What it should have when all ask for all they ask for now.
    pub fair: Quantities,
    /// What its pods have.
    pub allocated: Quantities,
    /// Of that, what pods have that nobody can preempt.
    pub fixed: Quantities,
    /// What pods still have whose eviction is ordered and not confirmed. It counts against the limit alone: the
    /// eviction may be refused, and then the queue has it as before.
    pub evicting: Quantities,
    /// What its pods ask for.
    pub request: Quantities,
}

/// Fair share, quotas, limits and the order of queues.
pub struct Proportion {
    k: f64,
    saturation: f64,
    total: Quantities,
    queues: Table<QueueId, QueueShare>,
    /// The queues as they were when the search for victims began.
    before: Table<QueueId, QueueShare>,
}

// === impl QueueShare ===

impl QueueShare {
    /// What counts against its limit.
    fn held(&self) -> Quantities {
        plus(self.allocated, self.evicting)
    }

    /// What it may have before others may take it back.
    pub fn allocatable(&self) -> Quantities {
        let mut out = NOTHING;
        let parts = self.deserved.iter().zip(&self.limit).zip(&self.fair);
        for (place, ((deserved, limit), fair)) in out.iter_mut().zip(parts) {
            *place = if *deserved == UNLIMITED {
                *limit
            } else if *limit == UNLIMITED {
                deserved.max(*fair)
            } else {
                limit.min(deserved.max(*fair))
            };
        }
        out
    }
}

/// Which of two amounts is larger, where -1 is the largest.
pub(crate) fn compare(a: f64, b: f64) -> Ordering {
    match (a == UNLIMITED, b == UNLIMITED) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}

/// A queue and all above it.
fn ancestors(snapshot: &Snapshot, queue: Option<QueueId>) -> impl Iterator<Item = QueueId> {
    std::iter::successors(queue, move |queue| snapshot.queues[*queue].parent)
}

/// Whether each amount is at most the other.
pub(crate) fn within(a: Quantities, b: Quantities) -> bool {
    a.iter().zip(&b).all(|(a, b)| compare(*a, *b).is_le())
}

/// Whether each amount that decides about a request is at most the other: what a queue has of kinds of accelerators
/// that nobody asks for here does not matter.
fn within_for(request: &Quantities, view: View<'_>, a: Quantities, b: Quantities) -> bool {
    let deciding = view.snapshot.dimensions.deciding(request);
    let mut rows = a.iter().zip(&b).zip(deciding);
    rows.all(|((a, b), decides)| !decides || compare(*a, *b).is_le())
}

// === impl Proportion ===

impl Proportion {
    /// With `kValue` and `relcaimerSaturationMultiplier` (as the original spells it).
    pub fn new(arguments: &BTreeMap<String, String>) -> Self {
        let read = |name: &str| arguments.get(name).and_then(|text| text.parse::<f64>().ok());
        Self {
            k: read("kValue").unwrap_or(1.0).max(0.0),
            saturation: read("relcaimerSaturationMultiplier")
                .or_else(|| read("reclaimerUtilizationMultiplier"))
                .unwrap_or(1.0)
                .max(1.0),
            total: NOTHING,
            queues: Table::default(),
            before: Table::default(),
        }
    }

    /// A queue and all above it.
    fn up(view: View<'_>, queue: Option<QueueId>) -> impl Iterator<Item = QueueId> {
        ancestors(view.snapshot, queue)
    }

    fn total(view: View<'_>) -> Quantities {
        let snapshot = view.snapshot;
        let mut total = NOTHING;
        for (id, node) in snapshot.nodes.entries().filter(|(_, node)| node.ready) {
            let mut has = snapshot.dimensions.quantities(&node.allocatable);
            if snapshot.parameters.restrict_scheduling_nodes && !node.gpu_worker {
                has.iter_mut().skip(FIRST_KIND).for_each(|amount| *amount = 0.0);
            }
            for pod in &view.state.nodes[id].pods {
                let task = &snapshot.tasks[pod.task];
                if task.foreign && !task.utility && pod.status.is_used() {
                    has = minus(has, snapshot.classes[task.class].quantities);
                }
            }
            total = plus(total, has);
        }
        total
    }

    fn count(&mut self, view: View<'_>) {
        let snapshot = view.snapshot;
        let impossible = impossible::jobs(snapshot);
        for (id, task) in snapshot.tasks.entries() {
            let (Some(group), Some(_)) = (task.job, task.pod_set) else { continue };
            let (job, state) = (&snapshot.jobs[group], &view.state.tasks[id]);
            let class = &snapshot.classes[task.class];
            let (amount, has) = match state.status {
                // A place that was promised in an earlier cycle weighs what it will weigh when it is taken.
                status if status.is_active() => (state.accepted, true),
                Status::Releasing if task.eviction_ordered => {
                    for queue in Self::up(view, job.queue) {
                        let share = &mut self.queues[queue];
                        share.evicting = plus(share.evicting, state.accepted);
                    }
                    continue;
                }
                // What can never run asks for nothing that others could have.
                Status::Pending if impossible.contains(&group) => continue,
                Status::Pending => {
                    let asked = match (class.gpu.kind, snapshot.min_gpu_memory) {
                        (GpuKind::Memory, Some(of)) => {
                            snapshot.dimensions.with_gpus(class.quantities, |gpus| {
                                gpus + class.gpu.memory_fraction(of)
                            })
                        }
                        _ => class.quantities,
                    };
                    (asked, false)
                }
                _ => continue,
            };
            for queue in Self::up(view, job.queue) {
                let share = &mut self.queues[queue];
                share.request = plus(share.request, amount);
                if has {
                    share.allocated = plus(share.allocated, amount);
                    if !job.preemptible {
                        share.fixed = plus(share.fixed, amount);
                    }
                }
            }
        }
    }

    fn divide(&mut self, view: View<'_>) {
        let claimants: Vec<division::Claimant<'_, { NOTHING.len() }>> = view
            .snapshot
            .queues
            .entries()
            .map(|(id, queue)| division::Claimant {
                name: &queue.name,
                parent: queue.parent.map(Id::row),
                created: queue.created,
                priority: queue.priority,
                deserved: queue.deserved,
                limit: queue.limit,
                weight: queue.weight,
                request: self.queues[id].request,
                usage: queue.usage,
            })
            .collect();
        let shares = division::divide(&claimants, self.total, self.k);
        for (row, share) in shares.into_iter().enumerate() {
            self.queues[QueueId::of(row)].fair = share;
        }
    }

    fn shift(&mut self, view: View<'_>, task: TaskId, sign: f64) {
        let Some(job) = view.snapshot.tasks[task].job else { return };
        let job = &view.snapshot.jobs[job];
        let by = view.state.tasks[task].accepted.map(|amount| amount * sign);
        for queue in Self::up(view, job.queue) {
            let share = &mut self.queues[queue];
            share.allocated = plus(share.allocated, by);
            if !job.preemptible {
                share.fixed = plus(share.fixed, by);
            }
        }
    }
}

impl Plugin for Proportion {
    fn name(&self) -> &'static str {
        "proportion"
    }

    fn points(&self) -> &'static [Point] {
        &[
            Point::QueueOrder,
            Point::CanReclaim,
            Point::ReclaimVictimFilter,
            Point::ReclaimScenarioValidator,
            Point::JobSolutionStart,
            Point::NonPreemptibleOverQuota,
            Point::JobOverCapacity,
            Point::TaskOverCapacity,
            Point::Event,
            Point::QueueResources,
        ]
    }

    fn open(&mut self, view: View<'_>) {
        self.total = Self::total(view);
        let share = |queue: &crate::snapshot::Queue| QueueShare {
            deserved: queue.deserved,
            limit: queue.limit,
            ..QueueShare::default()
        };
        self.queues = view.snapshot.queues.iter().map(share).collect();
        self.count(view);
        self.divide(view);
        self.before = self.queues.clone();
    }

    fn queue_order(&self, view: View<'_>, left: QueueSide, right: QueueSide) -> Ordering {
        queue_order::order(view, &self.queues, self.total, left, right)
    }

    fn job_solution_start(&mut self, _: View<'_>) {
        self.before = self.queues.clone();
    }

    fn can_reclaim(&self, view: View<'_>, gang: &Gang, request: Quantities) -> bool {
        reclaim::can(view, &self.queues, gang, request)
    }

    fn reclaim_victim(
        &self,
        view: View<'_>,
        pending: &Gang,
        request: Quantities,
        victim: JobId,
    ) -> bool {
        reclaim::may_lose(view, &self.queues, pending, request, victim)
    }

    fn reclaim_victim_is_by_queue(&self) -> bool {
        true
    }

    fn reclaim_scenario(&self, view: View<'_>, scenario: &Scenario<'_>) -> bool {
        reclaim::is_lawful(view, &self.before, self.saturation, scenario)
    }

    fn job_over_capacity(
        &self,
        view: View<'_>,
        gang: &Gang,
        tasks: &[TaskId],
    ) -> Result<(), Refusal> {
        capacity::job(view, &self.queues, gang.job, tasks, true)
    }

    fn non_preemptible_over_quota(
        &self,
        view: View<'_>,
        gang: &Gang,
        tasks: &[TaskId],
    ) -> Result<(), Refusal> {
        capacity::job(view, &self.queues, gang.job, tasks, false)
    }

    fn task_over_capacity(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<(), NodeRefusal> {
        capacity::task(view, &self.queues, task, node)
    }

    fn allocated(&mut self, view: View<'_>, task: TaskId) {
        self.shift(view, task, 1.0);
    }

    fn deallocated(&mut self, view: View<'_>, task: TaskId) {
        self.shift(view, task, -1.0);
    }

    fn queue_allocated(&self, queue: QueueId) -> Option<Quantities> {
        self.queues.get(queue).map(|share| share.allocated)
    }

    fn queue_deserved(&self, queue: QueueId) -> Option<Quantities> {
        self.queues.get(queue).map(|share| share.deserved)
    }

    fn queue_fair_share(&self, queue: QueueId) -> Option<Quantities> {
        self.queues.get(queue).map(|share| share.fair)
    }
}
