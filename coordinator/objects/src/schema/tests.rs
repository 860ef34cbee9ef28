//! Tables of what schemas do to objects.

mod laws;
mod values;

use super::*;
use serde_json::json;

/// A schema whose `spec` is the given one.
fn of_spec(spec: Value) -> Schema {
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn fields(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "n"}, "spec": spec})
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let text = json!({"type": "string"});
    let preserve = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    // schema of spec, spec, spec after, dropped
    let table: Vec<(Value, Value, Value, &[&str])> = vec![
        (fields(json!({"a": text})), json!({"a": "1"}), json!({"a": "1"}), &[]),
        (fields(json!({"a": text})), json!({"a": "1", "b": 2}), json!({"a": "1"}), &["spec.b"]),
        (fields(json!({"a": text})), json!({"b": {"c": 1}}), json!({}), &["spec.b"]),
        (
            fields(json!({"a": fields(json!({"b": text}))})),
            json!({"a": {"b": "1", "c": 1}}),
            json!({"a": {"b": "1"}}),
            &["spec.a.c"],
        ),
        (
            fields(json!({"l": {"type": "array", "items": fields(json!({"b": text}))}})),
            json!({"l": [{"b": "1"}, {"c": 1}]}),
            json!({"l": [{"b": "1"}, {}]}),
            &["spec.l[1].c"],
        ),
        (
            fields(json!({"m": {"type": "object", "additionalProperties": text}})),
            json!({"m": {"x": "1", "y": "2"}}),
            json!({"m": {"x": "1", "y": "2"}}),
            &[],
        ),
        (
            fields(
                json!({"m": {"type": "object", "additionalProperties": fields(json!({"a": text}))}}),
            ),
            json!({"m": {"x": {"a": "1", "b": 2}}}),
            json!({"m": {"x": {"a": "1"}}}),
            &["spec.m.x.b"],
        ),
        (
            fields(json!({"p": preserve})),
            json!({"p": {"x": {"y": [1]}}}),
            json!({"p": {"x": {"y": [1]}}}),
            &[],
        ),
        (
            fields(
                json!({"p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": fields(json!({"b": text}))}}}),
            ),
            json!({"p": {"x": 1, "a": {"b": "1", "c": 2}}}),
            json!({"p": {"x": 1, "a": {"b": "1"}}}),
            &["spec.p.a.c"],
        ),
        (
            fields(
                json!({"e": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": fields(json!({}))}}}),
            ),
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "foo": 1}, "spec": {"y": 1}, "z": 1}}),
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}),
            &["spec.e.metadata.foo", "spec.e.spec.y", "spec.e.z"],
        ),
        (
            fields(json!({"a": {"type": "object"}})),
            json!({"a": {"b": 1}}),
            json!({"a": {}}),
            &["spec.a.b"],
        ),
        (
            fields(json!({"m": {"type": "object", "additionalProperties": true}})),
            json!({"m": {"x": {"y": 1}}}),
            json!({"m": {"x": {}}}),
            &["spec.m.x.y"],
        ),
        (fields(json!({"a": text})), json!("text"), json!("text"), &[]),
    ];
    for (schema, spec, after, dropped) in table {
        let mut value = object(spec.clone());
        let names = of_spec(schema.clone()).prune(&mut value);
        assert_eq!(value, object(after), "{schema} on {spec}");
        assert_eq!(names, dropped, "{schema} on {spec}");
    }
}

#[test]
fn the_root_keeps_its_identity_and_known_metadata_only() {
    let mut value = json!({
        "apiVersion": "a.b/v1", "kind": "A", "extra": 1,
        "metadata": {
            "name": "n", "labels": {"x": "y"}, "nope": 1,
            "ownerReferences": [{"uid": "1", "odd": true}],
            "managedFields": [{"manager": "m", "odd": true, "fieldsV1": {"f:spec": {}}}],
        },
    });
    let dropped = of_spec(fields(json!({}))).prune(&mut value);
    assert_eq!(
        dropped,
        [
            "extra",
            "metadata.managedFields[0].odd",
            "metadata.nope",
            "metadata.ownerReferences[0].odd"
        ]
    );
    assert_eq!(
        value,
        json!({
            "apiVersion": "a.b/v1", "kind": "A",
            "metadata": {
                "name": "n", "labels": {"x": "y"}, "ownerReferences": [{"uid": "1"}],
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
            },
        })
    );
}

