//! Whether victims can be enough at all, by counting accelerators: on nodes, in domains, on nodes that pods may use.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    plugin::predicates::node_affinity,
    session::Session,
    snapshot::{Class, ClassId, Id, MemberKind, NodeId, TaskId, at, devices as accelerators},
};

use super::{Batch, Probe};

/// Counts of what is free and what victims would free.
pub(super) struct Filters {
    /// What pods ask for, the most first.
    wanted: Vec<f64>,
    free: Vec<f64>,
    /// Nodes by what they have, kept in order.
    order: BTreeSet<(u64, NodeId)>,
    /// Classes that allow some nodes only, until a node is found for them.
    choosy: Vec<(ClassId, TaskId)>,
    domains: Vec<DomainFilter>,
    /// The resource that is counted, if it is one of NPUs; else it is what counts as a graphics device.
    npus: Option<usize>,
}

/// Domains of one level that parts of the group must each fit in.
struct DomainFilter {
    level: String,
    wanted: Vec<f64>,
    free: BTreeMap<String, f64>,
}

/// Amounts are not negative, so that their bits are in their order.
fn bits(amount: f64) -> u64 {
    amount.max(0.0).to_bits()
}

// === impl Filters ===

impl Filters {
    pub(super) fn new(session: &Session<'_>, probe: &Probe<'_>) -> Self {
        let snapshot = session.snapshot;
        let class = |task: TaskId| &snapshot.classes[snapshot.tasks[task].class];
        let npus = npus(session, probe.pending);
        let mut wanted: Vec<f64> =
            probe.pending.iter().map(|task| devices(class(*task), npus)).collect();
        wanted.sort_by(|a, b| b.total_cmp(a));
        let free: Vec<f64> = snapshot
            .nodes
            .entries()
            .map(|(id, node)| match npus {
                Some(resource) => session.state.nodes[id].free(resource),
                None => session.state.nodes[id].free_gpus(node, &snapshot.dimensions),
            })
            .collect();
        let order =
            free.iter().enumerate().map(|(row, amount)| (bits(*amount), NodeId::of(row))).collect();
        let mut choosy: Vec<(ClassId, TaskId)> = Vec::new();
        for task in probe.pending {
            let id = snapshot.tasks[*task].class;
            let constraints = &class(*task).constraints;
            let picks = !constraints.node_selector.is_empty()
                || constraints
                    .affinity
                    .as_ref()
                    .is_some_and(|affinity| affinity.node_affinity.required.is_some());
            if picks && choosy.iter().all(|(known, _)| *known != id) {
                choosy.push((id, *task));
            }
        }
        choosy.retain(|(id, _)| {
            !probe
                .feasible
                .iter(session)
                .any(|node| node_affinity(&snapshot.classes[*id], &snapshot.nodes[node]))
        });
        let domains = domain_filters(session, probe, &free, npus);
        Self { wanted, free, order, choosy, domains, npus }
    }

    /// Counts what a batch would free.
    pub(super) fn add(&mut self, session: &Session<'_>, batch: &Batch) {
        let snapshot = session.snapshot;
        for task in &batch.tasks {
            let state = &session.state.tasks[*task];
            let Some(node) = state.node else { continue };
            let freed = match self.npus {
                Some(_) => devices(&snapshot.classes[snapshot.tasks[*task].class], self.npus),
                None => accelerators(&state.accepted),
            };
            if let Some(free) = self.free.get_mut(node.row()) {
                self.order.remove(&(bits(*free), node));
                *free += freed;
                self.order.insert((bits(*free), node));
            }
            let spec = &snapshot.nodes[node];
            for filter in &mut self.domains {
                if let Some(free) =
                    spec.labels.get(&filter.level).and_then(|value| filter.free.get_mut(value))
                {
                    *free += freed;
                }
            }
            self.choosy.retain(|(id, _)| !node_affinity(&snapshot.classes[*id], spec));
        }
    }

    /// Whether it can be enough.
    pub(super) fn pass(&self, _: &Session<'_>) -> bool {
        self.choosy.is_empty() && self.domains.iter().all(DomainFilter::pass) && self.nodes_pass()
    }

