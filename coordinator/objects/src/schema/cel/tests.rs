//! Tables of rules.

use crate::schema::Schema;
use serde_json::{Value, json};

fn schema(rules: Value) -> Schema {
    let mut schema = spec_schema();
    schema["x-kubernetes-validations"] = rules;
    Schema::compile(&json!({"type": "object", "properties": {"spec": schema}})).unwrap()
}

fn spec_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "f": {"type": "number"},
            "s": {"type": "string"},
            "a-b": {"type": "string"},
            "namespace": {"type": "string"},
            "two__us": {"type": "string"},
            "t": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "duration"},
            "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "i": {"x-kubernetes-int-or-string": true},
            "q": {"type": "string"},
        },
    })
}

fn check(schema: &Schema, spec: Value, old: Option<Value>) -> Vec<String> {
    let object = |spec: Value| json!({"metadata": {"name": "n"}, "spec": spec});
    let old = old.map(object);
    schema.validate(&object(spec), old.as_ref()).iter().map(ToString::to_string).collect()
}

#[test]
fn rules_hold_or_fail() {
    // rule, spec, whether it holds
    let table = [
        ("self.n > 1", json!({"n": 2}), true),
        ("self.n > 1", json!({"n": 1}), false),
        ("self.f * 2.0 == 3.0", json!({"f": 1.5}), true),
        ("self.f * 2.0 == 4.0", json!({"f": 2}), true),
        ("has(self.s)", json!({}), false),
        ("!has(self.s) || self.s.startsWith('a')", json!({"s": "ab"}), true),
        ("self.a__dash__b == 'x'", json!({"a-b": "x"}), true),
        ("self.__namespace__ == 'x'", json!({"namespace": "x"}), true),
        ("self.two__underscores__us == 'x'", json!({"two__us": "x"}), true),
        ("self.t < timestamp('2027-01-01T00:00:00Z')", json!({"t": "2026-01-01T00:00:00Z"}), true),
        ("self.d <= duration('1h')", json!({"d": "90m"}), false),
        ("self.l.all(x, x > 0)", json!({"l": [1, 2]}), true),
        ("self.l.all(x, x > 0)", json!({"l": [1, 0]}), false),
        ("self.l.exists_one(x, x == 1)", json!({"l": [1, 1]}), false),
        ("self.m.all(k, k.matches('^[a-z]+$'))", json!({"m": {"a": "1"}}), true),
        ("self.m['a-b'] == '1'", json!({"m": {"a-b": "1"}}), true),
        ("type(self.i) == int ? self.i < 5 : self.i.endsWith('%')", json!({"i": "5%"}), true),
        ("self.?s.orValue('none') == 'none'", json!({}), true),
        ("self.?s.orValue('none') == 'x'", json!({"s": "x"}), true),
        ("self.?m.a.orValue('none') == 'none'", json!({"m": {}}), true),
        ("self.?m.a.orValue('none') == '1'", json!({"m": {"a": "1"}}), true),
        ("cel.bind(x, self.n + 1, x * x == 9)", json!({"n": 2}), true),
        ("cel.bind(v, self.s, v.size()) == 2", json!({"s": "ab"}), true),
        ("cel.bind(v, self.s, size(v)) == 2", json!({"s": "éé"}), true),
        ("self.?s.optMap(v, v.size()).orValue(0) == 2", json!({"s": "ab"}), true),
        ("self.?s.optMap(v, v.size()).orValue(0) == 0", json!({}), true),
        (
            "isQuantity(self.q) && quantity(self.q).isLessThan(quantity('2Gi'))",
            json!({"q": "1500Mi"}),
            true,
        ),
        ("self.l.map(x, x * 2) == [2, 4]", json!({"l": [1, 2]}), true),
        ("self.l.filter(x, x > 1).size() == 1", json!({"l": [1, 2]}), true),
        ("self.s.replace('a', 'b') == 'bb'", json!({"s": "aa"}), true),
        ("['a', self.s].join('-') == 'a-x'", json!({"s": "x"}), true),
        ("'%d-%s'.format([self.n, self.s]) == '1-x'", json!({"n": 1, "s": "x"}), true),
        ("sets.contains(self.l, [1])", json!({"l": [1, 2]}), true),
    ];
    for (rule, spec, holds) in table {
        let errors = check(&schema(json!([{"rule": rule}])), spec.clone(), None);
        let expected: Vec<String> = if holds {
            vec![]
        } else {
            vec![format!("spec: Invalid value: \"object\": failed rule: {rule}")]
        };
        assert_eq!(errors, expected, "{rule} on {spec}");
    }
}

