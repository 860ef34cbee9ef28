//! What `tests/recorded.rs` does not cover: times and endpoints.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn update(live: Option<&Value>, new: Value, manager: &str, now: &str) -> Value {
    let mut new = new;
    let shape = Shape::builtin("", "ConfigMap");
    track_update(live, &mut new, manager, "", "v1", now, &shape, &Reset::nothing());
    meta::edit(&mut new).insert("uid".to_owned(), json!("1"));
    new
}

fn times(object: &Value) -> Vec<(String, String)> {
    let text = |e: &Value, k: &str| e[k].as_str().unwrap().to_owned();
    managed_fields(object).unwrap().iter().map(|e| (text(e, "manager"), text(e, "time"))).collect()
}

#[test]
fn a_time_moves_only_when_its_manager_takes_a_field() {
    let first = update(None, json!({"data": {"x": "1"}}), "a", "2026-01-01T00:00:00Z");
    let second =
        update(Some(&first), json!({"data": {"x": "1", "y": "1"}}), "b", "2026-01-02T00:00:00Z");
    let third = update(Some(&second), json!({"data": {"y": "1"}}), "b", "2026-01-03T00:00:00Z");
    assert_eq!(
        times(&third),
        [("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-02T00:00:00Z")]
            .map(|(m, t)| (m.to_owned(), t.to_owned()))
    );
}

#[test]
fn a_write_that_changes_only_times_gets_the_old_ones_back() {
    let live = update(None, json!({"data": {"x": "1"}}), "a", "2026-01-01T00:00:00Z");
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["time"] = json!("2026-01-02T00:00:00Z");
    keep_times(&live, &mut new);
    assert_eq!(new, live);
    new["data"]["x"] = json!("2");
    new["metadata"]["managedFields"][0]["time"] = json!("2026-01-02T00:00:00Z");
    keep_times(&live, &mut new);
    assert_eq!(times(&new)[0].1, "2026-01-02T00:00:00Z");
}

#[test]
fn each_endpoint_leaves_alone_what_it_does_not_write() {
    let cases = [
        ("", "Pod", "", json!({"f:spec": {"f:a": {}}})),
        ("", "Pod", "status", json!({"f:status": {"f:a": {}}})),
        ("x.io", "Thing", "", json!({"f:spec": {"f:a": {}}})),
        ("x.io", "Thing", "status", json!({"f:status": {"f:a": {}}})),
    ];
    for (group, kind, subresource, expected) in cases {
        let mut set = FieldSet::of_fields(&[&["spec", "a"], &["status", "a"]]);
        Reset::of(group, kind, subresource, true).filter(&mut set);
        assert_eq!(set.into_fields_v1(), expected, "{kind}/{subresource}");
    }
}
