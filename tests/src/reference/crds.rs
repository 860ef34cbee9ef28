//! Custom resources, field by field, from the definitions in `deploy/crds`. Those are compared with the types by tests of their own.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{cell, code, head, root, row};

/// Fields that are Kubernetes' or JobSet's own, and are described there.
const OTHERS: [&str; 14] = [
    "affinity",
    "conditions",
    "containers",
    "env",
    "envFrom",
    "initContainers",
    "metadata",
    "replicatedJobs",
    "resources",
    "resourcesPerNode",
    "securityContext",
    "tolerations",
    "volumeClaimPolicies",
    "volumes",
];

/// The page's text.
pub fn page() -> Result<String> {
    let mut files: Vec<_> = std::fs::read_dir(root().join("deploy/crds"))?
        .map(|file| Ok(file?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut text = head(
        "Custom resources",
        "Every field that is Muster's to act on. What is Kubernetes' or JobSet's own is named and described there. \
         `kubectl explain` says the same in a cluster.",
    );
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let yaml = std::fs::read_to_string(&file)?;
        for definition in
            serde_saphyr::from_multiple::<Value>(&yaml).with_context(|| name.to_owned())?
        {
            kind(&mut text, name, &definition);
        }
    }
    Ok(text)
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn kind(text: &mut String, file: &str, definition: &Value) {
    let spec = &definition["spec"];
    let (names, group) = (&spec["names"], spec["group"].as_str().unwrap_or_default());
    let kind = names["kind"].as_str().unwrap_or_default();
    for version in spec["versions"].as_array().into_iter().flatten() {
        let api = format!("{group}/{}", version["name"].as_str().unwrap_or_default());
        *text += &format!("\n## {kind}, {api}\n\n");
        let scope = spec["scope"].as_str().unwrap_or_default();
        *text += &format!("[{file}](../../deploy/crds/{file}) · {scope}");
        let short = words(&names["shortNames"]);
        if !short.is_empty() {
            *text += &format!(" · short: {}", code(&short.join(", ")));
        }
        let parts: Vec<String> = version["subresources"]
            .as_object()
            .map(|parts| parts.keys().map(|part| code(part)).collect())
            .unwrap_or_default();
        if !parts.is_empty() {
            *text += &format!(" · subresources: {}", parts.join(", "));
        }
        let columns: Vec<&str> = version["additionalPrinterColumns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|column| column["name"].as_str())
            .collect();
        if !columns.is_empty() {
            *text += &format!(" · columns: {}", columns.join(", "));
        }
        *text += "\n\n| field | type | default | meaning |\n|---|---|---|---|\n";
        let schema = &version["schema"]["openAPIV3Schema"];
        for part in ["spec", "status"] {
            let field = &schema["properties"][part];
            if !field.is_null() {
                let needed = words(&schema["required"]).contains(&part);
                fields(text, part, part, field, needed);
            }
        }
        if let Some(rules) = rules(schema) {
            *text += &format!("\n{rules}\n");
        }
    }
}

/// One field and those below it.
fn fields(text: &mut String, path: &str, name: &str, field: &Value, needed: bool) {
    let (kind, below, path) = match field["type"].as_str() {
        Some("array") => {
            let items = &field["items"];
            (format!("list of {}", plain(items)), items, format!("{path}[]"))
        }
        Some("object") if field["additionalProperties"].is_object() => {
            let items = &field["additionalProperties"];
            (format!("map of {}", plain(items)), items, format!("{path}.*"))
        }
        _ => (plain(field), field, path.to_owned()),
    };
    let default = match &field["default"] {
        Value::Null => String::new(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut about = field["description"].as_str().unwrap_or_default().to_owned();
    if OTHERS.contains(&name) && below["properties"].is_object() && about.is_empty() {
        about = "As in Kubernetes.".to_owned();
    }
    let notes = [needed.then(|| "Required.".to_owned()), limits(field), rules(field)];
    for note in notes.into_iter().flatten() {
        about = format!("{about} {note}");
    }
    let shown = path.trim_end_matches(".*").trim_end_matches("[]");
    *text += &row(&[code(shown), cell(&kind), code(&default), cell(&about)]);
    if OTHERS.contains(&name) {
        return;
    }
    let required = words(&below["required"]);
    for (name, field) in below["properties"].as_object().into_iter().flatten() {
        fields(text, &format!("{path}.{name}"), name, field, required.contains(&name.as_str()));
    }
}

/// The type, in a word or two.
fn plain(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match (field["type"].as_str(), field["format"].as_str()) {
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// What values may be.
fn limits(field: &Value) -> Option<String> {
    let mut notes = Vec::new();
    let options = words(&field["enum"]);
    if !options.is_empty() {
        let options: Vec<String> =
            options.iter().filter(|word| !word.is_empty()).map(|w| code(w)).collect();
        notes.push(format!("One of {}.", options.join(", ")));
    }
    for (key, said) in [
        ("minimum", "At least"),
        ("maximum", "At most"),
        ("minItems", "Items at least"),
        ("maxItems", "Items at most"),
        ("maxLength", "Letters at most"),
    ] {
        if !field[key].is_null() {
            notes.push(format!("{said} {}.", field[key]));
        }
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// The rules of a schema, in the words that users are told.
fn rules(field: &Value) -> Option<String> {
    let rules = field["x-kubernetes-validations"].as_array()?;
    let said: Vec<String> = rules
        .iter()
        .map(|rule| match rule["message"].as_str() {
            Some(message) => message.to_owned(),
            None => code(rule["rule"].as_str().unwrap_or_default()),
        })
        .collect();
    Some(format!("Rules: {}.", said.join("; ")))
}
