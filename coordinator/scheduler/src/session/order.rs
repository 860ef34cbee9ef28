//! The order in which groups get their turn: a tree of heaps that mirrors the queues.
//!
//! A queue stands for the group that it would place next. Its place is looked at again when it is on top and something
//! below it has changed, not before.

use std::collections::BTreeMap;

use crate::{
    framework::QueueSide,
    reason::{Reason, Refusal},
    snapshot::{JobId, NOTHING, Quantities, QueueId, ROOT, plus},
    state::Gang,
};

use super::{Session, queue_heap::Heap};

/// Which groups get a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderOptions {
    /// Only groups with pods enough.
    pub ready: bool,
    /// Only groups with pods that wait.
    pub pending: bool,
    /// Only groups that others may take the place of.
    pub preemptible: bool,
    /// Only groups with pods that have a place.
    pub active: bool,
    /// Only groups that may evict others by now.
    pub past_delay: bool,
    /// The last first: for victims.
    pub victims: bool,
    /// How many groups of a queue at most.
    pub depth: Option<usize>,
}

#[derive(Clone, Debug)]
struct QueueNode {
    parent: Option<QueueId>,
    below: Below,
    stale: bool,
}

#[derive(Clone, Debug)]
enum Below {
    Queues(Heap<QueueId>),
    Jobs(Heap<Gang>),
}

/// Groups in the order in which they get their turn.
#[derive(Clone, Debug)]
pub struct JobOrder {
    options: OrderOptions,
    roots: Heap<QueueId>,
    nodes: BTreeMap<QueueId, QueueNode>,
    popped: BTreeMap<QueueId, Quantities>,
}

// === impl JobOrder ===

impl JobOrder {
    /// Orders those of the groups that the options let through.
    pub fn new(
        session: &mut Session<'_>,
        jobs: impl Iterator<Item = Gang>,
        options: OrderOptions,
    ) -> Self {
        let mut order = Self {
            options,
            roots: Heap::new(None),
            nodes: BTreeMap::new(),
            popped: BTreeMap::new(),
        };
        // By queue, queues in the order in which they come up.
        let mut queues: Vec<(QueueId, Vec<Gang>)> = Vec::new();
        let mut place: BTreeMap<QueueId, usize> = BTreeMap::new();
        for gang in jobs {
            let Some(queue) = session.snapshot.jobs[gang.job].queue else { continue };
            if !order.takes(session, &gang) {
                continue;
            }
            let at = *place.entry(queue).or_insert_with(|| {
                queues.push((queue, Vec::new()));
                queues.len() - 1
            });
            if let Some((_, gangs)) = queues.get_mut(at) {
                gangs.push(gang);
            }
        }
        for (_, mut gangs) in queues {
            // The likely first go in first: then hardly anybody has to be passed on the way up. A queue that keeps only
            // some of its groups has its own idea of which.
            if options.depth.is_none() {
                gangs.sort_by_key(|gang| {
                    let job = &session.snapshot.jobs[gang.job];
                    (std::cmp::Reverse(job.priority), job.created, gang.job)
                });
                if options.victims {
                    gangs.reverse();
                }
            }
            for gang in gangs {
                order.push(session, gang);
            }
        }
        order
    }

    fn takes(&self, session: &mut Session<'_>, gang: &Gang) -> bool {
        let (options, job) = (self.options, &session.snapshot.jobs[gang.job]);
        let Some(queue) = job.queue else { return false };
        if options.pending && session.state.jobs[gang.job].pending == 0
            || options.preemptible && !job.preemptible
            || options.active && gang.active(session.snapshot, &session.state) == 0
            || !session.snapshot.queues[queue].is_leaf()
            || options.ready && !session.is_ready(gang, ROOT)
        {
            return false;
        }
        !(options.past_delay && session.is_delayed(gang.job))
    }

