//! `topology`: pods of a group in one domain: they must (required level), or should (preferred level).
//!
//! For a part of a group the plugin offers sets of nodes: domains with room for all its pods, the tightest level first,
//! within a level the fullest first. What domains have free is kept as running sums; a node that changes moves the sums
//! of its own domains and no others.

mod sums;

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    framework::{NodeSet, Plugin, Point, Scope, Subset, View},
    plugin::score,
    reason::{Reason, Refusal},
    snapshot::{
        CPU, Constraint, GPU, Id, JobId, MEMORY, NodeId, PODS, TaskId, Topology, TopologyId,
        Vector, add, at,
    },
    state::Gang,
};

use self::sums::Sums;

/// Ratio of a resource that is asked for and of which a domain has none.
const NONE_LEFT: f64 = 1000.0;

/// Pods of a group in one domain.
#[derive(Default)]
pub struct TopologyAware {
    sums: Vec<Option<Sums>>,
    /// Scores of nodes by part of the group that is being placed.
    scores: BTreeMap<usize, Rc<BTreeMap<NodeId, f64>>>,
    scored: Option<JobId>,
}

/// What pods ask of a domain.
struct Demand {
    count: usize,
    sum: Vector,
    /// The most of each dimension, if pods are alike enough to count them.
    most: Option<Vector>,
}

// === impl Demand ===

impl Demand {
    fn of(view: View<'_>, tasks: &[TaskId]) -> Self {
        let snapshot = view.snapshot;
        let mut sum = snapshot.dimensions.zero();
        let mut most = snapshot.dimensions.zero();
        let mut users = vec![0_usize; sum.len()];
        let mut with_gpu = 0;
        for task in tasks {
            let class = &snapshot.classes[snapshot.tasks[*task].class];
            add(&mut sum, &class.request);
            for ((most, asked), users) in most.iter_mut().zip(class.request.iter()).zip(&mut users)
            {
                *most = most.max(*asked);
                *users += usize::from(*asked > 0.0);
            }
            with_gpu += usize::from(class.gpu.gpus() > 0.0);
        }
        let alike = users
            .iter()
            .enumerate()
            .filter(|(i, _)| !matches!(*i, CPU | MEMORY | GPU))
            .all(|(_, users)| *users == 0 || *users == tasks.len());
        let alike = alike && (with_gpu == 0 || with_gpu == tasks.len());
        Self { count: tasks.len(), sum, most: alike.then_some(most) }
    }

    /// How full a domain with so much left would be: above 1 it has no room.
    fn ratio(&self, free: &[f64]) -> f64 {
        let parts = self.sum.iter().enumerate().filter(|(i, asked)| **asked > 0.0 && *i != PODS);
        let ratios = parts
            .map(|(i, asked)| if at(free, i) <= 0.0 { NONE_LEFT } else { asked / at(free, i) });
        ratios.fold(0.0, f64::max)
    }
}

// === impl TopologyAware ===

impl TopologyAware {
    fn sums(&mut self, view: View<'_>, id: TopologyId) -> &mut Sums {
        if self.sums.len() <= id.row() {
            self.sums.resize_with(view.snapshot.topologies.len().max(id.row() + 1), || None);
        }
        let place = &mut self.sums[id.row()];
        place.get_or_insert_with(|| Sums::new(view, id))
    }

