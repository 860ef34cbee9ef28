//! Tables of what schemas do to objects.

mod laws;

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
fn wrong_values_are_refused_in_the_words_of_kubernetes() {
    let text = |more: Value| {
        let mut schema = json!({"type": "string"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let integer = |more: Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let list = |more: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "integer"}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let none = json!({});
    // schema of spec.x, value, errors
    let table: Vec<(Value, Value, &[&str])> = vec![
        (text(none.clone()), json!("a"), &[]),
        (
            text(none.clone()),
            json!(1),
            &[
                "spec.x: Invalid value: \"integer\": spec.x in body must be of type string: \"integer\"",
            ],
        ),
        (
            text(none.clone()),
            json!(1.5),
            &[
                "spec.x: Invalid value: \"number\": spec.x in body must be of type string: \"number\"",
            ],
        ),
        (
            text(none.clone()),
            json!(null),
            &["spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\""],
        ),
        (text(json!({"nullable": true})), json!(null), &[]),
        (
            integer(none.clone()),
            json!("1"),
            &[
                "spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
            ],
        ),
        (integer(none.clone()), json!(1.0), &[]),
        (
            integer(none.clone()),
            json!(1.5),
            &[
                "spec.x: Invalid value: \"number\": spec.x in body must be of type integer: \"number\"",
            ],
        ),
        (json!({"type": "number"}), json!(1), &[]),
        (
            json!({"type": "boolean"}),
            json!("true"),
            &[
                "spec.x: Invalid value: \"string\": spec.x in body must be of type boolean: \"string\"",
            ],
        ),
        (
            list(none.clone()),
            json!({}),
            &[
                "spec.x: Invalid value: \"object\": spec.x in body must be of type array: \"object\"",
            ],
        ),
        (
            list(none.clone()),
            json!([1, "a"]),
            &[
                "spec.x[1]: Invalid value: \"string\": spec.x[1] in body must be of type integer: \"string\"",
            ],
        ),
        (
            text(json!({"enum": ["a", "b"]})),
            json!("c"),
            &["spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (text(json!({"enum": ["a", "b"]})), json!("a"), &[]),
        (
            integer(json!({"enum": [1, 2]})),
            json!(3),
            &["spec.x: Unsupported value: 3: supported values: \"1\", \"2\""],
        ),
        (
            integer(json!({"minimum": 1})),
            json!(0),
            &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
        ),
        (
            integer(json!({"minimum": 1, "exclusiveMinimum": true})),
            json!(1),
            &["spec.x: Invalid value: 1: spec.x in body should be greater than 1"],
        ),
        (
            integer(json!({"maximum": 5})),
            json!(6),
            &["spec.x: Invalid value: 6: spec.x in body should be less than or equal to 5"],
        ),
        (
            integer(json!({"maximum": 5, "exclusiveMaximum": true})),
            json!(5),
            &["spec.x: Invalid value: 5: spec.x in body should be less than 5"],
        ),
        (
            json!({"type": "number", "maximum": 1.5}),
            json!(1.75),
            &["spec.x: Invalid value: 1.75: spec.x in body should be less than or equal to 1.5"],
        ),
        (
            integer(json!({"multipleOf": 3})),
            json!(4),
            &["spec.x: Invalid value: 4: spec.x in body should be a multiple of 3"],
        ),
        (integer(json!({"multipleOf": 3})), json!(9), &[]),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(1.25),
            &["spec.x: Invalid value: 1.25: spec.x in body should be a multiple of 0.5"],
        ),
        (
            text(json!({"maxLength": 2})),
            json!("abc"),
            &["spec.x: Too long: may not be more than 2 bytes"],
        ),
        (text(json!({"maxLength": 2})), json!("éé"), &[]),
        (
            text(json!({"maxLength": 1})),
            json!("ab"),
            &["spec.x: Too long: may not be more than 1 byte"],
        ),
        (
            text(json!({"minLength": 2})),
            json!("a"),
            &["spec.x: Invalid value: \"a\": spec.x in body should be at least 2 chars long"],
        ),
        (
            text(json!({"pattern": "^a+$"})),
            json!("b"),
            &["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
        ),
        (text(json!({"pattern": "^a+$"})), json!("aa"), &[]),
        (
            list(json!({"maxItems": 1})),
            json!([1, 2]),
            &["spec.x: Too many: 2: must have at most 1 item"],
        ),
        (
            list(json!({"minItems": 1})),
            json!([]),
            &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
        ),
        (
            list(json!({"uniqueItems": true})),
            json!([1, 1]),
            &["spec.x: Invalid value: \"\": spec.x in body shouldn't contain duplicates"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
            json!({"a": "", "b": ""}),
            &["spec.x: Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}),
            json!({}),
            &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            &[
                "spec.x.k: Invalid value: \"integer\": spec.x.k in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
            json!({"a": ""}),
            &["spec.x.b: Required value"],
        ),
        (
            text(json!({"format": "date-time"})),
            json!("now"),
            &["spec.x: Invalid value: \"now\": spec.x in body must be of type date-time: \"now\""],
        ),
        (text(json!({"format": "date-time"})), json!("2026-11-15T10:00:00Z"), &[]),
        (
            text(json!({"format": "date-time"})),
            json!(3),
            &[
                "spec.x: Invalid value: \"int64\": spec.x in body must be of type date-time: \"int64\"",
            ],
        ),
        (text(json!({"format": "unheard-of"})), json!("x"), &[]),
        (integer(json!({"format": "int32"})), json!(5_000_000_000_i64), &[]),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%"), &[]),
        (json!({"x-kubernetes-int-or-string": true}), json!(3), &[]),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            &[
                "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            text(json!({"not": {"enum": ["a"]}})),
            json!("a"),
            &["<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)"],
        ),
        (text(json!({"anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]})), json!("bb"), &[]),
        (
            text(json!({"anyOf": [{"minLength": 3}, {"pattern": "^b"}]})),
            json!("c"),
            &[
                "<nil>: Invalid value: \"\": \"spec.x\" must validate at least one schema (anyOf)",
                "spec.x: Invalid value: \"c\": spec.x in body should be at least 3 chars long",
            ],
        ),
        (
            text(json!({"oneOf": [{"minLength": 1}, {"pattern": "^c"}]})),
            json!("c"),
            &[
                "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            fields(json!({"a": {"type": "string"}, "b": {"type": "string"}}))
                .as_object()
                .map(|m| {
                    let mut m = m.clone();
                    m.insert("oneOf".into(), json!([{"required": ["a"]}, {"required": ["b"]}]));
                    Value::Object(m)
                })
                .unwrap(),
            json!({}),
            &[
                "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found none valid",
                "spec.x.a: Required value",
            ],
        ),
        (
            text(json!({"allOf": [{"minLength": 2}, {"pattern": "^c"}]})),
            json!("c"),
            &[
                "spec.x: Invalid value: \"c\": spec.x in body should be at least 2 chars long",
                "<nil>: Invalid value: \"\": \"spec.x\" must validate all the schemas (allOf)",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "set"})),
            json!([1, 2, 1]),
            &["spec.x[2]: Duplicate value: 1"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": fields(json!({"n": {"type": "string"}, "v": {"type": "integer"}}))}),
            json!([{"n": "a", "v": 1}, {"n": "b"}, {"n": "a", "v": 2}]),
            &["spec.x[2]: Duplicate value: {\"n\":\"a\"}"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"], "items": fields(json!({"n": {"type": "string"}, "p": {"type": "integer"}}))}),
            json!([{"n": "a", "p": 1}, {"n": "a", "p": 2}]),
            &[],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": ""}),
            &[
                "spec.x.apiVersion: Required value",
                "spec.x.kind: Invalid value: \"\": must not be empty",
            ],
        ),
        (text(none.clone()), json!("a\u{7}\"<"), &[]),
        (
            text(json!({"enum": ["a"]})),
            json!("a\u{7}\"<"),
            &["spec.x: Unsupported value: \"a\\a\\\"<\": supported values: \"a\""],
        ),
    ];
    for (schema, value, expected) in table {
        let errors =
            of_spec(fields(json!({"x": schema}))).validate(&object(json!({"x": value})), None);
        assert_eq!(texts(&errors), expected, "{schema} on {value}");
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