#[test]
fn absent_fields_take_their_defaults_and_forbidden_nulls_go() {
    let seven = json!({"type": "integer", "default": 7});
    let nested = json!({"type": "object", "default": {}, "properties": {"b": seven}});
    // schema of spec, spec, spec after
    let table: Vec<(Value, Value, Value)> = vec![
        (fields(json!({"a": seven})), json!({}), json!({"a": 7})),
        (fields(json!({"a": seven})), json!({"a": 1}), json!({"a": 1})),
        (fields(json!({"a": seven})), json!({"a": null}), json!({"a": 7})),
        (
            fields(json!({"a": {"type": "integer", "default": 7, "nullable": true}})),
            json!({"a": null}),
            json!({"a": null}),
        ),
        (fields(json!({"a": {"type": "integer"}})), json!({"a": null}), json!({})),
        (
            fields(json!({"a": {"type": "integer", "nullable": true}})),
            json!({"a": null}),
            json!({"a": null}),
        ),
        (fields(json!({"a": nested})), json!({}), json!({"a": {"b": 7}})),
        (
            fields(json!({"a": {"type": "object", "properties": {"b": seven}}})),
            json!({}),
            json!({}),
        ),
        (
            fields(json!({"a": {"type": "object", "properties": {"b": seven}}})),
            json!({"a": {}}),
            json!({"a": {"b": 7}}),
        ),
        (
            fields(json!({"l": {"type": "array", "items": fields(json!({"b": seven}))}})),
            json!({"l": [{}, {"b": 1}]}),
            json!({"l": [{"b": 7}, {"b": 1}]}),
        ),
        (
            fields(json!({"l": {"type": "array", "items": seven}})),
            json!({"l": [null, 1]}),
            json!({"l": [7, 1]}),
        ),
        (
            fields(json!({"l": {"type": "array", "items": {"type": "integer"}}})),
            json!({"l": [null]}),
            json!({"l": [null]}),
        ),
        (
            fields(
                json!({"m": {"type": "object", "additionalProperties": fields(json!({"b": seven}))}}),
            ),
            json!({"m": {"x": {}, "y": null}}),
            json!({"m": {"x": {"b": 7}}}),
        ),
        (
            fields(json!({"u": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})),
            json!({"u": {"x": null}}),
            json!({"u": {"x": null}}),
        ),
    ];
    for (schema, spec, after) in table {
        let mut value = object(spec.clone());
        of_spec(schema.clone()).default(&mut value);
        assert_eq!(value, object(after), "{schema} on {spec}");
    }
}

#[test]
fn errors_at_the_root_have_no_field_and_status_errors_are_below_status() {
    let schema = Schema::compile(&json!({
        "type": "object", "required": ["spec"],
        "properties": {"spec": {"type": "object"}, "status": fields(json!({"n": {"type": "integer"}}))},
    }))
    .unwrap();
    assert_eq!(texts(&schema.validate(&json!({}), None)), ["spec: Required value"]);
    assert_eq!(
        texts(&schema.validate(&json!([]), None)),
        ["<nil>: Invalid value: \"array\":  in body must be of type object: \"array\""]
    );
    assert_eq!(
        texts(&schema.validate_status(&json!({"status": {"n": "x"}}), None)),
        ["status.n: Invalid value: \"string\": n in body must be of type integer: \"string\""]
    );
}

#[test]
fn an_update_is_not_blamed_for_what_it_leaves_alone() {
    let items = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": fields(json!({"n": {"type": "string"}, "v": {"type": "integer", "maximum": 5}})),
    });
    let plain = json!({"type": "array", "items": {"type": "integer", "maximum": 5}});
    let schema =
        of_spec(fields(json!({"a": {"type": "integer", "maximum": 5}, "m": items, "l": plain})));
    // old spec, new spec, fields with errors
    let table: Vec<(Value, Value, &[&str])> = vec![
        (json!({"a": 9}), json!({"a": 9, "l": []}), &[]),
        (json!({"a": 9}), json!({"a": 8}), &["spec.a"]),
        (json!({}), json!({"a": 9}), &["spec.a"]),
        (
            json!({"m": [{"n": "x", "v": 9}]}),
            json!({"m": [{"n": "y", "v": 1}, {"n": "x", "v": 9}]}),
            &[],
        ),
        (json!({"m": [{"n": "x", "v": 9}]}), json!({"m": [{"n": "x", "v": 8}]}), &["spec.m[0].v"]),
        (json!({"l": [9]}), json!({"l": [9]}), &[]),
        (json!({"l": [9]}), json!({"l": [9, 1]}), &["spec.l[0]"]),
    ];
    for (old, new, expected) in table {
        let errors = schema.validate(&object(new.clone()), Some(&object(old.clone())));
        let names: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(names, expected, "{old} to {new}");
    }
}

#[test]
fn a_list_that_was_not_unique_before_is_not_checked_again() {
    let schema = of_spec(fields(
        json!({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}),
    ));
    let old = object(json!({"s": [1, 1]}));
    let new = object(json!({"s": [1, 1, 1]}));
    assert!(schema.validate(&new, Some(&old)).is_empty());
    assert_eq!(schema.validate(&new, Some(&object(json!({"s": [1]})))).len(), 1);
}

#[test]
fn schemas_that_nest_too_deep_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..2 * node::MAX_DEPTH {
        schema = fields(json!({"a": schema}));
    }
    let errors = Schema::compile(&schema).unwrap_err();
    assert_eq!(errors[0].detail, "must not nest deeper than 100 schemas");
}
