//! From the JSON of an `openAPIV3Schema` to the compiled tree.

use super::cel::Rule;
use super::format::Format;
use super::node::{Additional, Limits, MAX_DEPTH, Node};
use super::{path, pattern, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Map, Value};

/// Compiles a schema, or says what keeps it from being compiled.
pub fn node(schema: &Value) -> Result<Node, Vec<FieldError>> {
    let (node, errors) = lenient(schema);
    if errors.is_empty() { Ok(node) } else { Err(errors) }
}

/// Compiles what can be compiled; rules that cannot are left out and reported.
pub fn lenient(schema: &Value) -> (Node, Vec<FieldError>) {
    let mut errors = Vec::new();
    let node = parse(schema, "", 0, &mut errors);
    (node, errors)
}

fn parse(schema: &Value, at: &str, depth: usize, errors: &mut Vec<FieldError>) -> Node {
    if depth > MAX_DEPTH {
        let why = format!("must not nest deeper than {MAX_DEPTH} schemas");
        errors.push(FieldError::new(Kind::Forbidden, at, why));
        return Node::default();
    }
    let Value::Object(map) = schema else { return Node::default() };
    let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or(false);
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let mut below = |schema: &Value, at: String| parse(schema, &at, depth + 1, errors);

    let properties: std::collections::BTreeMap<String, Node> = map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            (name.clone(), below(schema, path::key(&path::child(at, "properties"), name)))
        })
        .collect();
    let additional = match map.get("additionalProperties") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(any)) => Some(Additional::Any(*any)),
        Some(schema) => Some(Additional::Schema(Box::new(below(
            schema,
            path::child(at, "additionalProperties"),
        )))),
    };
    let items = map
        .get("items")
        .filter(|items| items.is_object())
        .map(|schema| Box::new(below(schema, path::child(at, "items"))));
    let mut branches = |name: &str| -> Vec<Node> {
        map.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(i, schema)| below(schema, path::index(&path::child(at, name), i)))
            .collect()
    };
    let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
    let not = map.get("not").map(|schema| Box::new(below(schema, path::child(at, "not"))));

    let mut node = Node {
        type_name: text("type").unwrap_or_default().to_owned(),
        int_or_string: flag("x-kubernetes-int-or-string"),
        nullable: flag("nullable"),
        format: text("format").and_then(Format::named),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        list_type: text("x-kubernetes-list-type").map(str::to_owned),
        list_map_keys: strings(map.get("x-kubernetes-list-map-keys")),
        default: map.get("default").filter(|d| !d.is_null()).cloned(),
        limits: Limits { all_of, any_of, one_of, not, ..limits(map) },
        properties,
        additional,
        items,
        ..Node::default()
    };
    node.rules = rules(&node, map, at, errors);
    node.has_rules = !node.rules.is_empty()
        || node.properties.values().any(|n| n.has_rules)
        || node.values().is_some_and(|n| n.has_rules)
        || node.items.as_ref().is_some_and(|n| n.has_rules);
    node
}

fn limits(map: &Map<String, Value>) -> Limits {
    let flag = |name: &str| map.get(name).and_then(Value::as_bool).unwrap_or(false);
    let number = |name: &str| map.get(name).and_then(Value::as_f64);
    let count = |name: &str| map.get(name).and_then(Value::as_i64);
    let pattern = map.get("pattern").and_then(Value::as_str).filter(|p| !p.is_empty());
    Limits {
        maximum: number("maximum").map(|max| (max, flag("exclusiveMaximum"))),
        minimum: number("minimum").map(|min| (min, flag("exclusiveMinimum"))),
        multiple_of: number("multipleOf"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        pattern: pattern.map(|source| (source.to_owned(), pattern::compile(source))),
        max_items: count("maxItems"),
        min_items: count("minItems"),
        unique_items: flag("uniqueItems"),
        max_properties: count("maxProperties"),
        min_properties: count("minProperties"),
        required: strings(map.get("required")),
        allowed: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        ..Limits::default()
    }
}

fn rules(
    node: &Node,
    map: &Map<String, Value>,
    at: &str,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    let resource = at.is_empty() || node.embedded;
    let at = path::child(at, "x-kubernetes-validations");
    let mut rules = Vec::new();
    for (i, rule) in map
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let source = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        if source.trim().is_empty() {
            continue;
        }
        let field_path = rule.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
        let field_path = field_path_of(node, field_path, true).map(|(p, _)| p).unwrap_or_default();
        match Rule::compile(rule, field_path, node, resource) {
            Ok(rule) => rules.push(rule),
            Err(why) => errors.push(FieldError::printed(
                Kind::Invalid,
                path::child(&path::index(&at, i), why.part),
                go_rule(rule),
                why.detail,
            )),
        }
    }
    rules
}

/// A rule as Go prints its struct: all members, in their order.
fn go_rule(rule: &Value) -> String {
    let text = |name: &str| {
        print::json(
            rule.get(name).filter(|v| v.is_string()).unwrap_or(&Value::String(String::new())),
        )
    };
    let any = |name: &str| print::json(rule.get(name).unwrap_or(&Value::Null));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        any("reason"),
        text("fieldPath"),
        any("optionalOldSelf"),
    )
}

/// A path like `.spec.labels['a']` in Kubernetes' notation with the schema it leads to, or why not.
pub fn field_path_of<'a>(
    node: &'a Node,
    json_path: &str,
    brackets: bool,
) -> Result<(String, &'a Node), String> {
    let mut rest = json_path;
    let mut at = String::new();
    let mut node = node;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err(match after.chars().next() {
                    None => "unexpected end of JSON path".to_owned(),
                    Some(_) => "does not refer to a valid field".to_owned(),
                });
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let Some(quoted) = after.strip_prefix('\'') else {
                let end = after.find(['.', '[', ']']).unwrap_or(after.len());
                return Err(if after.is_empty() {
                    "unexpected end of JSON path".to_owned()
                } else {
                    format!("expected single quoted string but got {}", &after[..end.max(1)])
                });
            };
            let Some(end) = quoted.find('\'') else {
                return Err("unexpected end of JSON path".to_owned());
            };
            name = quoted[..end].to_owned();
            rest = quoted[end + 1..]
                .strip_prefix(']')
                .ok_or_else(|| "unexpected end of JSON path".to_owned())?;
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", rest.get(..end).unwrap_or(rest)));
        }
        if !node.properties.is_empty() {
            at = path::child(&at, &name);
            node = node
                .properties
                .get(&name)
                .ok_or_else(|| "does not refer to a valid field".to_owned())?;
        } else if let Some(values) = node.values() {
            at = path::key(&at, &name);
            node = values;
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((at, node))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}
