//! Versions of a CustomResourceDefinition: schemas, subresources, columns.

use super::schema_rules;
use super::{array, text};
use crate::schema::{names, parse, path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE: usize = 8;

/// The members that move to the top if all versions agree, and their names there.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// What all versions agree on, if they do.
fn shared<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    let versions = array(spec, "versions");
    let first = versions.first()?;
    versions.iter().all(|v| v[name] == first[name]).then(|| &first[name])
}

/// Whether the versions, or this one, have the status subresource.
fn has_status(subresources: &Value) -> bool {
    subresources.get("status").is_some_and(|s| !s.is_null())
}

/// Checks each version by itself and all of them together.
pub fn check(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = array(spec, "versions");
    let at = "spec.versions";
    for (i, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let at = path::child(&path::index(at, i), "schema.openAPIV3Schema");
            errors.push(FieldError::new(Kind::Required, at, ""));
        }
    }
    for (i, version) in versions.iter().enumerate() {
        let at = path::index(at, i);
        let name = text(version, "name");
        let why = names::dns_1035_label(name);
        if !why.is_empty() {
            let at = path::child(&at, "name");
            errors.push(print::error(Kind::Invalid, at, &json!(name), why.join(",")));
        }
        check_deprecation(version, &at, errors);
        let status = has_status(&version["subresources"]);
        for (name, _) in SHARED {
            if shared(spec, name).is_none() {
                let at = path::child(&at, name);
                check_member(name, version, &version[name], status, &at, errors);
            }
        }
    }
    let unique: BTreeSet<&str> = versions.iter().map(|v| text(v, "name")).collect();
    if unique.len() != versions.len() {
        let why = "must contain unique version names";
        errors.push(invalid_versions(spec, why));
    }
    if versions.iter().filter(|v| v["storage"] == json!(true)).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(invalid_versions(spec, why));
    }
    if let Some(first) = versions.first() {
        let name = text(first, "name");
        let why = names::dns_1035_label(name);
        if !name.is_empty() && !why.is_empty() {
            errors.push(print::error(Kind::Invalid, "spec.version", &json!(name), why.join(",")));
        }
    }
}

/// Checks what all versions share.
pub fn check_shared(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(first) = array(spec, "versions").first() else { return };
    let status = array(spec, "versions").iter().any(|v| has_status(&v["subresources"]));
    for (name, top) in SHARED {
        if let Some(member) = shared(spec, name) {
            check_member(name, first, member, status, &path::child("spec", top), errors);
        }
    }
}

fn check_member(
    name: &str,
    version: &Value,
    member: &Value,
    status: bool,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    if member.is_null() {
        return;
    }
    match name {
        "schema" => {
            if let Some(schema) = member.get("openAPIV3Schema").filter(|s| !s.is_null()) {
                errors.extend(schema_rules::check(
                    schema,
                    status,
                    &path::child(at, "openAPIV3Schema"),
                ));
            }
        }
        "subresources" => check_scale(&member["scale"], &path::child(at, "scale"), errors),
        "additionalPrinterColumns" => {
            for (i, column) in member.as_array().into_iter().flatten().enumerate() {
                check_column(column, &path::index(at, i), errors);
            }
        }
        _ => check_selectable(version, member, at, errors),
    }
}

/// The versions as Go prints its structs, without what moved to the top.
fn invalid_versions(spec: &Value, why: &str) -> FieldError {
    let all: Vec<String> = array(spec, "versions")
        .iter()
        .map(|version| {
            let own = |name: &str| {
                let shown = shared(spec, name).is_none().then(|| &version[name]);
                print::json(shown.unwrap_or(&Value::Null))
            };
            let flag = |name: &str| version[name] == json!(true);
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
                 \"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                print::json(&json!(text(version, "name"))),
                flag("served"),
                flag("storage"),
                flag("deprecated"),
                print::json(&version["deprecationWarning"]),
                own("schema"),
                own("subresources"),
                own("additionalPrinterColumns"),
                own("selectableFields"),
            )
        })
        .collect();
    let value = if spec["versions"].is_array() {
        format!("[{}]", all.join(","))
    } else {
        "null".to_owned()
    };
    FieldError::printed(Kind::Invalid, "spec.versions", value, why)
}

fn check_deprecation(version: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut why = Vec::new();
    if version["deprecated"] != json!(true) {
        why.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            why.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            why.push("must not be an empty string".to_owned());
        }
        if let Some((i, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
            why.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {i}"
            ));
        }
    }
    for why in why {
        let at = path::child(at, "deprecationWarning");
        errors.push(print::error(Kind::Invalid, at, &json!(warning), why));
    }
}

fn check_scale(scale: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if scale.is_null() {
        return;
    }
    for (name, roots, why) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."][..], "should be a json path under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let at = path::child(at, name);
        let json_path = text(scale, name);
        if json_path.is_empty() {
            if name != "labelSelectorPath" {
                errors.push(FieldError::new(Kind::Required, at, ""));
            }
        } else if !json_path.starts_with('.') {
            let why = "must be a simple json path starting with .";
            errors.push(print::error(Kind::Invalid, at, &json!(json_path), why));
        } else if !roots.iter().any(|root| json_path.starts_with(root)) {
            errors.push(print::error(Kind::Invalid, at, &json!(json_path), why));
        }
    }
}

fn check_column(column: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if text(column, "name").is_empty() {
        errors.push(FieldError::new(Kind::Required, path::child(at, "name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(column, "type") {
        "" => errors.push(FieldError::new(Kind::Required, path::child(at, "type"), types)),
        kind if COLUMN_TYPES.contains(&kind) => {}
        kind => {
            errors.push(print::error(Kind::Invalid, path::child(at, "type"), &json!(kind), types))
        }
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(print::error(Kind::Invalid, path::child(at, "format"), &json!(format), why));
    }
    let at = path::child(at, "JSONPath");
    match text(column, "jsonPath") {
        "" => errors.push(FieldError::new(Kind::Required, at, "")),
        json_path if json_path.starts_with('.') => {}
        json_path => {
            let why = "must be a simple json path starting with .";
            errors.push(print::error(Kind::Invalid, at, &json!(json_path), why));
        }
    }
}

fn check_selectable(version: &Value, fields: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let fields = fields.as_array().map_or(&[][..], Vec::as_slice);
    let (node, _) = parse::lenient(&version["schema"]["openAPIV3Schema"]);
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = path::child(&path::index(at, i), "jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::new(Kind::Required, at, ""));
            continue;
        }
        let mut invalid =
            |why: String| errors.push(print::error(Kind::Invalid, &at, &json!(json_path), why));
        match parse::field_path_of(&node, json_path, false) {
            Err(why) => invalid(format!("is an invalid path: {why}")),
            Ok((found, node)) => {
                if found == "metadata" || found.starts_with("metadata.") {
                    invalid("must not point to fields in metadata".to_owned());
                }
                if !["string", "boolean", "integer"].contains(&node.type_name.as_str()) {
                    invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.".to_owned());
                }
                if !seen.insert(found) {
                    errors.push(print::error(Kind::Duplicate, at, &json!(json_path), ""));
                }
            }
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::printed(
            Kind::TooMany,
            at,
            seen.len().to_string(),
            format!("must have at most {MAX_SELECTABLE} items"),
        ));
    }
}
