//! Laws of apply, over random configurations of a custom resource.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn shape() -> Shape {
    let text = json!({"type": "string"});
    Shape::from_openapi(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer"},
        "m": {"type": "object", "additionalProperties": text},
        "l": {"type": "array", "items": text},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": text, "v": text, "w": text}}}}}}}),
    )
}

fn run(live: Option<&Value>, config: &Value, manager: &str, now: &str) -> Value {
    let (shape, reset) = (shape(), Reset::nothing());
    apply(Apply {
        live,
        config,
        manager,
        force: true,
        subresource: "",
        api_version: "x.io/v1",
        kind: "Thing",
        now,
        shape: &shape,
        reset: &reset,
    })
    .expect("forced")
}

fn object(spec: Map<String, Value>) -> Value {
    let mut object = json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}});
    // An empty spec would be a leaf that all configurations share.
    if !spec.is_empty() {
        object["spec"] = Value::Object(spec);
    }
    object
}

/// A configuration of the fields with this prefix in their keys, so that two of them are disjoint.
fn config(prefix: &'static str) -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["a", "b", "c"]);
    let names = move || prop::collection::btree_set(word(), 0..3);
    (names(), names(), names(), word()).prop_map(move |(map, set, keyed, value)| {
        let map: Map<String, Value> =
            map.iter().map(|k| (format!("{prefix}{k}"), json!(value))).collect();
        let set: Vec<String> = set.iter().map(|k| format!("{prefix}{k}")).collect();
        let keyed: Vec<Value> =
            keyed.iter().map(|k| json!({"a": format!("{prefix}{k}"), "v": value})).collect();
        let mut spec = Map::new();
        if !map.is_empty() {
            spec.insert("m".to_owned(), Value::Object(map));
        }
        if !set.is_empty() {
            spec.insert("s".to_owned(), json!(set));
        }
        if !keyed.is_empty() {
            spec.insert("k".to_owned(), Value::Array(keyed));
        }
        object(spec)
    })
}

/// The object with its lists sorted, as order is not part of these laws.
fn unordered(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            for child in map.values_mut() {
                *child = unordered(child.take());
            }
        }
        Value::Array(items) => items.sort_by_key(Value::to_string),
        _ => {}
    }
    value
}

const ONE: &str = "2026-01-01T00:00:00Z";
const TWO: &str = "2026-01-02T00:00:00Z";

proptest! {
    #[test]
    fn apply_is_idempotent(first in config(""), second in config("")) {
        let live = run(None, &first, "a", ONE);
        let once = run(Some(&live), &second, "b", ONE);
        let twice = run(Some(&once), &second, "b", TWO);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn disjoint_managers_commute(first in config("x"), second in config("y")) {
        let ab = run(Some(&run(None, &first, "a", ONE)), &second, "b", ONE);
        let ba = run(Some(&run(None, &second, "b", ONE)), &first, "a", ONE);
        prop_assert_eq!(unordered(ab), unordered(ba));
    }

    #[test]
    fn managed_sets_name_only_what_is_there(configs in prop::collection::vec((config(""), 0..3usize), 1..5)) {
        let mut live: Option<Value> = None;
        for (config, who) in configs {
            let next = run(live.as_ref(), &config, ["a", "b", "c"][who], ONE);
            let there = fields::with_named(&fields(&next, &shape()), &shape());
            for entry in managed::decode(managed::managed_fields(&next).cloned().unwrap_or_default()).unwrap() {
                let mut rest = entry.fields.clone();
                rest.subtract(&there);
                prop_assert!(rest.is_empty(), "{rest:?} of {next}");
            }
            live = Some(next);
        }
    }

    #[test]
    fn an_empty_apply_gives_up_exactly_what_the_manager_alone_owned(
        first in config(""),
        second in config(""),
    ) {
        let alone = run(None, &second, "b", ONE);
        let both = run(Some(&run(None, &first, "a", ONE)), &second, "b", ONE);
        let nothing = object(Map::new());
        let left = run(Some(&both), &nothing, "a", ONE);
        // What is left are the fields of b, with its values.
        let set = fields(&left, &shape());
        let expected = fields(&alone, &shape());
        let mut ours = set.clone();
        let mut theirs = expected.clone();
        let managed = FieldSet::of_fields(&[&["metadata", "managedFields"], &["spec"]]);
        ours.subtract(&managed);
        theirs.subtract(&managed);
        prop_assert_eq!(ours, theirs, "{} after {}", left, both);
    }
}
