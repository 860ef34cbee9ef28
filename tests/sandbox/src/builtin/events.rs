//! Events in their two views: core/v1 as stored, and events.k8s.io/v1.

use serde_json::{Map, Value};

/// Names of one field in core/v1 and in events.k8s.io/v1.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Printed in core/v1 even when empty.
const ALWAYS: [&str; 2] = ["reportingComponent", "reportingInstance"];

fn rename(event: &Value, names: impl Fn(&str) -> Option<&'static str>, version: &str) -> Value {
    let mut out = Map::new();
    for (key, value) in event.as_object().into_iter().flatten() {
        let key = names(key).unwrap_or(key);
        out.insert(key.to_owned(), value.clone());
    }
    out.insert("apiVersion".to_owned(), version.into());
    out.insert("kind".to_owned(), "Event".into());
    Value::Object(out)
}

/// An event of core/v1 as events.k8s.io/v1 shows it.
pub fn event_to_v1(core: &Value) -> Value {
    let names =
        |key: &str| RENAMED.iter().find(|(core, _)| *core == key).map(|(_, events)| *events);
    let mut event = rename(core, names, "events.k8s.io/v1");
    if let Value::Object(fields) = &mut event {
        for key in ["reportingController", "reportingInstance"] {
            if fields.get(key).is_some_and(|value| value == "") {
                fields.remove(key);
            }
        }
    }
    event
}

/// An event of events.k8s.io/v1 as core/v1 stores it.
pub fn event_from_v1(event: &Value) -> Value {
    let names =
        |key: &str| RENAMED.iter().find(|(_, events)| *events == key).map(|(core, _)| *core);
    let mut core = rename(event, names, "v1");
    if let Value::Object(fields) = &mut core {
        for key in ALWAYS {
            fields.entry(key).or_insert_with(|| "".into());
        }
        fields.entry("involvedObject").or_insert_with(|| Value::Object(Map::new()));
    }
    core
}
