//! Orders that were refused, and which of them are said again.

use muster_proto::delivery::REASONS;

use super::super::tables::TRANSIENT;
use super::*;

#[test]
fn every_transient_reason_is_one_that_agents_give() {
    for reason in TRANSIENT {
        assert!(REASONS.contains(&reason), "{reason}");
    }
}

#[test]
fn what_was_refused_for_a_reason_that_may_be_gone_is_said_again() {
    for reason in REASONS {
        let (mut registry, session) = node_with(&["a"]);
        let table = blob("t");
        let order = delivery("a", 1, &table);
        registry.set_desired("n", order.clone(), table.clone()).unwrap();
        assert_eq!(registry.retry("n", session, 8), [], "nothing was refused");
        registry.ack("n", session, refused(&order, reason));
        let again = Order::Deliver { delivery: order.clone(), blob: table };
        let expected = if TRANSIENT.contains(reason) { vec![again.clone()] } else { vec![] };
        assert_eq!(registry.retry("n", session, 8), expected, "{reason}");
        assert_eq!(registry.retry("n", session, 8), [], "once for every refusal");
        assert_eq!(registry.tables("n").unwrap().refused[&order.place].reason, *reason);
        registry.ack("n", session, refused(&order, "disk-full"));
        assert_eq!(registry.retry("n", session + 1, 8), [], "not to another stream");
        assert_eq!(registry.retry("n", session, 8), [again], "for as long as it takes");
        registry.ack("n", session, refused(&order, "disk-full"));
        registry.ack("n", session, delivered(&order));
        assert_eq!(registry.retry("n", session, 8), [], "it is there");
    }
}

#[test]
fn what_is_not_wanted_any_more_is_not_said_again() {
    let (mut registry, session) = node_with(&["a", "b"]);
    let table = blob("t");
    let (old, new) = (delivery("a", 1, &table), delivery("a", 2, &table));
    registry.set_desired("n", old.clone(), table.clone()).unwrap();
    registry.ack("n", session, refused(&old, "disk-full"));
    registry.set_desired("n", new.clone(), table.clone()).unwrap();
    assert_eq!(registry.retry("n", session, 8), [], "the new one is on its way");
    registry.ack("n", session, refused(&old, "disk-full"));
    assert_eq!(registry.retry("n", session, 8), [], "the old one was replaced");
    registry.ack("n", session, refused(&new, "disk-full"));
    change(&mut registry, "n", session, pods(false, &[], &["a"]));
    assert_eq!(registry.retry("n", session, 8), [], "the pod is gone");
    assert!(registry.tables("n").unwrap().refused.is_empty());
}

#[test]
fn a_retire_that_was_refused_is_said_again() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    let order = delivery("a", 3, &table);
    registry.clear_desired("n", &order.place, 3);
    registry.ack("n", session, refused(&order, "read-only"));
    let retire = Order::Retire { place: order.place.clone(), generation: 3 };
    assert_eq!(registry.retry("n", session, 8), [retire]);
}

#[test]
fn few_orders_are_said_again_at_once_and_all_get_their_turn() {
    let uids = ["a", "b", "c", "d", "e"];
    let (mut registry, session) = node_with(&uids);
    let table = blob("t");
    for uid in uids {
        let order = delivery(uid, 1, &table);
        registry.set_desired("n", order.clone(), table.clone()).unwrap();
        registry.ack("n", session, refused(&order, "volume-missing"));
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        for order in registry.retry("n", session, 2) {
            seen.push(order.place().pod_uid.clone());
            registry.ack("n", session, refused(&delivery(&seen[seen.len() - 1], 1, &table), "io"));
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e", "a"]);
}

#[test]
fn a_content_that_was_dropped_between_two_tries_is_sent_each_time() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    let order = delivery("a", 1, &table);
    registry.set_desired("n", order.clone(), table).unwrap();
    for _ in 0..3 * MOST_RETRIES {
        registry.ack("n", session, refused(&order, "disk-full"));
        assert_eq!(registry.retry("n", session, 8).len(), 1);
        assert!(registry.ack("n", session, refused(&order, "blob-missing")).is_some());
    }
}