    fn nodes_pass(&self) -> bool {
        let holders = self
            .order
            .iter()
            .rev()
            .take(self.wanted.len())
            .map(|(_, node)| self.free.get(node.row()));
        first_fit(
            &self.wanted,
            &holders.map(|free| free.copied().unwrap_or(0.0)).collect::<Vec<_>>(),
        )
    }
}

// === impl DomainFilter ===

impl DomainFilter {
    fn pass(&self) -> bool {
        let mut holders: Vec<f64> = self.free.values().copied().collect();
        holders.sort_by(|a, b| b.total_cmp(a));
        first_fit(&self.wanted, &holders)
    }
}

/// The resource of NPUs that all pods ask for, if there is one.
pub(super) fn npus(session: &Session<'_>, tasks: &[TaskId]) -> Option<usize> {
    let snapshot = session.snapshot;
    let of = |task: &TaskId| {
        let class = &snapshot.classes[snapshot.tasks[*task].class];
        let asks = class.gpu.quota() == 0.0 && at(&class.request, class.primary) > 0.0;
        (asks && snapshot.dimensions.is_npu(class.primary)).then_some(class.primary)
    };
    let first = of(tasks.first()?)?;
    tasks.iter().all(|task| of(task) == Some(first)).then_some(first)
}

/// Devices that a pod asks for.
fn devices(class: &Class, npus: Option<usize>) -> f64 {
    npus.map_or_else(|| class.gpu.quota(), |resource| at(&class.request, resource))
}

/// Whether each amount finds a holder, the largest first. Both are in falling order.
fn first_fit(wanted: &[f64], holders: &[f64]) -> bool {
    if let (Some(most), Some(least)) = (wanted.first(), wanted.last())
        && most == least
        && *most > 0.0
    {
        let places: f64 = holders.iter().map(|holder| (holder / most).floor()).sum();
        return places >= wanted.len() as f64;
    }
    let mut left = holders.to_vec();
    for amount in wanted {
        if *amount == 0.0 {
            return true;
        }
        let room = left
            .iter_mut()
            .zip(holders)
            .take_while(|(_, all)| **all >= *amount)
            .find(|(left, _)| **left >= *amount);
        match room {
            Some((left, _)) => *left -= amount,
            None => return false,
        }
    }
    true
}

/// One filter for each level that inner parts of the group require.
fn domain_filters(
    session: &Session<'_>,
    probe: &Probe<'_>,
    free: &[f64],
    npus: Option<usize>,
) -> Vec<DomainFilter> {
    let snapshot = session.snapshot;
    let job = &snapshot.jobs[probe.gang.job];
    let mut filters: Vec<DomainFilter> = Vec::new();
    for (at, member) in job.members.iter().enumerate() {
        let level = member.constraint.as_ref().and_then(|constraint| constraint.required.as_ref());
        let (Some(level), MemberKind::Set { .. }) = (level, &member.kind) else { continue };
        let mut leaves = Vec::new();
        job.leaves(at, &mut leaves);
        let wanted: f64 = leaves
            .iter()
            .flat_map(|set| probe.gang.tasks(snapshot, &session.state, *set))
            .map(|task| devices(&snapshot.classes[snapshot.tasks[*task].class], npus))
            .sum();
        match filters.iter_mut().find(|filter| filter.level == *level) {
            Some(filter) => filter.wanted.push(wanted),
            None => {
                let mut sums: BTreeMap<String, f64> = BTreeMap::new();
                for (id, node) in snapshot.nodes.entries() {
                    if let Some(value) = node.labels.get(level).filter(|value| !value.is_empty()) {
                        *sums.entry(value.to_owned()).or_insert(0.0) +=
                            free.get(id.row()).copied().unwrap_or(0.0);
                    }
                }
                filters.push(DomainFilter {
                    level: level.clone(),
                    wanted: vec![wanted],
                    free: sums,
                });
            }
        }
    }
    for filter in &mut filters {
        filter.wanted.sort_by(|a, b| b.total_cmp(a));
    }
    filters
}
