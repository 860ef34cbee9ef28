//! One cycle: the cluster, what has been decided so far, and the plugins that are asked.

mod chunk;
mod index;
mod order;
mod placement;
mod queue_heap;

use std::{cell::RefCell, cmp::Ordering, collections::BTreeMap, rc::Rc};

use crate::{
    config::Config,
    decisions::Ledger,
    framework::{Generator, NodeSet, Plugin, Point, QueueSide, Registry, Scenario, Subset, View},
    reason::Refusal,
    snapshot::{JobId, Quantities, QueueId, Snapshot, TaskId},
    state::{Gang, State},
};

pub use self::order::{JobOrder, OrderOptions};

/// The state of one scheduling cycle.
pub struct Session<'s> {
    /// The cluster as it was.
    pub snapshot: &'s Snapshot,
    /// How the scheduler is set up.
    pub config: &'s Config,
    /// What has changed.
    pub state: State,
    /// What has been decided, and why.
    pub ledger: Ledger,
    plugins: Vec<Box<dyn Plugin>>,
    points: Vec<Vec<usize>>,
    indices: index::Indices,
    chunks: RefCell<Vec<Option<Chunk>>>,
}

/// What a group would place next, as long as none of its pods changes.
#[derive(Clone)]
struct Chunk {
    version: u64,
    real: bool,
    tasks: Rc<[TaskId]>,
    request: Quantities,
}

// === impl Session ===

impl<'s> Session<'s> {
    /// Begins a cycle.
    pub fn open(snapshot: &'s Snapshot, config: &'s Config, registry: &Registry) -> Self {
        let mut session = Self {
            snapshot,
            config,
            state: State::new(snapshot),
            ledger: Ledger::default(),
            plugins: Vec::new(),
            points: vec![Vec::new(); Point::COUNT],
            indices: index::Indices::new(snapshot),
            chunks: RefCell::new(vec![None; snapshot.jobs.len()]),
        };
        for option in &config.plugins {
            let Some(mut plugin) = registry.make(&option.name, &option.arguments) else { continue };
            plugin.open(View { snapshot, state: &session.state, config });
            for point in plugin.points() {
                if let Some(list) = session.points.get_mut(*point as usize) {
                    list.push(session.plugins.len());
                }
            }
            session.plugins.push(plugin);
        }
        session.order_tasks();
        session
    }

    /// Ends a cycle.
    pub fn close(&mut self) {
        let view = View { snapshot: self.snapshot, state: &self.state, config: self.config };
        for plugin in &mut self.plugins {
            plugin.close(view);
        }
    }

