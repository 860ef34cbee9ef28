//! What the cache believes when the watch and our own writes disagree.

use serde_json::json;

use super::super::kind::PODS;
use super::*;

fn pod(name: &str, uid: &str, revision: u64) -> Value {
    json!({"metadata": {"namespace": "a", "name": name, "uid": uid,
        "resourceVersion": revision.to_string()}})
}

fn revisions(cache: &Cache) -> Vec<(String, u64)> {
    let objects = cache.in_namespace("a");
    objects.iter().map(|o| (meta::name(o).to_owned(), revision(o))).collect()
}

#[test]
fn an_answer_ahead_of_the_watch_is_taken_and_the_older_event_changes_nothing() {
    let cache = Cache::new(PODS.clone(), false);
    cache.note(&pod("x", "u", 7));
    cache.state.lock().changed(pod("x", "u", 5));
    assert_eq!(revisions(&cache), [("x".to_owned(), 7)]);
}

#[test]
fn an_answer_behind_the_watch_does_not_bring_a_deleted_object_back() {
    let cache = Cache::new(PODS.clone(), false);
    cache.state.lock().changed(pod("x", "u", 5));
    cache.state.lock().deleted(&pod("x", "u", 6));
    cache.note(&pod("x", "u", 5));
    assert_eq!(revisions(&cache), []);
}

#[test]
fn a_new_list_drops_what_it_lacks_but_keeps_what_is_younger_than_it() {
    let cache = Cache::new(PODS.clone(), false);
    cache.state.lock().replace(vec![pod("old", "u1", 3)], 3);
    cache.note(&pod("young", "u2", 9));
    cache.state.lock().replace(vec![], 8);
    assert_eq!(revisions(&cache), [("young".to_owned(), 9)]);
}

#[test]
fn a_name_taken_by_another_object_is_told_as_an_end_and_a_beginning() {
    let cache = Cache::new(PODS.clone(), false);
    let told: Arc<Mutex<Vec<(bool, bool)>>> = Arc::default();
    let sink = told.clone();
    cache.on_change(move |before, after| sink.lock().push((before.is_some(), after.is_some())));
    cache.state.lock().changed(pod("x", "u1", 1));
    cache.state.lock().changed(pod("x", "u2", 4));
    assert_eq!(*told.lock(), [(false, true), (true, false), (false, true)]);
}

#[test]
fn the_end_of_an_older_object_leaves_the_younger_of_that_name() {
    let cache = Cache::new(PODS.clone(), false);
    cache.state.lock().changed(pod("x", "u1", 1));
    cache.note(&pod("x", "u2", 5));
    cache.state.lock().deleted(&pod("x", "u1", 3));
    assert_eq!(revisions(&cache), [("x".to_owned(), 5)]);
}

#[test]
fn a_late_handler_is_told_of_what_there_is() {
    let cache = Cache::new(PODS.clone(), false);
    cache.state.lock().changed(pod("x", "u1", 1));
    let count: Arc<Mutex<usize>> = Arc::default();
    let sink = count.clone();
    cache.on_change(move |_, _| *sink.lock() += 1);
    assert_eq!(*count.lock(), 1);
}
