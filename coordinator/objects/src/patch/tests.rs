//! JSON patches and merge patches.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

#[test]
fn operations_do_what_kubernetes_does_with_them() {
    let live = json!({"a": {"b": 1}, "l": [1, 2, 3], "t/x": 1});
    let cases = [
        (json!([{"op": "test", "path": "/metadata", "value": null}]), Some(live.clone())),
        (json!([{"op": "test", "path": "/a/z", "value": null}]), Some(live.clone())),
        (json!([{"op": "test", "path": "/y/z", "value": null}]), None),
        (json!([{"op": "test", "path": "/a/b", "value": 2}]), None),
        (
            json!([{"op": "add", "path": "/l/-", "value": 4}]),
            Some(json!({"a": {"b": 1}, "l": [1, 2, 3, 4], "t/x": 1})),
        ),
        (
            json!([{"op": "add", "path": "/l/0", "value": 0}]),
            Some(json!({"a": {"b": 1}, "l": [0, 1, 2, 3], "t/x": 1})),
        ),
        (json!([{"op": "add", "path": "/l/9", "value": 0}]), None),
        (json!([{"op": "add", "path": "/q/r", "value": 0}]), None),
        (json!([{"op": "remove", "path": "/t~1x"}]), Some(json!({"a": {"b": 1}, "l": [1, 2, 3]}))),
        (json!([{"op": "remove", "path": "/nothing"}]), None),
        (
            json!([{"op": "remove", "path": "/l/-1"}]),
            Some(json!({"a": {"b": 1}, "l": [1, 2], "t/x": 1})),
        ),
        (
            json!([{"op": "replace", "path": "/a/new", "value": 1}]),
            Some(json!({"a": {"b": 1, "new": 1}, "l": [1, 2, 3], "t/x": 1})),
        ),
        (
            json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
            Some(json!({"a": {}, "c": 1, "l": [1, 2, 3], "t/x": 1})),
        ),
        (
            json!([{"op": "copy", "from": "/a", "path": "/c"}]),
            Some(json!({"a": {"b": 1}, "c": {"b": 1}, "l": [1, 2, 3], "t/x": 1})),
        ),
        (json!([{"op": "bogus", "path": "/a"}]), None),
    ];
    for (patch, expected) in cases {
        let result = json_patch(&live, &patch);
        match expected {
            Some(expected) => assert_eq!(result.unwrap(), expected, "{patch}"),
            None => assert_eq!(result.unwrap_err().code, 422, "{patch}"),
        }
    }
}

#[test]
fn a_patch_that_is_no_list_or_too_long_is_refused() {
    assert_eq!(json_patch(&json!({}), &json!({})).unwrap_err().code, 400);
    assert_eq!(json_patch(&json!({}), &json!(["x"])).unwrap_err().code, 400);
    let many = vec![json!({"op": "test", "path": "/a", "value": null}); MAX_OPERATIONS + 1];
    let status = json_patch(&json!({}), &Value::Array(many)).unwrap_err();
    assert_eq!((status.code, &*status.reason), (413, "RequestEntityTooLarge"));
}

#[test]
fn copies_that_blow_up_are_refused() {
    let mut patch = vec![json!({"op": "add", "path": "/a", "value": vec!["x".repeat(1000); 100]})];
    patch.extend((0..8).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/0"})));
    assert_eq!(json_patch(&json!({}), &Value::Array(patch)).unwrap_err().code, 422);
}

#[test]
fn copies_that_dig_deep_are_refused() {
    let dig = |times: usize| {
        let mut patch = vec![json!({"op": "add", "path": "/a", "value": {}})];
        for n in 0..times {
            patch.push(json!({"op": "copy", "from": "/a", "path": "/b"}));
            let bottom = "/a".repeat(1 << n);
            patch.push(json!({"op": "move", "from": "/b", "path": format!("{bottom}/a")}));
        }
        json_patch(&json!({}), &Value::Array(patch))
    };
    assert_eq!(depth(&dig(6).unwrap()), 65);
    assert_eq!(dig(7).unwrap_err().code, 422);
    assert_eq!(dig(16).unwrap_err().code, 422);
}

#[test]
fn a_merge_patch_deletes_by_null_and_replaces_lists() {
    let live = json!({"a": {"b": 1, "c": 2}, "l": [1]});
    let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [{"x": null}]});
    assert_eq!(merge_patch(live, &patch), json!({"a": {"c": 2, "d": {"f": 1}}, "l": [{}]}));
}
