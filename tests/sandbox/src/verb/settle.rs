//! What a write may not touch: the endpoint's limits, the server's own fields, the generation.

use muster_objects::meta;
use serde_json::{Value, json};

use crate::builtin;
use crate::kinds::Kind;
use crate::{control, crd};

/// Restores what this endpoint may not write.
pub fn reset(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    if subresource == "status" {
        if kind.custom.is_some() {
            let status = new.get("status").cloned();
            let mut kept = old.clone();
            let metadata = meta::edit(new);
            for field in ["managedFields", "resourceVersion"] {
                match metadata.remove(field) {
                    Some(value) => meta::edit(&mut kept).insert(field.into(), value),
                    None => meta::edit(&mut kept).remove(field),
                };
            }
            match status {
                Some(status) => meta::as_map(&mut kept).insert("status".into(), status),
                None => meta::as_map(&mut kept).remove("status"),
            };
            *new = kept;
        } else {
            builtin::prepare_status(&kind.group, &kind.kind, new, old);
        }
    } else if kind.status {
        match old.get("status") {
            Some(status) if new.get("status") == Some(status) => None,
            Some(status) => meta::as_map(new).insert("status".into(), status.clone()),
            None => meta::as_map(new).remove("status"),
        };
    }
}

/// What only the server writes comes from the live object.
pub fn keep_system_fields(kind: &Kind, new: &mut Value, old: &Value) {
    let metadata = meta::edit(new);
    if kind.namespaced {
        metadata.entry("namespace").or_insert_with(|| old["metadata"]["namespace"].clone());
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "generateName",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if metadata.get("uid").and_then(Value::as_str).unwrap_or("").is_empty() {
        metadata.insert("uid".into(), old["metadata"]["uid"].clone());
    }
}

/// After admission: what the kind itself settles, generation above all.
pub fn settle(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    keep_system_fields(kind, new, old);
    if let Some(custom) = &kind.custom {
        if subresource.is_empty() {
            if custom.hosted {
                control::default(&kind.group, &kind.kind, new);
            }
            custom.schema.prune(new);
            custom.schema.default(new);
        }
        if differs_beyond_metadata(kind, new, old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta::edit(new).insert("generation".into(), json!(generation));
        }
    } else if matches!(subresource, "" | "scale") {
        builtin::prepare_update(&kind.group, &kind.kind, new, old);
        if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            crd::prepare_update(new, old);
        }
    }
    let revision = old["metadata"]["resourceVersion"].clone();
    meta::edit(new).insert("resourceVersion".into(), revision);
}

fn differs_beyond_metadata(kind: &Kind, new: &Value, old: &Value) -> bool {
    let part = |v: &Value| {
        let mut map = v.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        if kind.status {
            map.remove("status");
        }
        map
    };
    part(new) != part(old)
}