    /// What plugins see.
    pub fn view(&self) -> View<'_> {
        View { snapshot: self.snapshot, state: &self.state, config: self.config }
    }

    /// Plugins that are asked at a point, in order.
    pub fn at(&self, point: Point) -> impl Iterator<Item = &dyn Plugin> {
        self.points
            .get(point as usize)
            .into_iter()
            .flatten()
            .filter_map(|at| self.plugins.get(*at))
            .map(|plugin| plugin.as_ref())
    }

    /// Tells all plugins of a point something that may change them.
    fn tell(&mut self, point: Point, mut say: impl FnMut(&mut dyn Plugin, View<'_>)) {
        let view = View { snapshot: self.snapshot, state: &self.state, config: self.config };
        for at in self.points.get(point as usize).into_iter().flatten() {
            if let Some(plugin) = self.plugins.get_mut(*at) {
                say(plugin.as_mut(), view);
            }
        }
    }

    fn order_tasks(&mut self) {
        for set in self.snapshot.pod_sets.ids() {
            let mut tasks: Vec<TaskId> = self.snapshot.pod_sets[set].tasks.clone();
            let view = self.view();
            tasks.sort_by(|left, right| {
                self.at(Point::TaskOrder)
                    .map(|plugin| plugin.task_order(view, *left, *right))
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| {
                        self.snapshot.tasks[*left].by_age(&self.snapshot.tasks[*right])
                    })
            });
            self.state.ordered[set] = tasks.into();
        }
    }

    /// Which of two groups is first.
    pub fn job_order(&self, left: &Gang, right: &Gang) -> Ordering {
        let (l, r) = (&self.snapshot.jobs[left.job], &self.snapshot.jobs[right.job]);
        self.at(Point::JobOrder)
            .map(|plugin| plugin.job_order(self.view(), left, right))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| l.created.cmp(&r.created).then(left.job.cmp(&right.job)))
    }

    /// Whether the left of two queues is first.
    pub fn queue_is_first(&self, left: QueueSide, right: QueueSide) -> bool {
        let (l, r) = (&self.snapshot.queues[left.queue], &self.snapshot.queues[right.queue]);
        self.at(Point::QueueOrder)
            .map(|plugin| plugin.queue_order(self.view(), left, right))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| l.created.cmp(&r.created).then(left.queue.cmp(&right.queue)))
            .is_lt()
    }

    /// Whether a group may take from other queues.
    pub fn can_reclaim(&self, gang: &Gang) -> bool {
        let request = self.request(gang);
        self.at(Point::CanReclaim)
            .next()
            .is_some_and(|plugin| plugin.can_reclaim(self.view(), gang, request))
    }

    /// Those of some groups that may lose pods to a group of another queue.
    pub fn reclaim_victims(
        &self,
        pending: &Gang,
        victims: impl Iterator<Item = JobId>,
    ) -> Vec<JobId> {
        let request = self.request(pending);
        let view = self.view();
        let mut queues: BTreeMap<Option<QueueId>, bool> = BTreeMap::new();
        let may = |plugin: &dyn Plugin, victim: JobId| {
            plugin.reclaim_victim(view, pending, request, victim)
        };
        let may_queue = |victim: JobId| {
            self.at(Point::ReclaimVictimFilter)
                .filter(|plugin| plugin.reclaim_victim_is_by_queue())
                .all(|plugin| may(plugin, victim))
        };
        victims
            .filter(|victim| {
                let queue = self.snapshot.jobs[*victim].queue;
                *queues.entry(queue).or_insert_with(|| may_queue(*victim))
                    && self
                        .at(Point::ReclaimVictimFilter)
                        .filter(|plugin| !plugin.reclaim_victim_is_by_queue())
                        .all(|plugin| may(plugin, *victim))
            })
            .collect()
    }

    /// Whether a group may lose pods to a group of its own queue.
    pub fn preempt_victim(&self, pending: &Gang, victim: JobId) -> bool {
        self.at(Point::PreemptVictimFilter)
            .all(|plugin| plugin.preempt_victim(self.view(), pending, victim))
    }

    /// Whether a way to reclaim is lawful.
    pub fn reclaim_scenario(&self, scenario: &Scenario<'_>) -> bool {
        self.at(Point::ReclaimScenarioValidator)
            .all(|plugin| plugin.reclaim_scenario(self.view(), scenario))
    }

    /// Whether a way to preempt is lawful.
    pub fn preempt_scenario(&self, scenario: &Scenario<'_>) -> bool {
        self.at(Point::PreemptScenarioValidator)
            .all(|plugin| plugin.preempt_scenario(self.view(), scenario))
    }

    /// Tells plugins that the search for victims begins.
    pub fn job_solution_start(&mut self) {
        self.tell(Point::JobSolutionStart, |plugin, view| plugin.job_solution_start(view));
    }

    /// Tells plugins that a group is about to be placed.
    pub fn pre_job_allocation(&mut self, gang: &Gang) {
        self.tell(Point::PreJobAllocation, |plugin, view| plugin.pre_job_allocation(view, gang));
    }

    /// Whether queues have room for pods.
    pub fn job_over_capacity(&self, gang: &Gang, tasks: &[TaskId]) -> Result<(), Refusal> {
        self.at(Point::JobOverCapacity)
            .next()
            .map_or(Ok(()), |plugin| plugin.job_over_capacity(self.view(), gang, tasks))
    }

    /// Whether pods that nobody can preempt stay within quota.
    pub fn non_preemptible_over_quota(&self, gang: &Gang, tasks: &[TaskId]) -> Result<(), Refusal> {
        self.at(Point::NonPreemptibleOverQuota)
            .next()
            .map_or(Ok(()), |plugin| plugin.non_preemptible_over_quota(self.view(), gang, tasks))
    }

    /// Whether a pod could be placed if everybody left.
    pub fn victim_invariant(&self, task: TaskId) -> Result<(), Refusal> {
        self.at(Point::VictimInvariantPrePredicate)
            .try_for_each(|plugin| plugin.victim_invariant_pre_predicate(self.view(), task))
    }

    /// Sets of nodes to try, one after the other.
    pub fn subset_nodes(
        &mut self,
        subset: &Subset<'_>,
        nodes: &NodeSet,
    ) -> Result<Vec<NodeSet>, Refusal> {
        let view = View { snapshot: self.snapshot, state: &self.state, config: self.config };
        let mut sets = vec![nodes.clone()];
        for at in self.points.get(Point::SubsetNodes as usize).into_iter().flatten() {
            let Some(plugin) = self.plugins.get_mut(*at) else { continue };
            let mut next = Vec::new();
            for set in &sets {
                next.extend(plugin.subset_nodes(view, subset, set)?);
            }
            sets = next;
        }
        Ok(sets)
    }

    /// A queue's fair share.
    pub fn fair_share(&self, queue: QueueId) -> Option<Quantities> {
        self.at(Point::QueueResources).next().and_then(|plugin| plugin.queue_fair_share(queue))
    }

    /// What a queue has.
    pub fn queue_allocated(&self, queue: QueueId) -> Option<Quantities> {
        self.at(Point::QueueResources).next().and_then(|plugin| plugin.queue_allocated(queue))
    }

    /// What is a queue's own.
    pub fn queue_deserved(&self, queue: QueueId) -> Option<Quantities> {
        self.at(Point::QueueResources).next().and_then(|plugin| plugin.queue_deserved(queue))
    }

    /// Ways to search for victims, in order.
    pub fn generators(&self) -> Vec<Generator> {
        self.at(Point::ScenarioGenerator).filter_map(|plugin| plugin.generator()).collect()
    }

    pub(crate) fn tell_allocated(&mut self, task: TaskId) {
        self.tell(Point::Event, |plugin, view| plugin.allocated(view, task));
    }

    pub(crate) fn tell_deallocated(&mut self, task: TaskId) {
        self.tell(Point::Event, |plugin, view| plugin.deallocated(view, task));
    }
}
