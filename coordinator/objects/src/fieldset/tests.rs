//! Sets of fields as sets, and how they are written.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn set(value: Value) -> FieldSet {
    FieldSet::from_fields_v1(&value).unwrap()
}

#[test]
fn a_set_is_written_as_it_was_read() {
    let fields = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"k:{\"n\":1}": {}, "v:\"x\"": {}}});
    assert_eq!(set(fields.clone()).into_fields_v1(), fields);
}

#[test]
fn keys_are_brought_to_one_form() {
    let loose = set(json!({"f:a": {"k:{ \"b\": 1, \"a\": \"x\" }": {}}}));
    assert_eq!(loose.into_fields_v1(), json!({"f:a": {"k:{\"a\":\"x\",\"b\":1}": {}}}));
}

#[test]
fn a_malformed_element_is_an_error_and_an_unknown_kind_is_dropped() {
    assert!(FieldSet::from_fields_v1(&json!({"k:{": {}})).is_err());
    assert!(FieldSet::from_fields_v1(&json!({"a": {}})).is_err());
    assert_eq!(set(json!({"z:1": {}, "f:a": {}})).into_fields_v1(), json!({"f:a": {}}));
}

#[test]
fn a_child_taken_away_leaves_its_parent_only_if_that_was_a_member() {
    let gone = set(json!({"f:a": {"f:b": {}}}));
    let mut member = set(json!({"f:a": {".": {}, "f:b": {}}}));
    assert!(member.subtract(&gone));
    assert_eq!(member.into_fields_v1(), json!({"f:a": {}}));
    let mut bare = set(json!({"f:a": {"f:b": {}}}));
    assert!(bare.subtract(&gone));
    assert!(bare.is_empty());
}

#[test]
fn a_parent_taken_away_leaves_its_children_unless_deep() {
    let gone = set(json!({"f:a": {}}));
    let mut flat = set(json!({"f:a": {".": {}, "f:b": {}}}));
    flat.subtract(&gone);
    assert_eq!(flat.into_fields_v1(), json!({"f:a": {"f:b": {}}}));
    let mut deep = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    deep.subtract_deep(&gone);
    assert_eq!(deep.into_fields_v1(), json!({"f:c": {}}));
}

#[test]
fn only_what_is_in_both_is_in_the_intersection() {
    let a = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    let b = set(json!({"f:a": {"f:b": {}, "f:d": {}}}));
    assert_eq!(a.intersection(&b).into_fields_v1(), json!({"f:a": {"f:b": {}}}));
}

#[test]
fn paths_print_members_first_and_numbers_by_value() {
    let fields =
        set(json!({"f:p": {"k:{\"n\":443}": {"f:x": {}}, "k:{\"n\":80}": {".": {}, "f:x": {}}},
        "f:s": {"v:\"q\"": {}}, "f:z": {}}));
    let printed: Vec<String> = fields.paths().iter().map(ToString::to_string).collect();
    assert_eq!(printed, [".z", ".p[n=80]", ".p[n=80].x", ".p[n=443].x", ".s[=\"q\"]"]);
}

#[test]
fn a_set_given_away_is_read_as_any_other() {
    // Those that need no work, and those that must not be taken as they are.
    let table = [
        json!({}),
        json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"k:{\"a\":\"x\",\"b\":1}": {}, "v:\"x\"": {}, "v:true": {}}}),
        json!({"f:a": {"k:{\"n\":80,\"p\":\"TCP\"}": {".": {}, "f:n": {}}}, "i:3": {}}),
        json!({".": {}, "f:a": {}}),
        json!({"f:a": {".": {}}}),
        json!({"f:a": null}),
        json!({"f:a": {".": {"f:b": {}}, "f:c": {}}}),
        json!({"f:a": {"k:{ \"b\": 1, \"a\": \"x\" }": {}}}),
        json!({"f:a": {"k:{\"b\":1,\"a\":2}": {}}}),
        json!({"f:a": {"k:{\"a\":1,\"a\":2}": {}}}),
        json!({"f:a": {"k:{\"a\":01}": {}}}),
        json!({"f:a": {"k:{\"a\":1.0}": {}, "k:{\"a\":1e2}": {}}}),
        json!({"f:a": {"k:{\"a\":1}x}": {}}}),
        json!({"f:a": {"k:{}": {}}}),
        json!({"f:a": {"v:\"<&>\"": {}, "v:\"\\u003c\"": {}, "v: 1": {}, "v:1 ": {}}}),
        json!({"f:a": {"v:\"x\"y": {}}}),
        json!({"z:1": {}, "f:a": {}}),
        json!({"a": {}}),
        json!([]),
        json!(null),
    ];
    for fields in table {
        let read = FieldSet::from_fields_v1(&fields);
        assert_eq!(FieldSet::take_fields_v1(fields.clone()), read, "{fields}");
    }
}
