//! What is not the same twice, or is nobody's business: keys, times, and the text of scripts.

use jiff::Timestamp;
use muster_pipeline::plugin::flux::VIEW_IMAGE;
use serde_json::{Map, Value as Json, json};

const SECRET: &str = "<masked>";
const NOW: &str = "<now>";
const IMAGE: &str = "<default-flux-view-image>";
/// Times that are nearer count as now.
const NEAR: i64 = 12 * 3600;

/// What is filled into a script of Flux: what it is, and the texts around it.
const ENTRYPOINT: [(&str, &str, &str); 3] = [
    ("resourceSpec", "--hosts=${hosts} ", " > "),
    ("mainHost", "\nmainHost=\"", "\""),
    ("submitFlags", "flags=\"", "\""),
];
const INIT: [(&str, &str, &str); 8] = [
    ("fluxRoot", "\nfluxroot=", "\n"),
    ("mainHost", "\nmainHost=", "\n"),
    ("hosts", "\nhosts=\"", "\""),
    ("defaultBind", "\ndefault_bind = \"", "\""),
    ("defaultConnect", "\ndefault_connect = \"", "\""),
    ("defaultPort", "\ndefault_port = ", "\n"),
    ("bootstrapHost", "\n{ host=\"", "\"}"),
    ("queuePolicy", "\nqueue-policy = \"", "\""),
];

/// Objects, sorted by kind, API and name.
pub(super) fn objects(mut objects: Vec<Json>) -> Vec<Json> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    objects.sort_by_cached_key(|object| {
        (text(&object["kind"]), text(&object["apiVersion"]), text(&object["metadata"]["name"]))
    });
    for object in &mut objects {
        if object["kind"] == "Secret" && object["type"] == "kubernetes.io/ssh-auth" {
            let data = object["data"].as_object_mut().into_iter().flatten();
            data.for_each(|(_, value)| *value = json!(SECRET));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if object["kind"] == "ConfigMap" && name.ends_with("-flux-entrypoint") {
            for (key, facts) in [("entrypoint.sh", &ENTRYPOINT[..]), ("init.sh", &INIT)] {
                if let Some(text) = object["data"].get(key).and_then(Json::as_str) {
                    object["data"][key] = reduced(text, facts);
                }
            }
        }
        texts(object, &|text| (text == VIEW_IMAGE).then_some(IMAGE));
    }
    objects
}

/// A snapshot: whose it is, and what is in it.
pub(super) fn snapshot(config_map: &Json) -> Json {
    let data = config_map["data"].as_object();
    let keys: Vec<&String> = data.into_iter().flat_map(Map::keys).collect();
    let text = config_map["data"]["runtime"].as_str().unwrap_or_default();
    let mut runtime: Json = serde_saphyr::from_str(text).unwrap_or_default();
    if let Some(metadata) = runtime.get_mut("metadata").and_then(Json::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    json!({
        "name": config_map["metadata"]["name"], "ownerReferences": config_map["metadata"]["ownerReferences"],
        "dataKeys": keys, "runtime": runtime,
    })
}

/// Times near `now` are now.
pub(super) fn times(mut value: Json, now: Timestamp) -> Json {
    texts(&mut value, &|text| {
        let time: Timestamp = text.parse().ok()?;
        let apart = time.as_second().saturating_sub(now.as_second());
        (apart.abs() < NEAR).then_some(NOW)
    });
    value
}

fn reduced(text: &str, facts: &[(&str, &str, &str)]) -> Json {
    let found = facts.iter().filter_map(|(name, before, after)| {
        let (_, rest) = text.split_once(before)?;
        let line = rest.lines().next()?;
        // A value may have in it what ends it: the last one counts.
        let end = if *after == "\n" { line.len() } else { line.rfind(after)? };
        Some(((*name).to_owned(), json!(line.get(..end)?.trim_end())))
    });
    Json::Object(found.collect())
}

/// Replaces texts, however deep.
fn texts(value: &mut Json, by: &impl Fn(&str) -> Option<&'static str>) {
    match value {
        Json::String(text) => {
            if let Some(other) = by(text) {
                other.clone_into(text);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| texts(item, by)),
        Json::Object(fields) => fields.values_mut().for_each(|field| texts(field, by)),
        _ => {}
    }
}
