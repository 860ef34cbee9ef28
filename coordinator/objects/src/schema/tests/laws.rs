//! Laws that hold for all schemas and all objects.

use super::*;
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5i64..5).prop_map(Value::from),
        (-2.0f64..2.0).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|metadata|spec", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 2, "default": "b"})),
        Just(json!({"type": "string", "pattern": "^a", "nullable": true})),
        Just(json!({"type": "integer", "minimum": 0, "default": 1})),
        Just(
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1 || oldSelf == self"}]})
        ),
        Just(json!({"type": "number", "multipleOf": 0.5})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|p| json!({"type": "object", "properties": p})),
            prop::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|mut p| { p.entry("a".to_owned()).or_insert(json!({"type": "string"})); json!({
                "type": "object", "properties": p, "default": {}, "required": ["a"],
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "x-kubernetes-validations": [{"rule": "has(self.a) ? self.a == self.a : true", "messageExpression": "'x' + string(self.a)"}],
            })}),
            inner.clone().prop_map(|s| json!({"type": "array", "items": s, "x-kubernetes-list-type": "set"})),
            inner.clone().prop_map(|s| json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": s}},
            })),
            inner.prop_map(|s| json!({"type": "object", "additionalProperties": s})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn nothing_panics_and_pruning_and_defaulting_are_idempotent(
        spec in any_schema(), mut value in any_json(), old in any_json(), at_spec in any::<bool>(),
    ) {
        let schema = of_spec(spec);
        if at_spec {
            value = object(value);
        }
        schema.validate(&value, None);
        schema.validate(&value, Some(&old));
        schema.validate_status(&value, Some(&old));
        schema.validate(&value, Some(&value));

        schema.prune(&mut value);
        let mut again = value.clone();
        prop_assert_eq!(schema.prune(&mut again), Vec::<String>::new());
        prop_assert_eq!(&again, &value);

        schema.default(&mut value);
        let mut again = value.clone();
        schema.default(&mut again);
        prop_assert_eq!(&again, &value);
        // a default never brings a field that pruning would drop
        let mut pruned = value.clone();
        schema.prune(&mut pruned);
        prop_assert_eq!(&pruned, &value);
    }

    #[test]
    fn a_definition_with_any_schema_is_judged_without_panic(schema in any_json(), spec in any_schema()) {
        let crd = |schema: Value| json!({
            "metadata": {"name": "as.b.c"},
            "spec": {"group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        });
        for schema in [schema, json!({"type": "object", "properties": {"spec": spec}})] {
            let mut crd = crd(schema);
            crate::schema::crd::default_crd(&mut crd);
            crate::schema::crd::validate_crd(&crd);
        }
    }
}