    fn sets(
        &mut self,
        view: View<'_>,
        subset: &Subset<'_>,
        nodes: &NodeSet,
        constraint: &Constraint,
        id: TopologyId,
    ) -> Result<Vec<NodeSet>, Refusal> {
        let topology = &view.snapshot.topologies[id];
        let demand = Demand::of(view, subset.tasks);
        let depth = |level: &Option<String>, kind: &str| match level {
            None => Ok(None),
            Some(level) => topology.depth_of(level).map(Some).ok_or_else(|| {
                let message = format!(
                    "topology {} has no level {level}, which is the {kind} one",
                    topology.name
                );
                Refusal::new(Reason::UnknownTopology, message)
            }),
        };
        let (required, preferred) =
            (depth(&constraint.required, "required")?, depth(&constraint.preferred, "preferred")?);
        let common = common_domain(view, topology, id, nodes, preferred);
        let sums = self.sums(view, id);
        sums.refresh(view, id);
        let kind = demand.most.as_ref().map(|most| sums.kind(view, id, most, demand.count));
        let sums = &*sums;
        // What is free is known below the common domain only: where all nodes share a deeper level than the required
        // one, the required one has no room, as in the original.
        let lowest = depth_of(topology, common);
        let has_room = |domain: usize| match kind
            .filter(|_| depth_of(topology, domain) >= lowest)
            .and_then(|kind| sums.count(kind, domain))
        {
            Some(count) => count >= demand.count as i64,
            None if depth_of(topology, domain) < lowest => demand.ratio(&[]) <= 1.0,
            None => demand.ratio(sums.free(domain)) <= 1.0,
        };
        let nowhere = |of: &str| {
            let level = constraint.required.as_deref().unwrap_or("");
            let message = format!(
                "no {of} of topology {} has room for {} pods {level}",
                topology.name, demand.count
            );
            Refusal::new(Reason::NoDomainHasRoom, message)
        };
        if !has_room(common) {
            return Err(nowhere("domain"));
        }
        if required.is_none() && preferred.is_none() {
            let message = format!("a part names topology {} but no level of it", topology.name);
            return Err(Refusal::new(Reason::UnknownTopology, message));
        }
        // The tree below the common domain, each domain's children the fullest first, as deep as it matters.
        let deepest = preferred.or(required).unwrap_or(0);
        let levels =
            sorted_levels(topology, common, deepest, |domain| demand.ratio(sums.free(domain)));
        let top = required.unwrap_or(0);
        let bottom = deepest.max(top);
        let occupied = required.and_then(|depth| occupied(view, subset, topology, id, depth));
        let mut domains = Vec::new();
        for depth in (top..=bottom).rev() {
            let level = levels.get(depth).map_or(&[][..], Vec::as_slice);
            // Above the common domain there is only the path to it.
            for domain in level.iter().copied() {
                let allowed = occupied.as_ref().is_none_or(|list| {
                    ancestor(topology, domain, top).is_some_and(|above| list.contains(&above))
                });
                if allowed && has_room(domain) {
                    domains.push(domain);
                }
            }
        }
        if domains.is_empty() {
            return Err(nowhere(constraint.required.as_deref().unwrap_or("domain")));
        }
        let sets = domains.into_iter().map(|domain| within(sums.nodes(domain), nodes)).collect();
        if let Some(depth) = preferred {
            let order = levels.get(depth).map_or(&[][..], Vec::as_slice);
            let scores = Rc::new(node_scores(topology, order));
            self.scores.insert(subset.member, scores);
            self.scored = Some(subset.gang.job);
        }
        Ok(sets)
    }
}

impl Plugin for TopologyAware {
    fn name(&self) -> &'static str {
        "topology"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreJobAllocation, Point::SubsetNodes, Point::NodeOrder]
    }

    fn pre_job_allocation(&mut self, _: View<'_>, _: &Gang) {
        self.scores.clear();
        self.scored = None;
    }

    fn subset_nodes(
        &mut self,
        view: View<'_>,
        subset: &Subset<'_>,
        nodes: &NodeSet,
    ) -> Result<Vec<NodeSet>, Refusal> {
        let job = &view.snapshot.jobs[subset.gang.job];
        let constraint =
            job.members.get(subset.member).and_then(|member| member.constraint.as_ref());
        let Some(constraint) = constraint.filter(|constraint| !constraint.topology_name.is_empty())
        else {
            return Ok(vec![nodes.clone()]);
        };
        let Some(id) = constraint.topology else {
            let message = format!(
                "topology {} does not exist: create it, or name another",
                constraint.topology_name
            );
            return Err(Refusal::new(Reason::UnknownTopology, message));
        };
        self.sets(view, subset, nodes, constraint, id)
    }

    fn node_order_scope(&self, view: View<'_>, task: TaskId) -> Scope {
        let job = view.snapshot.tasks[task].job;
        if self.scored.is_some() && self.scored == job { Scope::Session } else { Scope::Static }
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        let spec = &view.snapshot.tasks[task];
        let (Some(job), Some(set)) = (spec.job, spec.pod_set) else { return Some(0.0) };
        if self.scored != Some(job) {
            return Some(0.0);
        }
        let members = &view.snapshot.jobs[job].members;
        let mut at = Some(view.snapshot.pod_sets[set].member);
        while let Some(member) = at {
            if let Some(scores) = self.scores.get(&member) {
                return scores.get(&node).copied();
            }
            at = members.get(member).and_then(|member| member.parent);
        }
        Some(0.0)
    }
}