#[test]
fn transition_rules_need_an_old_value() {
    let rule = json!([{"rule": "self.n >= oldSelf.n", "message": "n may not shrink"}]);
    let failed = "spec: Invalid value: \"object\": n may not shrink";
    assert!(check(&schema(rule.clone()), json!({"n": 1}), None).is_empty());
    assert!(check(&schema(rule.clone()), json!({"n": 2}), Some(json!({"n": 1}))).is_empty());
    assert_eq!(check(&schema(rule), json!({"n": 1}), Some(json!({"n": 2}))), [failed]);

    let optional = json!([{"rule": "oldSelf.hasValue() || self.n == 1", "optionalOldSelf": true, "message": "starts at 1"}]);
    assert!(check(&schema(optional.clone()), json!({"n": 1}), None).is_empty());
    assert_eq!(check(&schema(optional.clone()), json!({"n": 2}), None).len(), 1);
    assert!(check(&schema(optional), json!({"n": 2}), Some(json!({"n": 1}))).is_empty());

    let read =
        json!([{"rule": "oldSelf.optMap(o, o.n < self.n).orValue(true)", "optionalOldSelf": true}]);
    assert!(check(&schema(read.clone()), json!({"n": 1}), None).is_empty());
    assert_eq!(check(&schema(read), json!({"n": 1}), Some(json!({"n": 1}))).len(), 1);
}

#[test]
fn items_of_keyed_lists_are_compared_by_key() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "l": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "v is immutable"}],
            },
        },
    }}}}))
    .unwrap();
    let old = json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]});
    let same = json!({"l": [{"k": "new", "v": 9}, {"k": "b", "v": 2}, {"k": "a", "v": 1}]});
    let other = json!({"l": [{"k": "b", "v": 3}]});
    assert!(check(&schema, same, Some(old.clone())).is_empty());
    assert_eq!(
        check(&schema, other, Some(old)),
        ["spec.l[0]: Invalid value: \"object\": v is immutable"]
    );
}

#[test]
fn messages_reasons_and_paths_come_from_the_rule() {
    // rule, error
    let table = [
        (
            json!({"rule": "false", "message": " two words "}),
            "spec: Invalid value: \"object\": two words",
        ),
        (
            json!({"rule": "false", "message": "own", "messageExpression": "'n is ' + string(self.n)"}),
            "spec: Invalid value: \"object\": n is 1",
        ),
        (
            json!({"rule": "false", "message": "own", "messageExpression": "self.s"}),
            "spec: Invalid value: \"object\": own",
        ),
        (
            json!({"rule": "false", "message": "own", "messageExpression": "''"}),
            "spec: Invalid value: \"object\": own",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueForbidden", "message": "no"}),
            "spec: Forbidden: no",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueRequired", "message": "need"}),
            "spec: Required value: need",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueDuplicate", "message": "twice"}),
            "spec: Duplicate value: \"object\"",
        ),
        (
            json!({"rule": "false", "fieldPath": ".n", "message": "here"}),
            "spec.n: Invalid value: \"object\": here",
        ),
        (
            json!({"rule": "false", "fieldPath": ".m['k']", "message": "here"}),
            "spec.m[k]: Invalid value: \"object\": here",
        ),
    ];
    for (rule, error) in table {
        assert_eq!(check(&schema(json!([rule])), json!({"n": 1}), None), [error], "{rule}");
    }
}

