//! With its defaults the chart installs the files of `deploy/` as they are: what tests apply is what administrators get.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Finding, Rendered, deploy, name};

/// The folders whose objects the chart takes over.
const FOLDERS: [&str; 5] = ["agent", "coordinator", "crds", "ctl", "templates"];

/// Files that are installed only where a value asks for them.
const OPTIONAL: [&str; 1] = ["leader-worker-sets.yaml"];

/// Labels that are the chart's.
const LABELS: [&str; 5] = [
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

/// Compares a rendering with defaults, in `muster-system`, with the files.
pub fn same(rendered: &Rendered) -> Result<Finding> {
    let mut broken = Vec::new();
    let mut seen = 0;
    for folder in FOLDERS {
        for file in fs::read_dir(deploy().join(folder))? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| OPTIONAL.iter().any(|one| name == *one)) {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(&text).with_context(|| path.display().to_string())?;
            for object in objects.iter().filter(|object| !object.is_null()) {
                seen += 1;
                let kind = object["kind"].as_str().unwrap_or_default();
                let named = object["metadata"]["name"].as_str().unwrap_or_default();
                match rendered.get(kind, named) {
                    None => broken.push(format!("{} is not in the chart", name(object))),
                    Some(found) => {
                        let found = &undefaulted(found, object);
                        broken.extend(differs("", &plain(object), &plain(found)).map(|place| {
                            format!("{} differs from {} at {place}", name(object), path.display())
                        }));
                    }
                }
            }
        }
    }
    anyhow::ensure!(seen > 30, "only {seen} objects in deploy/");
    Ok(Finding { rule: "the files of deploy/ are installed as they are", broken })
}

/// A definition of ModelServings with the scheduler's name that its file has: the chart puts its own there.
fn undefaulted(found: &Value, file: &Value) -> Value {
    let mut found = found.clone();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let of_pods = "/roles/items/properties/template/properties/spec/properties";
    for place in ["", of_pods] {
        let place = format!("{spec}{place}/schedulerName");
        let ours = found.pointer(&place).is_some_and(|it| it["default"] == "muster-scheduler");
        if let (true, Some(file)) = (ours, file.pointer(&place))
            && let Some(here) = found.pointer_mut(&place)
        {
            *here = file.clone();
        }
    }
    found
}

/// An object without what is the chart's.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = &mut object["metadata"];
    for (field, ours) in [("labels", &LABELS[..]), ("annotations", &["helm.sh/resource-policy"])] {
        if let Some(map) = metadata[field].as_object_mut() {
            map.retain(|key, _| !ours.contains(&key.as_str()));
        }
        if metadata[field].as_object().is_none_or(serde_json::Map::is_empty)
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove(field);
        }
    }
    object
}

/// The first place where two values differ.
fn differs(place: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let missing = other.keys().find(|key| !one.contains_key(*key));
            let missing = missing.map(|key| format!("{place}/{key}"));
            let inner = one.iter().find_map(|(key, value)| {
                let found = other.get(key).unwrap_or(&Value::Null);
                differs(&format!("{place}/{key}"), value, found)
            });
            inner.or(missing)
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| differs(&format!("{place}/{index}"), one, other))
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ if one == other => None,
        _ => Some(place.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_the_chart_do_not_count_and_others_do() {
        let file =
            json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "rules": [{"verbs": ["get"]}]});
        let mut found = file.clone();
        found["metadata"]["labels"]["helm.sh/chart"] = json!("muster-1");
        assert_eq!(differs("", &plain(&file), &plain(&found)), None);
        found["rules"][0]["verbs"] = json!(["get", "list"]);
        assert_eq!(differs("", &plain(&file), &plain(&found)), Some("/rules/0/verbs".to_owned()));
        found["rules"] = file["rules"].clone();
        found["metadata"]["labels"]["y"] = json!("2");
        let place = differs("", &plain(&file), &plain(&found));
        assert_eq!(place, Some("/metadata/labels/y".to_owned()));
    }
}