/// The deepest domain that holds all nodes of a set, no deeper than the preferred level.
fn common_domain(
    view: View<'_>,
    topology: &Topology,
    id: TopologyId,
    nodes: &NodeSet,
    preferred: Option<usize>,
) -> usize {
    let place = |node: &NodeId| view.snapshot.nodes[*node].domains.get(id.row()).copied().flatten();
    let mut common: Option<usize> = None;
    let mut meet = |domain: usize| {
        common = Some(match common {
            None => domain,
            Some(other) => lowest_common(topology, other, domain),
        });
        common != Some(0)
    };
    match nodes {
        // The root's domains are few: no need to ask every node.
        NodeSet::All => {
            let mut at = 0;
            while let Some([only]) =
                topology.domains.get(at).map(|domain| domain.children.as_slice())
            {
                at = *only;
            }
            meet(at);
        }
        NodeSet::Some(list) => {
            for domain in list.iter().filter_map(place) {
                if !meet(domain) {
                    break;
                }
            }
        }
    }
    let common = common.unwrap_or(0);
    preferred.and_then(|depth| ancestor(topology, common, depth)).unwrap_or(common)
}

fn depth_of(topology: &Topology, domain: usize) -> usize {
    topology.domains.get(domain).map_or(0, |domain| domain.depth)
}

fn lowest_common(topology: &Topology, mut a: usize, mut b: usize) -> usize {
    let up = |at: usize| topology.domains.get(at).and_then(|domain| domain.parent).unwrap_or(0);
    while a != b {
        if depth_of(topology, a) >= depth_of(topology, b) { a = up(a) } else { b = up(b) }
    }
    a
}

/// The domain at a depth that a domain is in; none if the domain is above it.
fn ancestor(topology: &Topology, domain: usize, to: usize) -> Option<usize> {
    let mut at = domain;
    if depth_of(topology, at) < to {
        return None;
    }
    while depth_of(topology, at) > to {
        at = topology.domains.get(at)?.parent?;
    }
    Some(at)
}

/// Domains by depth, from a domain down, children the fullest first, then by id; above it the path to it.
fn sorted_levels(
    topology: &Topology,
    from: usize,
    deepest: usize,
    ratio: impl Fn(usize) -> f64,
) -> Vec<Vec<usize>> {
    let start = depth_of(topology, from);
    let mut levels: Vec<Vec<usize>> =
        (0..=start).map(|to| ancestor(topology, from, to).into_iter().collect()).collect();
    for depth in start..deepest {
        let mut next = Vec::new();
        for domain in levels.get(depth).cloned().unwrap_or_default() {
            let mut children: Vec<(f64, &str, usize)> = topology
                .domains
                .get(domain)
                .map(|domain| domain.children.as_slice())
                .unwrap_or_default()
                .iter()
                .filter_map(|child| {
                    Some((ratio(*child), topology.domains.get(*child)?.id.as_str(), *child))
                })
                .collect();
            children.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            next.extend(children.into_iter().map(|(_, _, child)| child));
        }
        levels.push(next);
    }
    levels
}

/// Domains at a depth where pods of the part have a place already; none if no pod has.
fn occupied(
    view: View<'_>,
    subset: &Subset<'_>,
    topology: &Topology,
    id: TopologyId,
    depth: usize,
) -> Option<Vec<usize>> {
    let mut any = false;
    let mut domains = Vec::new();
    for set in subset.pod_sets {
        for task in subset.gang.tasks(view.snapshot, view.state, *set) {
            let state = &view.state.tasks[*task];
            if !state.status.is_active() {
                continue;
            }
            any = true;
            let place = state.node.and_then(|node| {
                view.snapshot.nodes[node].domains.get(id.row()).copied().flatten()
            });
            domains.extend(place.and_then(|place| ancestor(topology, place, depth)));
        }
    }
    any.then_some(domains)
}

/// Scores of nodes by the place of their domain in an order: the last ones, which are emptier, get more.
fn node_scores(topology: &Topology, order: &[usize]) -> BTreeMap<NodeId, f64> {
    let mut scores = BTreeMap::new();
    for (at, domain) in order.iter().enumerate() {
        let score = ((at + 1) as f64 / order.len() as f64 * 10.0).floor() * score::TOPOLOGY;
        let nodes = topology.domains.get(*domain).map_or(&[][..], |domain| &domain.nodes);
        scores.extend(nodes.iter().map(|node| (*node, score)));
    }
    scores
}

/// Nodes of a domain that are in a set.
fn within(own: Rc<[NodeId]>, nodes: &NodeSet) -> NodeSet {
    match nodes {
        NodeSet::All => NodeSet::Some(own),
        NodeSet::Some(list) => NodeSet::Some(
            own.iter().copied().filter(|node| list.binary_search(node).is_ok()).collect(),
        ),
    }
}
