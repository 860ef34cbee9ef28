//! Fields of pod templates that Kubernetes does not know: `nodeSelectr`, `resource`, `imagePullPolcy`. The definitions keep what
//! is in a pod's spec as it is written, so that fields of newer versions of Kubernetes reach the pods; typing errors would, too,
//! and the API server drops them from the pods without a word.
//!
//! ```text
//!   unknown ─┬─ like a known name, or known next door ──▶ refused, with the name that was meant
//!            └─ like nothing that is known             ──▶ a warning: a newer Kubernetes may know it
//! ```
//!
//! What the object had before stays allowed, so that nothing that is there becomes unchangeable.

mod distance;
mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use muster_kube::FieldError;

pub use table::VERSION;

/// With the value [`KEEP`] this annotation turns refusals into warnings: for fields that are younger than this program.
pub const UNKNOWN_FIELDS: &str = "muster.dev/unknown-fields";

/// Unknown fields stay, however much they look like known ones.
pub const KEEP: &str = "keep";

/// Of an object with more of them the rest is not looked for.
const MOST: usize = 20;

/// Where an object has templates, and of which type they are.
type Places = &'static [(&'static [&'static str], &'static str)];

const RUNTIME: Places =
    &[(&["spec", "template", "spec", "replicatedJobs", "template"], "JobTemplateSpec")];
const TRAIN_JOB: Places = &[(
    &[
        "spec",
        "runtimePatches",
        "trainingRuntimeSpec",
        "template",
        "spec",
        "replicatedJobs",
        "template",
    ],
    "JobTemplateSpec",
)];
const SERVING: Places = &[
    (&["spec", "template", "roles", "entryTemplate"], "PodTemplateSpec"),
    (&["spec", "template", "roles", "workerTemplate"], "PodTemplateSpec"),
    (&["spec", "roles", "template"], "PodTemplateSpec"),
];
const DI_JOB: Places = &[
    (&["spec", "coordinator", "template"], "PodTemplateSpec"),
    (&["spec", "collector", "template"], "PodTemplateSpec"),
    (&["spec", "learner", "template"], "PodTemplateSpec"),
    (&["spec", "volumes"], "Volume"),
];
const AGGREGATOR_CONFIG: Places = &[(&["spec", "aggregator", "template"], "PodTemplateSpec")];

/// What is said of the unknown fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Typing errors.
    pub errors: Vec<FieldError>,
    /// What a newer Kubernetes may know.
    pub warnings: Vec<FieldError>,
}

/// A field that is not known where it is.
struct Unknown {
    at: String,
    /// What was probably meant.
    meant: Option<String>,
}

/// Looks for unknown fields in the pod templates of a TrainJob, a runtime, a ModelServing, a DIJob or an
/// AggregatorConfig. Those that the object had before do not count.
pub fn judge(object: &Value, old: Option<&Value>) -> Verdict {
    let places = match object["kind"].as_str().unwrap_or_default() {
        "TrainJob" => TRAIN_JOB,
        "TrainingRuntime" | "ClusterTrainingRuntime" => RUNTIME,
        "ModelServing" => SERVING,
        "DIJob" => DI_JOB,
        "AggregatorConfig" => AGGREGATOR_CONFIG,
        _ => return Verdict::default(),
    };
    let before: BTreeSet<String> =
        old.map(|old| all(old, places)).unwrap_or_default().into_iter().map(|one| one.at).collect();
    let keep = object["metadata"]["annotations"][UNKNOWN_FIELDS] == KEEP;
    let mut verdict = Verdict::default();
    for Unknown { at, meant } in all(object, places) {
        if before.contains(&at) {
            continue;
        }
        match meant {
            Some(meant) if keep => verdict.warnings.push(FieldError::forbidden(
                at,
                format!("unknown field, {meant}? It is kept, as {UNKNOWN_FIELDS} says"),
            )),
            Some(meant) => {
                verdict.errors.push(FieldError::forbidden(at, format!("unknown field, {meant}?")));
            }
            None => verdict.warnings.push(FieldError::forbidden(
                at,
                format!("Kubernetes {VERSION} does not know this field; unless yours does, it has no effect"),
            )),
        }
    }
    verdict
}

/// One refusal of all errors: which object, which fields, what helps.
pub fn refusal(object: &Value, errors: &[FieldError]) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) =
        (word(&object["metadata"]["namespace"]), word(&object["metadata"]["name"]));
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!(
        "{} {name}: {}; correct the names, or annotate {UNKNOWN_FIELDS}={KEEP} if your Kubernetes knows them",
        word(&object["kind"]),
        errors.join(", ")
    )
}

fn all(object: &Value, places: Places) -> Vec<Unknown> {
    let mut found = Vec::new();
    for (path, kind) in places {
        descend(path, kind, String::new(), object, &mut found);
    }
    found
}

/// Goes to a template, through lists as well.
fn descend(path: &[&str], kind: &str, at: String, value: &Value, found: &mut Vec<Unknown>) {
    match (value, path) {
        (Value::Array(items), _) => {
            for (index, item) in items.iter().enumerate() {
                descend(path, kind, format!("{at}[{index}]"), item, found);
            }
        }
        (value, []) => walk(kind, &at, value, found),
        (value, [next, rest @ ..]) => {
            if let Some(inner) = value.get(next) {
                let dot = if at.is_empty() { "" } else { "." };
                descend(rest, kind, format!("{at}{dot}{next}"), inner, found);
            }
        }
    }
}

fn walk(kind: &str, at: &str, value: &Value, found: &mut Vec<Unknown>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(kind, &format!("{at}[{index}]"), item, found);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                if found.len() >= MOST {
                    return;
                }
                let at = format!("{at}.{key}");
                match table::field(kind, key) {
                    Some(Some(below)) => walk(below, &at, value, found),
                    Some(None) => {}
                    None => found.push(Unknown { at, meant: meant(kind, key) }),
                }
            }
        }
        _ => {}
    }
}

/// What somebody meant who wrote this field into an object of this type.
fn meant(kind: &str, key: &str) -> Option<String> {
    if let Some(name) = distance::nearest(key, table::fields(kind)) {
        return Some(format!("did you mean {name}"));
    }
    let knows = |other: &str| table::field(other, key).is_some();
    match kind {
        "Container" if knows("PodSpec") => Some("did you mean that of the pod's spec".to_owned()),
        "PodSpec" if knows("Container") => Some("did you mean that of a container".to_owned()),
        "ResourceRequirements"
            if key.contains('/') || ["cpu", "memory", "ephemeral-storage"].contains(&key) =>
        {
            Some(format!("did you mean limits.{key}"))
        }
        _ => None,
    }
}
