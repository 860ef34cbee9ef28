//! Facts of a pod as the downward API prints them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::lifecycle::{list, text};

/// A fact of the pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A field of the pod, `fieldRef.fieldPath`.
    Field(String),
    /// `resourceFieldRef`: container and resource.
    Resource {
        /// Empty: the one that asks.
        container: String,
        /// The resource, such as `limits.cpu`.
        resource: String,
    },
}

// === impl Fact ===

impl Fact {
    /// Reads `fieldRef` or `resourceFieldRef` of an item or of an environment's `valueFrom`.
    pub fn read(from: &Value) -> Self {
        match (from.get("fieldRef"), from.get("resourceFieldRef")) {
            (None, Some(resource)) => Self::Resource {
                container: text(resource, "containerName").to_owned(),
                resource: text(resource, "resource").to_owned(),
            },
            (field, _) => {
                Self::Field(field.map(|f| text(f, "fieldPath")).unwrap_or_default().to_owned())
            }
        }
    }

    /// Its value; `container` is the one that asks, for a resource that names none.
    pub fn of(&self, pod: &Value, container: &str) -> String {
        match self {
            Self::Field(path) => field(pod, path),
            Self::Resource { container: named, resource } => {
                let name = if named.is_empty() { container } else { named };
                let spec = pod.get("spec").unwrap_or(&Value::Null);
                let both = list(spec, "containers").iter().chain(list(spec, "initContainers"));
                let found = both.into_iter().find(|c| text(c, "name") == name);
                let (side, resource) = resource.split_once('.').unwrap_or(("limits", resource));
                let amount = found
                    .and_then(|c| c.get("resources")?.get(side)?.get(resource))
                    .unwrap_or(&Value::Null);
                amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
            }
        }
    }
}

/// A field of a pod as the downward API prints it.
fn field(pod: &Value, path: &str) -> String {
    if let Some((map, key)) =
        path.strip_suffix("']").and_then(|p| p.split_once("['")).filter(|(m, _)| is_map(m))
    {
        let map = map.trim_start_matches("metadata.");
        let value = pod.get("metadata").and_then(|m| m.get(map)?.get(key)?.as_str());
        return value.unwrap_or_default().to_owned();
    }
    if is_map(path) {
        let map = path.trim_start_matches("metadata.");
        let entries = pod.get("metadata").and_then(|m| m.get(map)).and_then(Value::as_object);
        let lines: BTreeMap<&String, &Value> = entries.into_iter().flatten().collect();
        let lines: Vec<String> = lines
            .iter()
            .map(|(key, value)| format!("{key}={:?}", value.as_str().unwrap_or_default()))
            .collect();
        return lines.join("\n");
    }
    if path == "status.podIPs" || path == "status.hostIPs" {
        let key = path.trim_start_matches("status.");
        let ips = pod.get("status").map(|s| list(s, key)).unwrap_or_default();
        return ips.iter().map(|ip| text(ip, "ip")).collect::<Vec<_>>().join(",");
    }
    let found = pod.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn is_map(path: &str) -> bool {
    matches!(path, "metadata.labels" | "metadata.annotations")
}
