//! OpenAPI v3, as far as clients need it: which kinds there are, which query parameters their patches take,
//! and the schemas of custom resources (for `kubectl explain`).

use muster_objects::status::Status;
use serde_json::{Value, json};

use crate::kinds::{Kind, Registry};

/// The list of documents, one per group and version.
pub fn index(kinds: &Registry) -> Value {
    let mut paths = json!({});
    let mut add = |path: String| {
        paths[&path] = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=0")})
    };
    add("api/v1".to_owned());
    for (group, versions) in kinds.groups() {
        versions.iter().for_each(|version| add(format!("apis/{group}/{version}")));
    }
    json!({ "paths": paths })
}

/// One group and version.
pub fn document(kinds: &Registry, group: &str, version: &str) -> Result<Value, Status> {
    let found = kinds.of(group, version);
    if found.is_empty() {
        return Err(Status::no_route());
    }
    let mut paths = json!({});
    let mut schemas = json!({});
    for kind in found.iter().filter(|kind| !kind.review) {
        let (path, name) = (object_path(kind), schema_name(kind));
        let identity = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let reference = format!("#/components/schemas/{name}");
        paths[path] = json!({
            "get": operation("get", &identity, &reference),
            "patch": operation("patch", &identity, &reference),
        });
        let mut schema = schema(kind);
        schema["x-kubernetes-group-version-kind"] = json!([identity]);
        schemas[name] = schema;
    }
    Ok(json!({
        "openapi": "3.0.0",
        "info": {"title": "Muster sandbox", "version": "v1.34.10"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn object_path(kind: &Kind) -> String {
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    let namespace = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{root}{namespace}/{}/{{name}}", kind.plural)
}

fn schema_name(kind: &Kind) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').rev().filter(|p| !p.is_empty()).collect();
    if parts.is_empty() {
        parts.push("core");
    }
    format!("{}.{}.{}", parts.join("."), kind.version, kind.kind)
}

/// Built-in kinds: an object whose fields are not spelled out. Custom ones: the schema of their definition.
fn schema(kind: &Kind) -> Value {
    match &kind.custom {
        Some(custom) => custom.openapi.clone(),
        None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    }
}

fn operation(action: &str, identity: &Value, reference: &str) -> Value {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    json!({
        "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation"), query("force")],
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": reference}}},
        }},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity,
    })
}
