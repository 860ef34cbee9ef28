use super::*;
use crate::backoff::{FIRST, LONGEST, PANICKED, SHORTEST_CUT};

const FAILED: Ended = Ended::Failed { fraction: 0.0, within: None };

fn queue(keys: &[&'static str], now: Instant) -> WorkQueue<&'static str, u32> {
    let mut queue = WorkQueue::default();
    keys.iter().for_each(|key| queue.add(key, now));
    queue
}

/// Takes the only key that is ready, and fails.
fn fail(queue: &mut WorkQueue<&'static str, u32>, now: Instant) {
    let (key, state) = queue.take().unwrap();
    queue.put_back(&key, state, FAILED, now);
}

#[test]
fn each_key_is_taken_once_and_again_only_when_it_is_back() {
    let now = Instant::now();
    let mut queue = queue(&["a", "b", "a"], now);
    assert_eq!(queue.take(), Some(("a", 0)));
    queue.add(&"a", now);
    assert_eq!(queue.take(), Some(("b", 0)));
    assert_eq!(queue.take(), None, "a task has it");
    queue.put_back(&"a", 7, Ended::Done(None), now);
    assert_eq!(queue.take(), Some(("a", 7)), "a change while it ran counts");
    queue.put_back(&"a", 8, Ended::Done(None), now);
    assert_eq!(queue.take(), None);
}

#[test]
fn keys_are_taken_in_the_order_in_which_they_changed() {
    let now = Instant::now();
    let mut queue = queue(&["c", "a", "b"], now);
    let taken: Vec<_> = std::iter::from_fn(|| queue.take()).map(|(key, _)| key).collect();
    assert_eq!(taken, ["c", "a", "b"]);
}

#[test]
fn a_failing_key_comes_later_and_later() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    let mut pauses = Vec::new();
    for _ in 0..16 {
        fail(&mut queue, now);
        let due = queue.due().unwrap();
        queue.promote(due - Duration::from_millis(1));
        assert_eq!(queue.take(), None);
        pauses.push(due - now);
        queue.promote(due);
    }
    assert_eq!(pauses[..3], [FIRST, FIRST * 2, FIRST * 4]);
    assert_eq!(pauses.last(), Some(&LONGEST));
}

#[test]
fn a_key_that_has_something_else_to_do_is_tried_by_then() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    for _ in 0..16 {
        fail(&mut queue, now);
        queue.promote(now + LONGEST);
    }
    for (within, expected) in [(5, 5), (0, 1), (600, 120)] {
        let (key, state) = queue.take().unwrap();
        let within = Some(Duration::from_secs(within));
        queue.put_back(&key, state, Ended::Failed { fraction: 0.0, within }, now);
        assert_eq!(queue.due(), Some(now + Duration::from_secs(expected)));
        queue.promote(now + LONGEST);
    }
}

#[test]
fn a_change_cuts_a_long_pause_short() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    for _ in 0..16 {
        fail(&mut queue, now);
        queue.promote(now + LONGEST);
    }
    fail(&mut queue, now);
    assert_eq!(queue.due(), Some(now + LONGEST));
    queue.add(&"a", now);
    assert_eq!((queue.take(), queue.due()), (None, Some(now + SHORTEST_CUT)));
    queue.promote(now + SHORTEST_CUT);
    assert_eq!(queue.take(), Some(("a", 0)));
    assert_eq!(queue.due(), None, "it waits once");
}

#[test]
fn a_change_does_not_cut_a_short_pause_short() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    fail(&mut queue, now);
    queue.add(&"a", now);
    assert_eq!((queue.take(), queue.due()), (None, Some(now + FIRST)));
    queue.add(&"a", now + FIRST);
    assert_eq!(queue.take(), Some(("a", 0)), "the pause is over");
}

#[test]
fn failing_keys_alone_are_woken_by_what_may_help_them() {
    let now = Instant::now();
    let mut queue = queue(&["a", "b"], now);
    fail(&mut queue, now);
    let (b, state) = queue.take().unwrap();
    queue.put_back(&b, state, Ended::Done(Some(LONGEST)), now);
    queue.add_failed(now + FIRST);
    assert_eq!(queue.take(), Some(("a", 0)));
    assert_eq!(queue.take(), None, "b has not failed");
    queue.put_back(&"a", 1, Ended::Done(None), now);
    queue.add_failed(now);
    assert_eq!(queue.take(), None, "a does not fail any more");
}

#[test]
fn a_key_that_asked_for_another_reconcile_gets_it_in_time_and_earlier_by_a_change() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    let (a, state) = queue.take().unwrap();
    queue.put_back(&a, state, Ended::Done(Some(LONGEST)), now);
    queue.promote(now + LONGEST);
    let (a, state) = queue.take().unwrap();
    queue.put_back(&a, state, Ended::Done(Some(LONGEST)), now);
    queue.add(&a, now);
    assert_eq!(queue.take(), Some(("a", 0)));
    assert_eq!(queue.due(), None);
}

#[test]
fn what_is_gone_is_forgotten_unless_it_is_there_again() {
    let now = Instant::now();
    let mut queue = queue(&["a", "b"], now);
    let (a, _) = queue.take().unwrap();
    let (b, _) = queue.take().unwrap();
    queue.add(&a, now);
    queue.put_back(&a, 5, Ended::Gone, now);
    queue.put_back(&b, 5, Ended::Gone, now);
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.take(), Some(("a", 0)), "another one of its name");
}

#[test]
fn a_key_that_panicked_rests_whatever_changes() {
    let now = Instant::now();
    let mut queue = queue(&["a"], now);
    let (a, _) = queue.take().unwrap();
    queue.add(&a, now);
    queue.put_back(&a, 5, Ended::Panicked, now);
    queue.add(&a, now);
    assert_eq!((queue.take(), queue.due()), (None, Some(now + PANICKED)));
    queue.promote(now + PANICKED);
    assert_eq!(queue.take(), Some(("a", 0)), "its state is lost");
}
