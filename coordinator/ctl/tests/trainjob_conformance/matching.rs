//! How a document is compared with a recorded one: the rules of the cases' README.

use serde_json::{Map, Value, json};

/// The first difference.
pub fn matches(got: &Value, expected: &Value) -> Result<(), String> {
    let crashed = expected["reconcile"]["error"].as_str().is_some_and(|e| e.starts_with("panic"));
    let mut variants = vec![&expected["objects"]];
    variants.extend(expected["objectAlternatives"].as_array().into_iter().flatten());
    let objects = clean(&got["objects"]);
    if !variants.iter().any(|variant| clean(variant) == objects) {
        return Err(differ("objects", &objects, &clean(variants[0])));
    }
    same("warnings", &got["warnings"], &expected["warnings"])?;
    same("errors", &rows(got), &rows(expected))?;
    same("snapshot", &clean(&got["snapshot"]), &clean(&expected["snapshot"]))?;
    same("status", &clean(&got["status"]), &clean(&expected["status"]))?;
    if crashed {
        // The original crashes: ours says what is wrong.
        let said = !got["reconcile"]["error"].is_null()
            || got["reconcile"]["status"]["conditions"][0]["type"] == "Failed";
        return said.then_some(()).ok_or_else(|| format!("no error: {}", got["reconcile"]));
    }
    let (got, expected) = (&got["reconcile"], &expected["reconcile"]);
    for key in ["status", "requeues", "jobSetAfter"] {
        same(key, &clean(&got[key]), &clean(&expected[key]))?;
    }
    let events = |of: &Value| -> Value {
        let events = of["events"].as_array().into_iter().flatten();
        let start = |event: &Value| {
            let text = event.as_str().unwrap_or_default();
            text.split_inclusive(':').next().unwrap_or_default().to_owned()
        };
        events.map(|event| json!(start(event))).collect()
    };
    same("events", &events(got), &events(expected))?;
    same("error", &json!(got["error"].is_null()), &json!(expected["error"].is_null()))
}

fn same(what: &str, got: &Value, expected: &Value) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(differ(what, got, expected)) }
}

/// Phase, type and field; details are ours. A crash of the original is an error of ours.
fn rows(document: &Value) -> Value {
    let errors = document["errors"].as_array().into_iter().flatten();
    let mut rows: Vec<String> = errors
        .filter(|error| error["phase"] != "decode")
        .map(|error| {
            let kind = error["type"].as_str().unwrap();
            let kind = if kind == "Panic" { "Error" } else { kind };
            let text = |key: &str| error[key].as_str().unwrap_or_default();
            format!("{} {kind} {}", text("phase"), text("field"))
        })
        .collect();
    rows.sort();
    json!(rows)
}

/// Without empty `metadata` and `resources`, which are noise.
fn clean(value: &Value) -> Value {
    let noise = |key: &str, value: &Value| {
        matches!(key, "metadata" | "resources") && value.as_object().is_some_and(Map::is_empty)
    };
    match value {
        Value::Array(items) => items.iter().map(clean).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().map(|(key, value)| (key.clone(), clean(value)));
            Value::Object(kept.filter(|(key, value)| !noise(key, value)).collect())
        }
        other => other.clone(),
    }
}

/// Where they differ first.
fn differ(at: &str, got: &Value, expected: &Value) -> String {
    match (got, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys());
            for key in keys {
                let (x, y) = (a.get(key), b.get(key));
                if x != y {
                    let null = Value::Null;
                    return differ(&format!("{at}.{key}"), x.unwrap_or(&null), y.unwrap_or(&null));
                }
            }
            String::new()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let odd = a.iter().zip(b).enumerate().find(|(_, (x, y))| x != y);
            odd.map(|(i, (x, y))| differ(&format!("{at}[{i}]"), x, y)).unwrap_or_default()
        }
        _ => format!("{at}: got {got}, expected {expected}"),
    }
}
