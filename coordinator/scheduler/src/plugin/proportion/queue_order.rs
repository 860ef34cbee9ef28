//! Which of two queues is first: the first difference decides.

use std::cmp::Ordering;

use crate::{
    framework::{QueueSide, View},
    snapshot::{Quantities, QueueId, Table, minus, plus},
};

use super::{QueueShare, UNLIMITED, within, within_for};

/// How much a resource counts of which a queue may have none.
const NO_SHARE: f64 = 1000.0;

pub(super) fn order(
    view: View<'_>,
    queues: &Table<QueueId, QueueShare>,
    total: Quantities,
    left: QueueSide,
    right: QueueSide,
) -> Ordering {
    let (l, r) = (&queues[left.queue], &queues[right.queue]);
    let spec = |side: QueueSide| &view.snapshot.queues[side.queue];
    let (l_may, r_may) = (l.allocatable(), r.allocatable());
    // Above its fair share in everything: last.
    let shared = view.snapshot.dimensions.shared();
    over(l, shared)
        .cmp(&over(r, shared))
        // Within its quota with the next job: first.
        .then_with(|| {
            let starved = |share: &QueueShare, side: QueueSide| {
                let with = plus(share.allocated, side.request);
                within_for(&side.request, view, with, share.deserved)
            };
            starved(r, right).cmp(&starved(l, left))
        })
        .then_with(|| spec(right).priority.cmp(&spec(left).priority))
        // Uses what it may have none of: later.
        .then_with(|| trespasses(l, l_may, left).cmp(&trespasses(r, r_may, right)))
        .then_with(|| {
            let with = |share: &QueueShare, side: QueueSide| {
                minus(plus(share.allocated, side.request), side.victims)
            };
            dominant(with(l, left), l_may, total).total_cmp(&dominant(with(r, right), r_may, total))
        })
        .then_with(|| {
            dominant(l.allocated, l_may, total).total_cmp(&dominant(r.allocated, r_may, total))
        })
        // May have less of all: first.
        .then_with(|| {
            let less = |a: Quantities, b: Quantities| !within(b, a) && within(a, b);
            if less(l_may, r_may) {
                Ordering::Less
            } else if less(r_may, l_may) {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        })
        // Older: first. Of one age, the right one.
        .then_with(|| {
            if spec(left).created < spec(right).created {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        })
}

fn over(share: &QueueShare, shared: usize) -> bool {
    let mut amounts = share.fair.iter().zip(&share.allocated).take(shared);
    amounts.all(|(fair, allocated)| fair < allocated)
}

fn trespasses(share: &QueueShare, may: Quantities, side: QueueSide) -> bool {
    let has = plus(share.allocated, side.request);
    may.iter().zip(&has).any(|(may, has)| *may == 0.0 && *has > 0.0)
}

/// The largest part that a queue has of what it may have.
fn dominant(has: Quantities, may: Quantities, total: Quantities) -> f64 {
    let parts = has.iter().zip(&may).zip(&total).map(|((has, may), total)| {
        let may = if *may == UNLIMITED { *total } else { *may };
        if may == 0.0 { has * NO_SHARE } else { has / may }
    });
    parts.fold(0.0, f64::max)
}
