//! Turns and reports of the scheduler's state.

use super::*;

fn mk(name: &str) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": name, "uid": name}}))
}

#[test]
fn a_turn_of_a_pod_that_is_gone_does_not_end_the_round() {
    let mut state = State::default();
    let (gone, here) = (mk("gone"), mk("here"));
    state.pods.insert("here".to_owned(), here.clone());
    state.line_up(&gone);
    state.line_up(&here);
    assert_eq!(state.next(), Some(here));
    assert_eq!(state.next(), None);
}

#[test]
fn only_the_newest_report_on_a_pod_is_written() {
    let mut state = State::default();
    state.pods.insert("p".to_owned(), mk("p"));
    let old = state.begin_report("p");
    assert!(state.report_on("p", old).is_some());
    let new = state.begin_report("p");
    assert!(state.report_on("p", old).is_none());
    state.end_report("p", old);
    assert!(state.report_on("p", new).is_some(), "an old report does not end a newer one");
    state.end_report("p", new);
    assert!(state.report_on("p", new).is_none() && state.report_on("p", old).is_none());
}
