//! Where there are many to choose from: the domain in which the fewest pods have to go.
//!
//! For a group that must be in one domain, each domain is looked at by itself: which groups would have to leave it, whole
//! groups at a time, so that it has room. The cheapest domains are tried first.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    session::Session,
    snapshot::{JobId, NodeId, ROOT, TaskId, Vector},
    state::Gang,
    statement::Statement,
};

use super::{
    Batch, Feasible, Probe, Solver,
    bound::{Freed, free_of, least, room},
    simulate,
};

/// From so many pods on that may go, domains are looked at first. Below, the ways of the generators are few.
const MANY: usize = 64;
/// How many domains are tried.
const TRIES: usize = 8;

/// A group that may go, and what that would free.
struct Candidate {
    job: JobId,
    tasks: Vec<TaskId>,
    freed: Freed,
}

// === impl Solver ===

impl Solver<'_> {
    /// A transaction that makes room in the cheapest domain, where the group needs one and there are many to choose from.
    pub(super) fn solve_by_domain(
        &self,
        session: &mut Session<'_>,
        job: JobId,
        tasks: &[TaskId],
        feasible: &Feasible,
    ) -> Option<Statement> {
        let used = session.used(job);
        let domains = domains_of(session, job)?;
        let least = least(session, tasks)?;
        let candidates = candidates(session, self.candidates);
        if candidates.iter().map(|candidate| candidate.tasks.len()).sum::<usize>() < MANY {
            return None;
        }
        let mut at: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (index, candidate) in candidates.iter().enumerate() {
            for node in candidate.freed.keys() {
                at.entry(*node).or_default().push(index);
            }
        }
        let mut plans: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (order, nodes) in domains.iter().enumerate() {
            if let Some(plan) = plan(session, nodes, &least, tasks.len() as i64, &candidates, &at) {
                let cost = plan
                    .iter()
                    .filter_map(|index| candidates.get(*index))
                    .map(|it| it.tasks.len())
                    .sum();
                plans.push((cost, order, plan));
            }
        }
        plans.sort();
        for (_, _, plan) in plans.into_iter().take(TRIES) {
            let potential: Vec<Batch> = plan
                .iter()
                .filter_map(|index| candidates.get(*index))
                .map(|candidate| Batch { job: candidate.job, tasks: candidate.tasks.clone() })
                .collect();
            let keep = |task: TaskId| {
                session.state.tasks[task].status.is_active() || tasks.contains(&task)
            };
            let gang = Gang::reduced(session.snapshot, job, keep, &session.state);
            let request = session.request(&gang);
            let probe = Probe {
                gang,
                pending: tasks,
                request,
                recorded: Vec::new(),
                feasible: feasible.clone(),
            };
            if let Some(mut solution) = simulate::run(session, self.purpose, &probe, potential) {
                if session.is_gang_satisfied(job) && session.used(job) > used {
                    return Some(solution.statement);
                }
                session.discard(&mut solution.statement);
            }
        }
        None
    }
}

/// The domains of the level that a whole group requires.
fn domains_of(session: &Session<'_>, job: JobId) -> Option<Vec<Vec<NodeId>>> {
    let members = &session.snapshot.jobs[job].members;
    let whole = if members.len() == 2 { members.as_slice() } else { members.get(..=ROOT)? };
    let constraint = whole.iter().rev().find_map(|member| member.constraint.as_ref())?;
    let topology = &session.snapshot.topologies[constraint.topology?];
    let depth = topology.depth_of(constraint.required.as_ref()?)?;
    let nodes = topology.domains.iter().filter(|domain| domain.depth == depth);
    Some(nodes.map(|domain| domain.nodes.clone()).collect())
}

fn candidates(session: &Session<'_>, jobs: &[JobId]) -> Vec<Candidate> {
    let active = |job: &JobId| {
        let tasks: Vec<TaskId> = Gang::whole(*job)
            .all_tasks(session.snapshot, &session.state)
            .filter(|task| session.state.tasks[*task].status.is_active())
            .collect();
        let mut freed = Freed::new();
        for task in &tasks {
            free_of(session, *task, &mut freed);
        }
        Candidate { job: *job, tasks, freed }
    };
    jobs.iter().map(active).collect()
}

/// The groups that would have to leave a domain, so that it has room: those first that free the most for the pods they
/// cost.
fn plan(
    session: &Session<'_>,
    nodes: &[NodeId],
    least: &Vector,
    wanted: i64,
    candidates: &[Candidate],
    at: &BTreeMap<NodeId, Vec<usize>>,
) -> Option<Vec<usize>> {
    let there: BTreeSet<usize> =
        nodes.iter().filter_map(|node| at.get(node)).flatten().copied().collect();
    let count = |chosen: &BTreeSet<usize>| -> i64 {
        nodes
            .iter()
            .map(|node| {
                let mut freed: Option<Vector> = None;
                for index in
                    at.get(node).into_iter().flatten().filter(|index| chosen.contains(index))
                {
                    if let Some(more) = candidates.get(*index).and_then(|it| it.freed.get(node)) {
                        match &mut freed {
                            Some(sum) => crate::snapshot::add(sum, more),
                            None => freed = Some(more.clone()),
                        }
                    }
                }
                room(session, *node, least, freed.as_ref())
            })
            .sum()
    };
    if count(&there) < wanted {
        return None;
    }
    // Those with many pods here and few elsewhere leave first; then whoever turns out not to be needed stays.
    let inside = |index: usize| {
        candidates.get(index).map_or(0, |it| {
            it.freed.keys().filter(|node| nodes.binary_search(node).is_ok()).count()
        })
    };
    let pods = |index: usize| candidates.get(index).map_or(0, |it| it.tasks.len());
    let mut order: Vec<usize> = there.into_iter().collect();
    order.sort_by_key(|index| {
        (std::cmp::Reverse(inside(*index) * 1000 / pods(*index).max(1)), *index)
    });
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for index in &order {
        if count(&chosen) >= wanted {
            break;
        }
        chosen.insert(*index);
    }
    for index in order.iter().rev() {
        if chosen.remove(index) && count(&chosen) < wanted {
            chosen.insert(*index);
        }
    }
    Some(chosen.into_iter().collect())
}