#[test]
fn errors_of_a_run_are_field_errors() {
    // rule, detail
    let table = [
        ("self.s == 'x'", "no such key: s evaluating rule: self.s == 'x'"),
        ("1 / (self.n - 1) > 0", "division by zero evaluating rule: 1 / (self.n - 1) > 0"),
        ("self.l[5] == 1", "index out of bounds: 5 evaluating rule: self.l[5] == 1"),
        (
            "self.i + 1 > 0",
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.i + 1 > 0",
        ),
    ];
    for (rule, detail) in table {
        let errors =
            check(&schema(json!([{"rule": rule}])), json!({"n": 1, "l": [1], "i": "x"}), None);
        assert_eq!(errors, [format!("spec: Invalid value: \"object\": {detail}")], "{rule}");
    }
}

#[test]
fn rules_wait_for_an_object_of_the_right_shape() {
    let schema = schema(json!([{"rule": "self.n > 1"}]));
    assert_eq!(
        check(&schema, json!({"n": "x"}), None),
        [
            "spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
}

#[test]
fn a_rule_that_fails_on_an_unchanged_value_does_not_block_the_update() {
    let schema = schema(json!([{"rule": "self.n > 1"}]));
    assert!(check(&schema, json!({"n": 1}), Some(json!({"n": 1}))).is_empty());
    assert_eq!(check(&schema, json!({"n": 1}), Some(json!({"n": 0}))).len(), 1);
}

#[test]
fn rules_that_do_not_compile_are_refused_with_their_place() {
    // rule, start of the detail
    let table = [
        (
            "self.n >",
            "compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>'",
        ),
        (
            "self.n > 1 && self.typo == 1",
            "compilation failed: ERROR: <input>:1:19: undefined field 'typo'\n | self.n > 1 && self.typo == 1\n | ..................^",
        ),
        (
            "selff.n > 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'selff' (in container '')\n | selff.n > 1\n | ^",
        ),
        (
            "self.n == foo",
            "compilation failed: ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')\n | self.n == foo\n | ..........^",
        ),
    ];
    for (rule, detail) in table {
        let mut spec = spec_schema();
        spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let errors =
            Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap_err();
        assert_eq!(errors[0].field, "properties[spec].x-kubernetes-validations[0].rule");
        assert!(errors[0].detail.starts_with(detail), "{}", errors[0].detail);
    }
}

#[test]
fn hostile_rules_end_soon_and_within_a_small_stack() {
    let run = || {
        let items: Vec<i64> = (0..2000).collect();
        let large = json!({"l": items, "s": "x".repeat(10_000), "n": 1});
        for rule in [
            "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
            "self.l.map(a, self.s).join(self.s).size() > 0",
            "self.s.replace('', self.s).replace('', self.s).size() > 0",
            "cel.bind(a, self.s + self.s, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, cel.bind(e, d + d, cel.bind(f, e + e, cel.bind(g, f + f, cel.bind(h, g + g, h.size() > 0))))))))",
            "'%.999999999f'.format([1.0]).size() > 0",
            "lists.range(1000000000000).size() > 0",
        ] {
            let errors = check(&schema(json!([{"rule": rule}])), large.clone(), None);
            assert_eq!(errors.len(), 1, "{rule}");
            assert!(errors[0].contains("cost limit exceeded"), "{rule}: {}", errors[0]);
        }
        for source in [
            "(".repeat(5000) + "1" + &")".repeat(5000),
            "!".repeat(5000) + "true",
            "-".repeat(5001) + "1 == 1",
            "[".repeat(3000) + &"]".repeat(3000),
            vec!["1"; 20_000].join("+") + " == 1",
            vec!["true"; 5000].join(" ? true : "),
            "self".to_owned() + &".a".repeat(20_000),
            "{".repeat(500),
            "x".to_owned() + &"?x".repeat(500),
            "'\\".to_owned(),
            "\u{0}".to_owned(),
        ] {
            let result = super::Program::compile(&source);
            assert!(result.is_err(), "{}", &source[..source.len().min(40)]);
        }
        for source in [
            "(".repeat(40) + "1" + &")".repeat(40) + " == 1",
            vec!["1"; 200].join("+") + " == 200",
            vec!["true"; 500].join(" && "),
        ] {
            let program = super::Program::compile(&source).unwrap();
            let mut budget = super::program::PER_OBJECT;
            let result = program.run(&super::program::scope(), 1, &mut budget);
            assert_eq!(result, Ok(kube_cel::cel::Value::Bool(true)));
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
