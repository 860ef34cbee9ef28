//! What a schema in a CustomResourceDefinition may contain.

use super::{array, list_rules, text};
use crate::schema::node::Node;
use crate::schema::{cel, embedded, parse, path, print, prune, structural, validate};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
pub const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const RULES: &str = "x-kubernetes-validations";

const ROOT_WITH_STATUS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    RULES,
];

/// What holds for a schema because of where it stands.
#[derive(Clone, Default)]
struct Place {
    /// Why defaults are forbidden, if they are.
    no_defaults: Option<String>,
    /// Inside of apiVersion, kind or metadata of a resource.
    in_meta: bool,
    /// The list or map below which old and new values cannot be told together.
    uncorrelated: Option<String>,
    /// The root of the resource.
    root: bool,
}

/// Checks a schema at the field `at`. `status` says that the status subresource is on.
pub fn check(schema: &Value, status: bool, at: &str) -> Vec<FieldError> {
    let (node, rule_errors) = parse::lenient(schema);
    if let Some(deep) = rule_errors.iter().find(|e| e.kind == Kind::Forbidden) {
        let field = path::child(at, &deep.field);
        return vec![FieldError { field, ..deep.clone() }];
    }
    let mut errors = Vec::new();
    if status {
        check_root(schema, at, &mut errors);
    }
    if schema["nullable"] == json!(true) {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::new(Kind::Forbidden, path::child(at, "nullable"), why));
    }
    let mut rules_matter = true;
    let shape = structural::check(schema, at);
    if !shape.is_empty() {
        rules_matter = false;
        errors.extend(shape);
    } else {
        let before = errors.len();
        check_defaults(&node, true, at, &mut errors);
        rules_matter &= errors.len() == before;
    }
    let mut schema_errors = Vec::new();
    let mut transition_errors = Vec::new();
    let place = Place { root: true, ..Place::default() };
    check_schema(schema, &node, at, &place, &mut schema_errors, &mut transition_errors);
    rules_matter &= schema_errors.is_empty();
    errors.extend(schema_errors);
    if rules_matter {
        for error in rule_errors {
            errors.push(FieldError { field: path::child(at, &error.field), ..error });
        }
        errors.extend(transition_errors);
    }
    errors
}

fn check_root(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if !text(schema, "type").is_empty() && text(schema, "type") != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(print::error(Kind::Invalid, path::child(at, "type"), &schema["type"], why));
    }
    let other = schema.as_object().into_iter().flatten().any(|(name, value)| {
        let empty = value.is_null() || value == &json!(false) || value == &json!([]);
        !empty && !ROOT_WITH_STATUS.contains(&name.as_str())
    });
    if other {
        let names: Vec<String> = ROOT_WITH_STATUS.iter().map(|n| go_name(n)).collect();
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        errors.push(print::error(Kind::Invalid, at, schema, why));
    }
}

/// The name of a member in Go.
fn go_name(name: &str) -> String {
    match name {
        "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
        RULES => "XValidations".to_owned(),
        name => {
            let (first, rest) = name.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        }
    }
}

/// Defaults must be what the schema itself would accept and keep.
fn check_defaults(node: &Node, resource: bool, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let base = path::child(at, "default");
        if !prune::is_pruned(node, default) {
            let why = "must not have unknown fields";
            errors.push(print::error(Kind::Invalid, &base, default, why));
        }
        let mut found = embedded::check(node, default, &base);
        if found.is_empty() {
            found = validate::check(node, default, None, &base);
        }
        if found.is_empty() {
            found = cel::check_from(node, default, Some(default), false, &base);
        }
        if found.is_empty() {
            found = cel::check_from(node, default, None, false, &base);
        }
        errors.extend(found);
    }
    if let Some(items) = &node.items {
        check_defaults(items, false, &path::child(at, "items"), errors);
    }
    for (name, field) in &node.properties {
        // defaults of metadata are refused where the schema is checked
        if !(resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str())) {
            let at = path::key(&path::child(at, "properties"), name);
            check_defaults(field, field.embedded, &at, errors);
        }
    }
}