    /// Whether nobody is left.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Adds a group.
    pub fn push(&mut self, session: &Session<'_>, gang: Gang) {
        let Some(queue) = session.snapshot.jobs[gang.job].queue else { return };
        let known = self.nodes.contains_key(&queue);
        let node = self.nodes.entry(queue).or_insert_with(|| QueueNode {
            parent: None,
            below: Below::Jobs(Heap::new(self.options.depth)),
            stale: false,
        });
        if let Below::Jobs(jobs) = &mut node.below {
            let victims = self.options.victims;
            jobs.push(gang, |left, right| session.job_order(left, right).is_lt() != victims);
        }
        if !known {
            self.link(session, queue);
        }
        self.mark(queue);
    }

    fn link(&mut self, session: &Session<'_>, queue: QueueId) {
        let Some(parent) = session.snapshot.queues[queue].parent else {
            let mut roots = std::mem::replace(&mut self.roots, Heap::new(None));
            roots.push(queue, |left, right| self.less(session, *left, *right));
            self.roots = roots;
            return;
        };
        let known = self.nodes.contains_key(&parent);
        if !known {
            let node =
                QueueNode { parent: None, below: Below::Queues(Heap::new(None)), stale: false };
            self.nodes.insert(parent, node);
        }
        if let Some(node) = self.nodes.get_mut(&queue) {
            node.parent = Some(parent);
        }
        self.with_queues(parent, |order, heap| {
            heap.push(queue, |left, right| order.less(session, *left, *right))
        });
        if !known {
            self.link(session, parent);
        }
    }

    /// Works on the heap of a queue's queues while the rest can be read.
    fn with_queues<R>(
        &mut self,
        queue: QueueId,
        work: impl FnOnce(&Self, &mut Heap<QueueId>) -> R,
    ) -> Option<R> {
        let node = self.nodes.get_mut(&queue)?;
        let Below::Queues(heap) = &mut node.below else { return None };
        let mut heap = std::mem::replace(heap, Heap::new(None));
        let result = work(self, &mut heap);
        if let Some(QueueNode { below: Below::Queues(place), .. }) = self.nodes.get_mut(&queue) {
            *place = heap;
        }
        Some(result)
    }

    fn mark(&mut self, queue: QueueId) {
        let mut at = Some(queue);
        while let Some(node) = at.and_then(|at| self.nodes.get_mut(&at)) {
            node.stale = true;
            at = node.parent;
        }
    }

    fn has_none(&self, queue: QueueId) -> bool {
        match self.nodes.get(&queue).map(|node| &node.below) {
            Some(Below::Jobs(jobs)) => jobs.is_empty(),
            Some(Below::Queues(queues)) => queues.is_empty(),
            None => true,
        }
    }

    /// The group that a queue stands for, with what its leaf has lost so far.
    fn best(&self, queue: QueueId) -> Option<(&Gang, Quantities)> {
        match &self.nodes.get(&queue)?.below {
            Below::Jobs(jobs) => {
                Some((jobs.peek()?, self.popped.get(&queue).copied().unwrap_or(NOTHING)))
            }
            Below::Queues(queues) => self.best(*queues.peek()?),
        }
    }

    fn less(&self, session: &Session<'_>, left: QueueId, right: QueueId) -> bool {
        let victims = self.options.victims;
        if self.has_none(left) {
            return !victims;
        }
        if self.has_none(right) {
            return victims;
        }
        let side = |queue: QueueId| {
            let mut side = QueueSide { queue, request: NOTHING, victims: NOTHING };
            if let Some((gang, popped)) = self.best(queue) {
                if victims {
                    side.victims = plus(popped, session.allocated_of(gang));
                } else {
                    side.request = session.request(gang);
                }
            }
            side
        };
        session.queue_is_first(side(left), side(right)) != victims
    }

