use super::*;
use muster_objects::select::{FieldSelector, LabelSelector};
use serde_json::json;

fn mk_pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "labels": {"app": name}}, "spec": {"nodeName": node}})
}

fn key(name: &str) -> Key {
    ("a".into(), name.into())
}

fn store() -> Store {
    Store::new(Limits { log: 8, backlog: 4 })
}

fn names(objects: &Snapshot) -> Vec<String> {
    objects.keys().map(|k| k.1.clone()).collect()
}

fn node_filter(node: &str) -> Filter {
    let fields =
        FieldSelector::parse(&format!("spec.nodeName={node}"), &["spec.nodeName"]).unwrap();
    Filter { fields: Some(fields), ..Filter::default() }
}

#[test]
fn a_write_from_an_old_revision_is_refused() {
    let store = store();
    let first = store.put("pods", key("x"), Expect::Absent, mk_pod("x", "")).unwrap();
    let second = Expect::Revision(first.revision);
    store.put("pods", key("x"), second, mk_pod("x", "n1")).unwrap();
    assert_eq!(store.put("pods", key("x"), second, mk_pod("x", "n2")).unwrap_err(), Raced);
    assert_eq!(store.put("pods", key("x"), Expect::Absent, mk_pod("x", "")).unwrap_err(), Raced);
}

#[test]
fn a_snapshot_of_the_past_undoes_the_later_changes() {
    let store = store();
    let x = store.put("pods", key("x"), Expect::Absent, mk_pod("x", "")).unwrap();
    let then = store.put("pods", key("y"), Expect::Absent, mk_pod("y", "")).unwrap().revision;
    store.remove("pods", &key("x"), Expect::Revision(x.revision), x.value.clone()).unwrap();
    store.put("pods", key("z"), Expect::Absent, mk_pod("z", "")).unwrap();
    assert_eq!(names(&store.snapshot("pods").1), ["y", "z"]);
    assert_eq!(names(&store.snapshot_at("pods", then).unwrap()), ["x", "y"]);
}

#[test]
fn a_revision_that_fell_out_of_the_log_is_compacted() {
    let store = store();
    let first = store.put("pods", key("p0"), Expect::Absent, mk_pod("p0", "")).unwrap().revision;
    for i in 1..10 {
        let name = format!("p{i}");
        store.put("pods", key(&name), Expect::Absent, mk_pod(&name, "")).unwrap();
    }
    assert!(store.subscribe("pods", first, Filter::default()).is_err());
    assert!(store.snapshot_at("pods", first).is_err());
    assert!(store.subscribe("pods", store.revision(), Filter::default()).is_ok());
}

#[test]
fn a_watcher_of_one_node_sees_only_what_touches_that_node() {
    let store = store();
    let mut on_one = store.subscribe("pods", 1, node_filter("n1")).unwrap().changes;
    let mut all = store.subscribe("pods", 1, Filter::default()).unwrap().changes;
    let x = store.put("pods", key("x"), Expect::Absent, mk_pod("x", "")).unwrap();
    store.put("pods", key("y"), Expect::Absent, mk_pod("y", "n2")).unwrap();
    store.put("pods", key("x"), Expect::Revision(x.revision), mk_pod("x", "n1")).unwrap();
    assert_eq!(on_one.try_recv().unwrap().revision, 4);
    assert!(on_one.try_recv().is_err());
    assert_eq!(std::iter::from_fn(|| all.try_recv().ok()).count(), 3);
}

#[test]
fn a_watcher_that_does_not_keep_up_is_cut_off_and_the_writer_goes_on() {
    let store = store();
    let mut slow = store.subscribe("pods", 1, Filter::default()).unwrap().changes;
    for i in 0..6 {
        let name = format!("p{i}");
        store.put("pods", key(&name), Expect::Absent, mk_pod(&name, "")).unwrap();
    }
    let received = std::iter::from_fn(|| slow.try_recv().ok()).count();
    assert_eq!(received, 4);
    assert!(slow.is_closed());
}

#[test]
fn the_replay_holds_what_came_after_the_asked_revision_and_matches() {
    let store = store();
    let x = store.put("pods", key("x"), Expect::Absent, mk_pod("x", "")).unwrap();
    store.put("pods", key("y"), Expect::Absent, mk_pod("y", "")).unwrap();
    let labels = LabelSelector::parse("app=y").unwrap();
    let filter = Filter { labels: Some(labels), ..Filter::default() };
    let replay = store.subscribe("pods", x.revision, filter).unwrap().replay;
    assert_eq!(replay.iter().map(|c| c.revision).collect::<Vec<_>>(), [3]);
}
