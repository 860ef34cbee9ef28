//! Facts about the original's definitions, looked up in ours.

use muster_api::crd;
use serde_json::Value;

/// What ours lack.
pub fn misses(facts: &Value) -> Vec<String> {
    let mut misses = Vec::new();
    for fact in facts["crds"].as_array().unwrap() {
        let name = fact["name"].as_str().unwrap();
        // No controller uses it.
        if !fact["note"].is_null() {
            continue;
        }
        let Some(ours) = crd::crds().into_iter().find(|d| d.object["metadata"]["name"] == name)
        else {
            misses.push(format!("{name} is missing"));
            continue;
        };
        let mut wrong = |what: String| misses.push(format!("{name}: {what}"));
        let (spec, version) = (&ours.object["spec"], &ours.object["spec"]["versions"][0]);
        if spec["scope"] != fact["scope"]
            || spec["names"] != fact["names"]
            || version["name"] != fact["version"]
        {
            wrong("scope, names or version".to_owned());
        }
        if version["subresources"]["status"].is_object() != (fact["statusSubresource"] == true) {
            wrong("status subresource".to_owned());
        }
        let schema = ours.schema();
        let mut check = |part: &str, holds: &dyn Fn(&Value, &Value) -> bool| {
            for (path, value) in fact[part].as_object().unwrap() {
                match at(schema, path) {
                    Some(node) if holds(node, value) => {}
                    _ => misses.push(format!("{name}: {part} {path} = {value}")),
                }
            }
        };
        check("defaults", &|node, value| &node["default"] == value);
        check("listMaps", &|node, value| {
            node["x-kubernetes-list-type"] == "map" && &node["x-kubernetes-list-map-keys"] == value
        });
        check("enums", &|node, value| &node["enum"] == value);
        check("bounds", &|node, value| {
            value.as_object().unwrap().iter().all(|(bound, value)| &node[bound] == value)
        });
        for path in fact["celPaths"].as_array().unwrap() {
            let path = path.as_str().unwrap();
            let node = if path == "." { Some(schema) } else { at(schema, path) };
            if node.is_none_or(|node| node["x-kubernetes-validations"].is_null()) {
                misses.push(format!("{name}: no rule at {path}"));
            }
        }
    }
    misses
}

/// A node by its path: `.spec.list[].field`.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut node = schema;
    for word in path.split('.').filter(|word| !word.is_empty()) {
        let name = word.trim_end_matches("[]");
        node = node.get("properties")?.get(name)?;
        if word.ends_with("[]") {
            node = node.get("items")?;
        }
    }
    Some(node)
}
