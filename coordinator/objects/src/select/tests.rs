//! Selectors: what they match and what is wrong with them.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

fn labelled(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

#[test]
fn label_selectors_match_as_written() {
    let object = labelled(json!({"a": "1", "b": "x", "e": ""}));
    let cases = [
        ("", true),
        ("a=1", true),
        ("a==1,b=x", true),
        ("a!=1", false),
        ("c!=1", true),
        ("a in (1, 2)", true),
        ("a notin (1)", false),
        ("c notin (1)", true),
        ("c in ()", false),
        ("e in (,x)", true),
        ("e=", true),
        ("a", true),
        ("!a", false),
        ("!c", true),
        ("a>0", true),
        ("a<1", false),
        ("in in (x)", false),
    ];
    for (text, expected) in cases {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), expected, "{text}");
    }
}

#[test]
fn malformed_label_selectors_are_refused_in_kubernetes_words() {
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let cases = [
        ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
                .to_owned(),
        ),
        ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
        ("-a", format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {name}")),
    ];
    for (text, expected) in cases {
        let status = LabelSelector::parse(text).unwrap_err();
        assert_eq!((status.code, status.message), (400, expected), "{text}");
    }
}

#[test]
fn a_selector_object_matches_all_its_parts() {
    let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
        {"key": "b", "operator": "In", "values": ["x"]}, {"key": "c", "operator": "DoesNotExist"}]});
    let selector = LabelSelector::from_object(Some(&selector)).unwrap();
    assert!(selector.matches(&labelled(json!({"a": "1", "b": "x"}))));
    assert!(!selector.matches(&labelled(json!({"a": "1", "b": "x", "c": ""}))));
    assert!(!LabelSelector::from_object(None).unwrap().matches(&labelled(json!({}))));
    assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().is_everything());
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
    assert_eq!(
        LabelSelector::from_object(Some(&bad)).unwrap_err().message,
        "\"Gt\" is not a valid label selector operator"
    );
}

#[test]
fn field_selectors_match_and_tell_equalities() {
    let allowed = ["metadata.name", "spec.nodeName", "spec.unschedulable"];
    let pod = json!({"metadata": {"name": "a,b"}, "spec": {"nodeName": "n"}});
    let cases = [
        ("", true),
        ("spec.nodeName=n", true),
        ("spec.nodeName!=n", false),
        (r"metadata.name=a\,b,spec.nodeName==n", true),
        ("spec.unschedulable=false", true),
        ("metadata.name=", false),
    ];
    for (text, expected) in cases {
        assert_eq!(FieldSelector::parse(text, &allowed).unwrap().matches(&pod), expected, "{text}");
    }
    let selector = FieldSelector::parse("spec.nodeName=n,metadata.name!=x", &allowed).unwrap();
    assert_eq!(selector.equals("spec.nodeName"), Some("n"));
    assert_eq!(selector.equals("metadata.name"), None);
}

#[test]
fn unknown_and_malformed_field_selectors_are_refused() {
    let message = |text: &str| FieldSelector::parse(text, &["metadata.name"]).unwrap_err().message;
    assert_eq!(message("spec.x=1"), "field label not supported: spec.x");
    assert_eq!(message("a"), "invalid selector: 'a'; can't understand 'a'");
    assert_eq!(message(r"a=\x"), r"invalid field selector: invalid escape sequence: \x");
    assert_eq!(
        FieldSelector::parse_plain("x=1").unwrap_err().message,
        "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}
