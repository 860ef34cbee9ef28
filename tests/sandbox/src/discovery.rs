//! What is served, told to clients: groups, resources, version, health, OpenAPI.

use axum::body::Body;
use base64::Engine;
use http::{HeaderMap, HeaderValue, Response, header};
use muster_objects::status::Status;
use serde_json::{Value, json};
use sha2::Digest;

use crate::kinds::{Kind, Registry};
use crate::represent::{page_not_found, send};

mod openapi;

/// The Kubernetes version whose behaviour is followed.
pub const KUBERNETES: (&str, &str, &str) = ("1", "34", "v1.34.10+muster-sandbox");

/// Answers a path that names no resource.
pub fn document(
    kinds: &Registry,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let value = match parts[..] {
        ["healthz" | "livez" | "readyz", ..] => return Ok(text("ok")),
        ["version"] => version(),
        ["api"] | ["apis"] if wants_aggregated(headers) => {
            return Ok(aggregated(kinds, parts[0] == "api"));
        }
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        }),
        ["apis"] => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": kinds.groups().map(|(name, versions)| group(name, versions)).collect::<Vec<_>>(),
        }),
        ["apis", name] => {
            let found = kinds.groups().find(|(group, _)| *group == name);
            let (name, versions) = found.ok_or_else(Status::no_route)?;
            let mut value = group(name, versions);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            value
        }
        ["api", version] => resources(kinds, "", version)?,
        ["apis", group, version] => resources(kinds, group, version)?,
        ["openapi", "v3"] => openapi::index(kinds),
        ["openapi", "v3", "api", version] => openapi::document(kinds, "", version)?,
        ["openapi", "v3", "apis", group, version] => openapi::document(kinds, group, version)?,
        [] => {
            json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})
        }
        _ => return Ok(page_not_found()),
    };
    Ok(send(200, value.to_string()))
}

fn text(body: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn version() -> Value {
    let (major, minor, git) = KUBERNETES;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": git,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry =
        |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn resources(kinds: &Registry, group: &str, version: &str) -> Result<Value, Status> {
    let found = kinds.of(group, version);
    if found.is_empty() {
        return Err(Status::no_route());
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list: Vec<Value> = found.iter().flat_map(|kind| rows(kind)).collect();
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": list,
    }))
}

/// A kind's row and those of its subresources.
fn rows(kind: &Kind) -> Vec<Value> {
    let mut row = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    if !kind.short_names.is_empty() {
        row["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        row["categories"] = json!(kind.categories);
    }
    if !kind.review {
        row["storageVersionHash"] = json!(storage_hash(kind));
    }
    let mut out = vec![row];
    out.extend(subresources(kind).into_iter().map(|sub| {
        let mut row = json!({
            "name": format!("{}/{}", kind.plural, sub.name),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind,
            "verbs": sub.verbs,
        });
        if let Some((group, version)) = sub.of {
            row["group"] = json!(group);
            row["version"] = json!(version);
        }
        row
    }));
    out
}

/// Tells clients when the stored form changed: eight bytes of a digest, as upstream makes it.
fn storage_hash(kind: &Kind) -> String {
    let digest = sha2::Sha256::digest(format!("{}/{}/{}", kind.group, kind.version, kind.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    if kind.review {
        &["create"]
    } else if kind.custom.is_some() {
        &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    } else {
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

struct Subresource {
    name: &'static str,
    kind: String,
    verbs: &'static [&'static str],
    of: Option<(&'static str, &'static str)>,
}

fn subresources(kind: &Kind) -> Vec<Subresource> {
    const READ_WRITE: &[&str] = &["get", "patch", "update"];
    let own = |name, verbs| Subresource { name, kind: kind.kind.clone(), verbs, of: None };
    let foreign =
        |name, as_: &str, verbs, of| Subresource { name, kind: as_.to_owned(), verbs, of };
    let mut out = Vec::new();
    if kind.is("", "Pod") {
        out.push(foreign("binding", "Binding", &["create"], None));
        out.push(foreign("eviction", "Eviction", &["create"], Some(("policy", "v1"))));
        out.push(own("log", &["get"]));
    }
    if kind.is("", "Namespace") {
        out.push(own("finalize", &["update"]));
    }
    if kind.is("", "ServiceAccount") {
        let of = Some(("authentication.k8s.io", "v1"));
        out.push(foreign("token", "TokenRequest", &["create"], of));
    }
    if kind.scale.is_some() {
        out.push(foreign("scale", "Scale", READ_WRITE, Some(("autoscaling", "v1"))));
    }
    if kind.status {
        out.push(own("status", READ_WRITE));
    }
    out
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    accept.split(',').any(|t| t.replace(' ', "") == AGGREGATED)
}

/// Everything in one document: what kubectl asks for first.
fn aggregated(kinds: &Registry, core: bool) -> Response<Body> {
    let one = |group: &str, versions: &[String]| {
        let versions: Vec<Value> = versions
            .iter()
            .map(|version| {
                let resources: Vec<Value> =
                    kinds.of(group, version).iter().map(|kind| aggregated_row(kind)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
    };
    let items: Vec<Value> = if core {
        vec![one("", &["v1".to_owned()])]
    } else {
        kinds.groups().map(|(group, versions)| one(group, versions)).collect()
    };
    let value = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let mut response = send(200, value.to_string());
    let media_type = HeaderValue::from_static(AGGREGATED);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

fn aggregated_row(kind: &Kind) -> Value {
    let response_kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = subresources(kind)
        .iter()
        .map(|sub| {
            let (group, version) = sub.of.unwrap_or((&kind.group, &kind.version));
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(group, version, &sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    let mut row = json!({
        "resource": kind.plural,
        "responseKind": response_kind(&kind.group, &kind.version, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    let lists = [
        ("shortNames", json!(kind.short_names)),
        ("categories", json!(kind.categories)),
        ("subresources", json!(subresources)),
    ];
    for (name, list) in lists {
        if list.as_array().is_some_and(|l| !l.is_empty()) {
            row[name] = list;
        }
    }
    row
}
