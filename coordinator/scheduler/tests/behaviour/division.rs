//! Fair shares: known divisions, and laws of all.

use muster_scheduler::plugin::proportion::division::{Claimant, divide};
use proptest::prelude::*;

const GPU: usize = 2;

/// A queue that asks for accelerators only: its priority, quota, limit, weight, request and usage.
fn queue(
    name: &str,
    priority: i64,
    [deserved, limit, weight, request, usage]: [f64; 5],
) -> Claimant<'_, 3> {
    let gpu = |amount| [0.0, 0.0, amount];
    Claimant {
        name,
        parent: None,
        created: None,
        priority,
        deserved: gpu(deserved),
        limit: gpu(limit),
        weight: gpu(weight),
        request: gpu(request),
        usage: gpu(usage),
    }
}

fn shares(queues: &[Claimant<'_, 3>], amount: f64) -> Vec<f64> {
    divide(queues, [0.0, 0.0, amount], 1.0).into_iter().map(|share| share[GPU]).collect()
}

#[test]
fn rests_of_important_queues_may_go_to_others() {
    let want = [0.0, -1.0, 1.0, 10.0, 0.0];
    let queues = [queue("hi1", 2, want), queue("hi2", 2, want), queue("lo", 1, want)];
    assert_eq!(shares(&queues, 5.0), [2.0, 2.0, 1.0]);
}

#[test]
fn names_break_ties() {
    let want = [0.0, -1.0, 1.0, 10.0, 0.0];
    let queues = [queue("c", 1, want), queue("b", 1, want), queue("a", 1, want)];
    assert_eq!(shares(&queues, 10.0), [3.0, 3.0, 4.0]);
}

#[test]
fn past_usage_lowers_a_share() {
    let used = |usage| [0.0, -1.0, 1.0, 16.0, usage];
    assert_eq!(shares(&[queue("a", 1, used(0.5)), queue("b", 1, used(0.0))], 16.0), [5.0, 11.0]);
    let both = [queue("a", 1, used(1.0)), queue("b", 1, used(1.0))];
    assert_eq!(shares(&both, 10.0), [0.0, 0.0], "nobody pulls, nothing is divided");
}

#[test]
fn a_quota_is_kept_even_if_there_is_not_enough() {
    let want = [8.0, -1.0, 1.0, 10.0, 0.0];
    assert_eq!(shares(&[queue("a", 1, want), queue("b", 1, want)], 10.0), [8.0, 8.0]);
}

#[test]
fn neither_a_limit_of_zero_nor_a_weight_of_zero_gets_anything() {
    let queues =
        [queue("a", 1, [0.0, 0.0, 1.0, 10.0, 0.0]), queue("b", 1, [0.0, -1.0, 0.0, 10.0, 0.0])];
    assert_eq!(shares(&queues, 10.0), [0.0, 0.0]);
}

#[test]
fn a_queue_below_a_missing_or_cyclic_one_gets_nothing() {
    let want = [0.0, -1.0, 1.0, 10.0, 0.0];
    let mut queues = [queue("a", 1, want), queue("b", 1, want), queue("c", 1, want)];
    queues[0].parent = Some(7);
    queues[1].parent = Some(1);
    assert_eq!(shares(&queues, 10.0), [0.0, 0.0, 10.0]);
}

prop_compose! {
    fn any_queue()(
        priority in 0i64..3, deserved in prop_oneof![Just(-1.0), (0u8..20).prop_map(f64::from)],
        limit in prop_oneof![Just(-1.0), (0u8..30).prop_map(f64::from)], weight in 0u8..4,
        request in (0u16..400).prop_map(|tenths| f64::from(tenths) / 10.0), usage in 0u8..10, parent in prop::option::of(0usize..8),
    ) -> (i64, [f64; 5], Option<usize>) {
        (priority, [deserved, limit, f64::from(weight), request, f64::from(usage) / 10.0], parent)
    }
}

proptest! {
    #[test]
    fn no_share_is_above_limit_or_request_and_none_is_lost(
        drawn in prop::collection::vec(any_queue(), 1..8), amount in 0u16..64,
    ) {
        let names: Vec<String> = (0..drawn.len()).map(|at| format!("q{at}")).collect();
        let mut queues: Vec<_> =
            drawn.iter().zip(&names).map(|(draw, name)| queue(name, draw.0, draw.1)).collect();
        let flat = shares(&queues, f64::from(amount));
        for (queue, share) in queues.iter().zip(&flat) {
            let cap = if queue.limit[GPU] < 0.0 { f64::INFINITY } else { queue.limit[GPU] };
            // A rest of rounding is a whole unit, so that the last one may go above what was asked for.
            prop_assert!(*share <= cap.min(queue.request[GPU]) + 1.0, "{queue:?} {share}");
            prop_assert!(*share >= 0.0);
        }
        let quota = |queue: &Claimant<'_, 3>| {
            let own = if queue.deserved[GPU] < 0.0 { f64::from(amount) } else { queue.deserved[GPU] };
            let cap = if queue.limit[GPU] < 0.0 { f64::INFINITY } else { queue.limit[GPU] };
            own.min(queue.request[GPU].min(cap))
        };
        let quotas: f64 = queues.iter().map(quota).sum();
        let sum: f64 = flat.iter().sum();
        prop_assert!(sum <= quotas.max(f64::from(amount)) + 1e-9, "{sum} of {amount}, quotas {quotas}");
        // Order of the list does not matter.
        queues.reverse();
        let mut reversed = shares(&queues, f64::from(amount));
        reversed.reverse();
        prop_assert_eq!(&flat, &reversed);
        // Any forest is divided without end or panic.
        queues.reverse();
        for (queue, draw) in queues.iter_mut().zip(&drawn) {
            queue.parent = draw.2;
        }
        prop_assert!(shares(&queues, f64::from(amount)).iter().all(|share| share.is_finite()));
    }
}