fn check_schema(
    schema: &Value,
    node: &Node,
    at: &str,
    here: &Place,
    errors: &mut Vec<FieldError>,
    transitions: &mut Vec<FieldError>,
) {
    check_members(schema, at, here, errors);
    let below = Place { root: false, ..here.clone() };
    if let Some(additional) = schema.get("additionalProperties").filter(|a| !a.is_null()) {
        let has_properties = schema["properties"].as_object().is_some_and(|p| !p.is_empty());
        if has_properties && *additional != json!(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::new(
                Kind::Forbidden,
                path::child(at, "additionalProperties"),
                why,
            ));
        }
        if let (true, Some(values)) = (additional.is_object(), node.values()) {
            let mut place = below.clone();
            if place.in_meta {
                let why = "inside additionalProperties applying to object metadata";
                place.no_defaults = Some(why.to_owned());
            }
            let at = path::child(at, "additionalProperties");
            check_schema(additional, values, &at, &place, errors, transitions);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let Some(field) = node.properties.get(name) else { continue };
        let mut place = below.clone();
        let resource = schema["x-kubernetes-embedded-resource"] == json!(true);
        let root = here.root;
        if (root || resource) && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
            place.in_meta = true;
            if root {
                place.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        let at = path::key(&path::child(at, "properties"), name);
        check_schema(property, field, &at, &place, errors, transitions);
    }
    let limits = &node.limits;
    if let (Some(not), Some(node)) = (schema.get("not"), &limits.not) {
        check_schema(not, node, &path::child(at, "not"), &below, errors, &mut Vec::new());
    }
    for (name, nodes) in
        [("allOf", &limits.all_of), ("oneOf", &limits.one_of), ("anyOf", &limits.any_of)]
    {
        for (i, (branch, node)) in array(schema, name).iter().zip(nodes).enumerate() {
            let at = path::index(&path::child(at, name), i);
            check_schema(branch, node, &at, &below, errors, &mut Vec::new());
        }
    }
    if let (Some(items), Some(node)) = (schema.get("items"), &node.items) {
        let mut place = below.clone();
        if text(schema, LIST_TYPE) != "map" && place.uncorrelated.is_none() {
            place.uncorrelated = Some(at.to_owned());
        }
        check_schema(items, node, &path::child(at, "items"), &place, errors, transitions);
    }
    check_extensions(schema, at, errors);
    check_rules(schema, node, at, here, errors, transitions);
}

/// Members that are not supported at all, or not here.
fn check_members(schema: &Value, at: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let mut forbidden = |name: &str, why: &str| {
        errors.push(FieldError::new(Kind::Forbidden, path::child(at, name), why));
    };
    let there = |name: &str| schema.get(name).is_some_and(|v| !v.is_null());
    if let Some(reason) = place.no_defaults.as_ref().filter(|_| there("default")) {
        forbidden("default", &format!("must not be set {reason}"));
    }
    for (name, why) in [
        ("id", "id is not supported"),
        ("additionalItems", "additionalItems is not supported"),
        ("patternProperties", "patternProperties is not supported"),
        ("definitions", "definitions is not supported"),
        ("dependencies", "dependencies is not supported"),
        ("$ref", "$ref is not supported"),
    ] {
        if there(name) {
            forbidden(name, why);
        }
    }
    if kind == "null" {
        forbidden("type", "type cannot be set to null, use nullable as an alternative");
    }
    if schema["items"].is_array() {
        forbidden("items", "items must be a schema object and not an array");
    }
    if place.in_meta && schema["x-kubernetes-embedded-resource"] == json!(true) {
        forbidden("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
    if schema["uniqueItems"] == json!(true) {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbidden("uniqueItems", why);
    }
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(print::unsupported(path::child(at, "type"), &json!(kind), &TYPES));
    }
}

fn check_extensions(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let (list, map) = (schema.get(LIST_TYPE), schema.get(MAP_TYPE));
    let mut wrong_type = |extension: &str, wanted: &str| {
        let at = path::child(at, "type");
        let why = format!("must be {wanted} if {extension} is specified");
        errors.push(if kind.is_empty() {
            FieldError::new(Kind::Required, at, why)
        } else {
            print::error(Kind::Invalid, at, &json!(kind), why)
        });
    };
    if map.is_some() && kind != "object" {
        wrong_type(MAP_TYPE, "object");
    }
    if list.is_some() && kind != "array" {
        wrong_type(LIST_TYPE, "array");
    } else if text(schema, LIST_TYPE) == "set" {
        let items = &schema["items"];
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let (name, atomic) = match text(items, "type") {
            "array" => (LIST_TYPE, ["", "atomic"].contains(&text(items, LIST_TYPE))),
            "object" => (MAP_TYPE, text(items, MAP_TYPE) == "atomic"),
            _ => ("", true),
        };
        if !atomic {
            let at = path::child(&path::child(at, "items"), name);
            errors.push(print::error(Kind::Invalid, at, &items[LIST_TYPE], why));
        }
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema[preserve] == json!(false) {
        let why = "must be true or undefined";
        errors.push(print::error(Kind::Invalid, path::child(at, preserve), &json!(false), why));
    }
    if let Some(map) = map.filter(|m| **m != "atomic" && **m != "granular") {
        errors.push(print::unsupported(path::child(at, MAP_TYPE), map, &["atomic", "granular"]));
    }
    if let Some(list) = list.filter(|l| **l != "atomic" && **l != "set" && **l != "map") {
        let known = ["atomic", "set", "map"];
        errors.push(print::unsupported(path::child(at, LIST_TYPE), list, &known));
    }
    list_rules::check(schema, at, errors);
}

fn check_rules(
    schema: &Value,
    node: &Node,
    at: &str,
    place: &Place,
    errors: &mut Vec<FieldError>,
    transitions: &mut Vec<FieldError>,
) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let broken = |text: &str| text.contains(['\n', '\r']);
    for (i, rule) in array(schema, RULES).iter().enumerate() {
        let at = path::index(&path::child(at, RULES), i);
        let mut problem = |kind: Kind, name: &str, why: &str| {
            let at = path::child(&at, name);
            errors.push(match kind {
                Kind::Required => FieldError::new(kind, at, why),
                kind => print::error(kind, at, &rule[name], why),
            });
        };
        let (source, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if source.is_empty() {
            problem(Kind::Required, "rule", "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            problem(Kind::Invalid, "message", "must be non-empty if specified");
        } else if broken(message.trim()) {
            problem(Kind::Invalid, "message", "must not contain line breaks");
        } else if broken(source) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            problem(Kind::Required, "message", why);
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            problem(Kind::Required, "messageExpression", why);
        }
        let field_path = text(rule, "fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            problem(Kind::Invalid, "fieldPath", "must be non-empty if specified");
        }
        if broken(field_path) {
            problem(Kind::Invalid, "fieldPath", "must not contain line breaks");
        }
        if !field_path.is_empty() && parse::field_path_of(node, field_path, true).is_err() {
            problem(Kind::Invalid, "fieldPath", "must be a valid path");
        }
        if let Some(reason) = rule.get("reason").filter(|r| !r.is_null())
            && !REASONS.contains(&reason.as_str().unwrap_or_default())
        {
            errors.push(print::unsupported(path::child(&at, "reason"), reason, &REASONS));
        }
        let Some(compiled) = node.rules.iter().find(|r| r.source.trim() == source) else {
            continue;
        };
        if compiled.uses_old_self() {
            if let Some(uncorrelated) = &place.uncorrelated {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                );
                let at = path::child(&at, "rule");
                transitions.push(print::error(Kind::Invalid, at, &rule["rule"], why));
            }
        } else if let Some(optional) = rule.get("optionalOldSelf").filter(|o| !o.is_null()) {
            let why = "may not be set if oldSelf is not used in rule";
            let at = path::child(&at, "optionalOldSelf");
            transitions.push(print::error(Kind::Invalid, at, optional, why));
        }
    }
}
