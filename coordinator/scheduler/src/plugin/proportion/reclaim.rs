//! Who may reclaim, from whom, and which ways of doing so are lawful.
//!
//! A queue may reclaim up to its fair share. Within its quota it takes from queues that are above theirs; above it, only
//! from queues that are above what they may have.

use std::collections::BTreeMap;

use crate::{
    framework::{Scenario, Victim, View},
    snapshot::{
        FIRST_KIND, JobId, KINDS, NOTHING, Quantities, QueueId, Table, TaskId, minus, plus,
    },
    state::Gang,
};

use super::{Proportion, QueueShare, UNLIMITED, within_for};

/// Which of the things that queues share a scenario touches.
type Touched = [bool; FIRST_KIND + KINDS];

/// Whether a group's queue stays within its fair share.
pub(super) fn can(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    gang: &Gang,
    request: Quantities,
) -> bool {
    let job = &view.snapshot.jobs[gang.job];
    let Some(queue) = job.queue else { return false };
    let share = &queues[queue];
    within_for(&request, view, plus(share.allocated, request), share.fair)
        && (job.preemptible
            || within_for(&request, view, plus(share.fixed, request), share.deserved))
}

/// Whether a group's queue has something that another may take back.
pub(super) fn may_lose(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    pending: &Gang,
    request: Quantities,
    victim: JobId,
) -> bool {
    let jobs = &view.snapshot.jobs;
    let Some((taker, loser)) = below_common(view, jobs[pending.job].queue, jobs[victim].queue)
    else {
        return true;
    };
    let (taker, loser) = (&queues[taker], &queues[loser]);
    if !within_for(&request, view, plus(taker.allocated, request), taker.deserved) {
        return !within_for(&request, view, loser.allocated, loser.allocatable());
    }
    let mut below = false;
    for ((asked, deserved), has) in request.iter().zip(&loser.deserved).zip(&loser.allocated) {
        if *asked <= 0.0 || *deserved == UNLIMITED {
            continue;
        }
        if has > deserved {
            return true;
        }
        below |= has < deserved;
    }
    !below
}

/// Whether a way to reclaim leaves nobody with less than is due, and the taker with no more than others.
pub(super) fn is_lawful(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    saturation: f64,
    scenario: &Scenario<'_>,
) -> bool {
    let jobs = &view.snapshot.jobs;
    let taker = jobs[scenario.preemptor.job].queue;
    let mut units: BTreeMap<QueueId, Vec<Quantities>> = BTreeMap::new();
    for victim in scenario.victims {
        let lost = lost_by(view, victim);
        if let (Some(queue), false) = (jobs[victim.job].queue, lost.is_empty()) {
            units.entry(queue).or_default().extend(lost);
        }
    }
    let mut left: BTreeMap<QueueId, Quantities> = BTreeMap::new();
    let mut involved: BTreeMap<QueueId, Touched> = BTreeMap::new();
    for (queue, lost) in &units {
        let Some((up, down)) = below_common(view, taker, Some(*queue)) else { return false };
        let (up_share, down_share) = (&queues[up], &queues[down]);
        let touched = lost
            .iter()
            .fold(Touched::default(), |sum, unit| or(sum, unit.map(|amount| amount > 0.0)));
        for unit in lost {
            let rest = *left.entry(down).or_insert(down_share.allocated);
            let asked = &scenario.request;
            let keeps_share = !within_for(asked, view, rest, down_share.allocatable());
            let restores_quota =
                within_for(asked, view, plus(up_share.allocated, *asked), up_share.deserved)
                    && !within_for(asked, view, rest, down_share.deserved);
            if !keeps_share && !restores_quota {
                return false;
            }
            for above in Proportion::up(view, Some(*queue)) {
                let rest = left.entry(above).or_insert(queues[above].allocated);
                *rest = minus(*rest, *unit);
                let seen = involved.entry(above).or_default();
                *seen = or(*seen, touched);
            }
        }
    }
    stays_behind(view, queues, saturation, scenario, &mut left, &involved)
}

fn or(mut a: Touched, b: Touched) -> Touched {
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
    a
}

/// Whether at every level the taker ends with a smaller part of its share than those that lose, or within its share.
fn stays_behind(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    saturation: f64,
    scenario: &Scenario<'_>,
    left: &mut BTreeMap<QueueId, Quantities>,
    involved: &BTreeMap<QueueId, Touched>,
) -> bool {
    let job = &view.snapshot.jobs[scenario.preemptor.job];
    let asks = scenario.request.map(|amount| amount > 0.0);
    let parent = |queue: QueueId| view.snapshot.queues[queue].parent;
    for level in Proportion::up(view, job.queue) {
        let share = &queues[level];
        let has = plus(left.get(&level).copied().unwrap_or(share.allocated), scenario.request);
        if let Some(rest) = left.get_mut(&level) {
            *rest = has;
        }
        for (sibling, rest) in left.iter() {
            if *sibling == level || parent(*sibling) != parent(level) {
                continue;
            }
            let looks = or(asks, involved.get(sibling).copied().unwrap_or_default());
            let other = &queues[*sibling];
            let rows = looks.iter().zip(has).zip(share.fair).zip(*rest).zip(other.fair);
            for ((((look, has), fair), other_has), other_fair) in rows {
                if !look || (fair == UNLIMITED && other_fair == UNLIMITED) {
                    continue;
                }
                let (mine, theirs) = (ratio(has, fair), ratio(other_has, other_fair));
                if mine > 1.0 && other_fair > 0.0 && mine * saturation >= theirs {
                    return false;
                }
            }
        }
        let fixed = plus(share.fixed, scenario.request);
        if !job.preemptible && !within_for(&scenario.request, view, fixed, share.deserved) {
            return false;
        }
    }
    true
}

fn ratio(has: f64, fair: f64) -> f64 {
    if fair == 0.0 {
        if has > 0.0 { f64::INFINITY } else { 0.0 }
    } else if fair == UNLIMITED {
        0.0
    } else {
        has / fair
    }
}

/// What a group loses, in pieces: each surplus pod by itself, what it needs as one. Pods that found another place are
/// not lost, where moving is allowed.
fn lost_by(view: View<'_>, victim: &Victim) -> Vec<Quantities> {
    let snapshot = view.snapshot;
    let (mut pieces, mut core) = (Vec::new(), None);
    let lost = |task: TaskId| {
        let state = &view.state.tasks[task];
        let stays = snapshot.parameters.allow_consolidating_reclaim && state.status.is_active();
        (!stays).then_some(state.accepted)
    };
    for set in &snapshot.jobs[victim.job].pod_sets {
        let tasks = victim.tasks.iter().filter(|task| snapshot.tasks[**task].pod_set == Some(*set));
        for (at, task) in tasks.enumerate() {
            let Some(amount) = lost(*task) else { continue };
            if at < snapshot.pod_sets[*set].min as usize {
                core = Some(plus(core.unwrap_or(NOTHING), amount));
            } else {
                pieces.push(amount);
            }
        }
    }
    pieces.extend(core);
    pieces
}

/// The ancestors of two queues just below the queue that is above both.
fn below_common(
    view: View<'_>,
    one: Option<QueueId>,
    other: Option<QueueId>,
) -> Option<(QueueId, QueueId)> {
    let path = |queue: Option<QueueId>| {
        let mut path: Vec<QueueId> = Proportion::up(view, queue).collect();
        path.reverse();
        path
    };
    let (one, other) = (path(one), path(other));
    let mut pairs = one.iter().copied().zip(other.iter().copied());
    let last = pairs.clone().next_back();
    pairs.find(|(a, b)| a != b).or(last)
}