    /// The next group.
    pub fn pop(&mut self, session: &Session<'_>) -> Option<Gang> {
        let mut queue = self.top_root(session)?;
        loop {
            match &self.nodes.get(&queue)?.below {
                Below::Jobs(_) => break,
                Below::Queues(_) => queue = self.top_below(session, queue)?,
            }
        }
        let victims = self.options.victims;
        let node = self.nodes.get_mut(&queue)?;
        let Below::Jobs(jobs) = &mut node.below else { return None };
        let gang = jobs.pop(|left, right| session.job_order(left, right).is_lt() != victims)?;
        if victims {
            let popped = self.popped.entry(queue).or_insert(NOTHING);
            *popped = plus(*popped, session.allocated_of(&gang));
        }
        self.after_pop(session, queue);
        Some(gang)
    }

    fn top_root(&mut self, session: &Session<'_>) -> Option<QueueId> {
        loop {
            let top = *self.roots.peek()?;
            let node = self.nodes.get(&top)?;
            if !node.stale {
                return Some(top);
            }
            let mut roots = std::mem::replace(&mut self.roots, Heap::new(None));
            roots.fix_top(|left, right| self.less(session, *left, *right));
            self.roots = roots;
            self.nodes.get_mut(&top)?.stale = false;
        }
    }

    fn top_below(&mut self, session: &Session<'_>, queue: QueueId) -> Option<QueueId> {
        loop {
            let top = match &self.nodes.get(&queue)?.below {
                Below::Queues(queues) => *queues.peek()?,
                Below::Jobs(_) => return None,
            };
            if !self.nodes.get(&top)?.stale {
                return Some(top);
            }
            self.with_queues(queue, |order, heap| {
                heap.fix_top(|left, right| order.less(session, *left, *right));
            })?;
            self.nodes.get_mut(&top)?.stale = false;
        }
    }

    fn after_pop(&mut self, session: &Session<'_>, queue: QueueId) {
        let mut at = queue;
        while self.has_none(at) {
            let parent = self.nodes.get(&at).and_then(|node| node.parent);
            match parent {
                Some(parent) => {
                    self.with_queues(parent, |order, heap| {
                        heap.pop(|left, right| order.less(session, *left, *right));
                    });
                }
                None => {
                    let mut roots = std::mem::replace(&mut self.roots, Heap::new(None));
                    roots.pop(|left, right| self.less(session, *left, *right));
                    self.roots = roots;
                }
            }
            self.nodes.remove(&at);
            match parent {
                Some(parent) => at = parent,
                None => return,
            }
        }
        self.mark(at);
    }

    /// How many groups are left.
    pub fn len(&self) -> usize {
        self.nodes
            .values()
            .map(|node| match &node.below {
                Below::Jobs(jobs) => jobs.len(),
                Below::Queues(_) => 0,
            })
            .sum()
    }
}

// === impl Session ===

impl Session<'_> {
    /// What pods of a group that have a place ask for.
    pub fn allocated_of(&self, gang: &Gang) -> Quantities {
        if gang.part.is_none() {
            return self.state.jobs[gang.job].allocated;
        }
        gang.all_tasks(self.snapshot, &self.state)
            .filter(|task| self.state.tasks[*task].status.is_allocated())
            .map(|task| self.snapshot.classes[self.snapshot.tasks[task].class].quantities)
            .fold(NOTHING, plus)
    }

    /// Whether a group may not evict others yet. Notes that as its reason.
    pub fn is_delayed(&mut self, job: JobId) -> bool {
        let spec = &self.snapshot.jobs[job];
        let Some(delay) = spec.preemption_delay.filter(|delay| delay.is_positive()) else {
            return false;
        };
        let since = spec.created.max(self.state.jobs[job].last_eviction);
        let Some(end) = since.and_then(|since| since.checked_add(delay).ok()) else { return false };
        if self.snapshot.now >= end {
            return false;
        }
        let message =
            format!("it may not evict others before {end}: its preemption delay is {delay:#}");
        self.ledger.refuse(job, Refusal::new(Reason::PreemptionDelayNotElapsed, message));
        true
    }
}
