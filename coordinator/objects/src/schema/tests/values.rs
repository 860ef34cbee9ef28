//! Values that a schema accepts or refuses.

use super::*;

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
