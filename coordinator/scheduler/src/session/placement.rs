//! Finding the node for one pod.

use crate::{
    framework::{NodeSet, Point, Scope},
    reason::{NodeRefusal, Refusal},
    snapshot::{ClassId, GPU, GroupId, Id, NodeId, TaskId, at},
    statement::{Place, Statement},
};

use super::{Session, index::ClassIndex};

// === impl Session ===

impl Session<'_> {
    /// Places a pod on the best node of a set that takes it. `promise` keeps it from taking anything now.
    pub fn place(
        &mut self,
        statement: &mut Statement,
        task: TaskId,
        nodes: &NodeSet,
        promise: bool,
    ) -> bool {
        let view = self.view();
        let allowed =
            self.at(Point::PrePredicate).try_for_each(|plugin| plugin.pre_predicate(view, task));
        if let Err(refusal) = allowed {
            self.note_task(task, refusal, promise);
            return false;
        }
        self.tell(Point::NodePreOrder, |plugin, view| plugin.node_pre_order(view, task, nodes));
        let class = self.snapshot.tasks[task].class;
        let mut index = self.refreshed(class, task);
        let open_scores = self.open_scores(task);
        let placed = match nodes {
            NodeSet::All if open_scores.is_empty() => {
                self.place_by_heap(&mut index, statement, task, promise)
            }
            _ => self.place_by_scan(&index, &open_scores, statement, task, nodes, promise),
        };
        self.indices.put(class, index);
        placed
    }

    fn note_task(&mut self, task: TaskId, refusal: Refusal, promise: bool) {
        if let (Some(job), false) = (self.snapshot.tasks[task].job, promise) {
            self.ledger.refuse(job, refusal);
        }
    }

    /// Plugins whose scores have to be asked for every time.
    fn open_scores(&self, task: TaskId) -> Vec<usize> {
        let view = self.view();
        let plugins = self.points.get(Point::NodeOrder as usize).into_iter().flatten().copied();
        plugins
            .filter(|at| {
                let plugin = self.plugins.get(*at);
                plugin.is_some_and(|plugin| plugin.node_order_scope(view, task) == Scope::Session)
            })
            .collect()
    }

    fn place_by_heap(
        &mut self,
        index: &mut ClassIndex,
        statement: &mut Statement,
        task: TaskId,
        promise: bool,
    ) -> bool {
        let mut passed = Vec::new();
        let mut placed = false;
        while let Some(entry) = index.pop() {
            passed.push(entry);
            if self.takes(task, entry.node).is_ok()
                && self.place_on(statement, task, entry.node, promise)
            {
                placed = true;
                break;
            }
        }
        for entry in passed {
            index.push(entry);
        }
        placed
    }

    fn place_by_scan(
        &mut self,
        index: &ClassIndex,
        open_scores: &[usize],
        statement: &mut Statement,
        task: TaskId,
        nodes: &NodeSet,
        promise: bool,
    ) -> bool {
        let mut candidates: Vec<(f64, NodeId)> = Vec::new();
        let mut look = |node: NodeId| {
            let Some(known) = index.get(node).filter(|known| known.refusal.is_none()) else {
                return;
            };
            let mut score = known.score;
            for at in open_scores {
                match self
                    .plugins
                    .get(*at)
                    .and_then(|plugin| plugin.node_order(self.view(), task, node))
                {
                    Some(more) => score += more,
                    None => return,
                }
            }
            candidates.push((score, node));
        };
        match nodes {
            NodeSet::All => self.snapshot.nodes.ids().for_each(&mut look),
            NodeSet::Some(list) => list.iter().copied().for_each(&mut look),
        }
        let first = |a: &(f64, NodeId), b: &(f64, NodeId)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let mut tried = 0;
        while tried < candidates.len() {
            // Most often the best one takes it: the rest is sorted only if it does not.
            if tried == 0 {
                let best = candidates
                    .iter()
                    .enumerate()
                    .min_by(|(_, a), (_, b)| first(a, b))
                    .map(|(at, _)| at);
                candidates.swap(0, best.unwrap_or(0));
            } else if tried == 1
                && let Some(rest) = candidates.get_mut(1..)
            {
                rest.sort_by(first);
            }
            let Some((_, node)) = candidates.get(tried).copied() else { break };
            if self.takes(task, node).is_ok() && self.place_on(statement, task, node, promise) {
                return true;
            }
            tried += 1;
        }
        false
    }

    /// Whether a node takes a pod by what has to be asked every time.
    fn takes(&self, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        let view = self.view();
        if let Some(plugin) = self.at(Point::TaskOverCapacity).next() {
            plugin.task_over_capacity(view, task, node)?;
        }
        let class = self.snapshot.tasks[task].class;
        self.at(Point::Predicate)
            .filter(|plugin| plugin.predicate_scope(view, class) == Scope::Session)
            .try_for_each(|plugin| plugin.predicate(view, task, node))
    }

    /// What is known for a class, brought up to date.
    fn refreshed(&mut self, class: ClassId, task: TaskId) -> Box<ClassIndex> {
        let clock = self.state.clock();
        match self.indices.take(class) {
            None => {
                let seen = self.snapshot.nodes.ids().map(|node| {
                    let fixed = self.fixed_refusal(task, node);
                    let refusal = fixed.or_else(|| self.moving_refusal(class, task, node));
                    (fixed, refusal, self.score(task, node))
                });
                Box::new(ClassIndex::new(clock, seen))
            }
            Some(mut index) => {
                let from = index.clock;
                index.clock = clock;
                for node in self.state.to_look_at(from) {
                    let fixed = index.get(node).and_then(|known| known.fixed);
                    let refusal = fixed.or_else(|| self.moving_refusal(class, task, node));
                    let score = self.score(task, node);
                    index.update(node, refusal, score);
                }
                index
            }
        }
    }

    fn moving_refusal(&self, class: ClassId, task: TaskId, node: NodeId) -> Option<NodeRefusal> {
        let (shape, spec) = (&self.snapshot.classes[class], &self.snapshot.nodes[node]);
        let lacks = self.state.nodes[node].lacks(shape, spec);
        lacks.map(|i| NodeRefusal::Insufficient(i as u16)).or_else(|| {
            let view = self.view();
            self.at(Point::Predicate)
                .filter(|plugin| plugin.predicate_scope(view, class) != Scope::Session)
                .find_map(|plugin| plugin.predicate(view, task, node).err())
        })
    }

    fn fixed_refusal(&self, task: TaskId, node: NodeId) -> Option<NodeRefusal> {
        let view = self.view();
        self.at(Point::Predicate).find_map(|plugin| plugin.fixed_predicate(view, task, node).err())
    }

    /// The part of a score that depends on the class and the node alone.
    fn score(&self, task: TaskId, node: NodeId) -> f64 {
        let view = self.view();
        self.at(Point::NodeOrder)
            .filter(|plugin| plugin.node_order_scope(view, task) != Scope::Session)
            .filter_map(|plugin| plugin.node_order(view, task, node))
            .sum()
    }

    /// How many nodes refuse pods of a class, by why.
    pub fn refusals(&mut self, task: TaskId) -> Vec<(NodeRefusal, u32)> {
        let class = self.snapshot.tasks[task].class;
        let index = self.refreshed(class, task);
        let mut counts = index.refusals.clone();
        counts.retain(|_, count| *count > 0);
        // What others have of a claim decides at the very last: nodes that are left are asked once more.
        if !self.snapshot.classes[class].constraints.device_claims.is_empty() {
            let left = index.nodes.iter().enumerate().filter(|(_, known)| known.refusal.is_none());
            for why in left.filter_map(|(row, _)| self.takes(task, NodeId::of(row)).err()) {
                *counts.entry(why).or_insert(0) += 1;
            }
        }
        self.indices.put(class, index);
        counts.into_iter().collect()
    }

    fn place_on(
        &mut self,
        statement: &mut Statement,
        task: TaskId,
        node: NodeId,
        promise: bool,
    ) -> bool {
        let zones = self
            .at(Point::NumaPlacement)
            .next()
            .map(|plugin| plugin.numa_placement(self.view(), task, node))
            .unwrap_or_default();
        let (class, spec) =
            (&self.snapshot.classes[self.snapshot.tasks[task].class], &self.snapshot.nodes[node]);
        let mut place = Place { numa: zones, ..Place::default() };
        let mut fits_now = self.state.nodes[node].fits_idle(class, spec);
        if let Some(plugin) = self.at(Point::NpuPlacement).next()
            && let Some(npus) = plugin.npu_placement(self.view(), task, node)
        {
            fits_now &= !npus.later;
            place.npus = Some(npus.devices);
        }
        if !class.constraints.device_claims.is_empty()
            && let Some(plugin) = self.at(Point::DevicePlacement).next()
        {
            let Some(devices) = plugin.device_placement(self.view(), task, node) else {
                return false;
            };
            fits_now &= !devices.later;
            place.claims = Some(devices.claims);
        }
        if class.gpu.is_shared() {
            let Some((groups, later)) = self.share(task, node, promise) else { return false };
            place.groups = Some(groups);
            if promise || later || !fits_now {
                return self.pipeline(statement, task, node, place, false);
            }
            self.allocate(statement, task, node, place);
            return true;
        }
        if promise || !fits_now {
            return self.pipeline(statement, task, node, place, !promise);
        }
        self.allocate(statement, task, node, place);
        true
    }

    /// Devices of a node that a pod would share, and whether it has to wait for any of them.
    fn share(&mut self, task: TaskId, node: NodeId, promise: bool) -> Option<(Vec<GroupId>, bool)> {
        let (class, spec) =
            (&self.snapshot.classes[self.snapshot.tasks[task].class], &self.snapshot.nodes[node]);
        let state = &self.state.nodes[node];
        let fits_now = state.fits_idle(class, spec);
        let mut devices: Vec<(f64, Option<GroupId>)> = Vec::new();
        let score = |group: Option<GroupId>| {
            let view = self.view();
            let mut scores =
                self.at(Point::GpuOrder).map(|plugin| plugin.gpu_order(view, task, node, group));
            scores.try_fold(0.0, |sum, score| score.map(|score| sum + score))
        };
        for device in state.shared.iter().filter(|device| device.fits(&class.gpu, spec)) {
            if let Some(score) = score(Some(device.group)) {
                devices.push((score, Some(device.group)));
            }
        }
        let (idle, releasing) = (at(&state.idle, GPU), at(&state.releasing, GPU));
        if idle > 0.0 || releasing > 0.0 {
            let whole = (idle as i64 + releasing as i64).clamp(0, class.gpu.count.max(0));
            if let Some(score) = score(None) {
                devices.extend((0..whole).map(|_| (score, None)));
            }
        }
        devices.sort_by(|a, b| b.0.total_cmp(&a.0));
        let wanted = usize::try_from(class.gpu.count).unwrap_or(0);
        if wanted == 0 || devices.len() < wanted {
            return None;
        }
        devices.truncate(wanted);
        let mut later = false;
        for (_, group) in &devices {
            later |= match group {
                Some(group) => {
                    let device = state.shared.iter().find(|device| device.group == *group);
                    !device.is_some_and(|device| device.fits_now(&class.gpu, spec)) || !fits_now
                }
                None => promise || !fits_now,
            };
        }
        // A device that the pod opened before may be others' by now.
        let used = state.shared.iter().filter(|device| device.used != 0);
        let mut taken: Vec<GroupId> = used.map(|device| device.group).collect();
        let uid = &self.snapshot.tasks[task].uid;
        let mut groups = Vec::with_capacity(wanted);
        let mut number = 0;
        for (at, (_, group)) in devices.into_iter().enumerate() {
            groups.push(match group {
                Some(group) => group,
                None => {
                    number = number.max(at);
                    let mut name = format!("{uid}-{number}");
                    while taken.iter().any(|group| self.state.group_name(*group) == name) {
                        number += 1;
                        name = format!("{uid}-{number}");
                    }
                    let group = self.state.new_group(name);
                    taken.push(group);
                    group
                }
            });
        }
        Some((groups, later))
    }
}
