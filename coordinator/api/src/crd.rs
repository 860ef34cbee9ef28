//! The CustomResourceDefinitions of the kinds, made of their types.

use serde_json::{Value, json};

use crate::names::{CLUSTER_TRAINING_RUNTIME, GROUP, TRAIN_JOB, TRAINING_RUNTIME, VERSION};
use crate::runtime::TrainingRuntimeSpec;
use crate::schema;
use crate::status::TrainJobStatus;
use crate::train_job::TrainJobSpec;

/// A definition, and the file that it is kept in.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The file below `deploy/crds`.
    pub file: String,
    /// The definition.
    pub object: Value,
}

/// All definitions that are made of types, in the order of their files.
pub fn crds() -> Vec<Definition> {
    vec![
        runtime(CLUSTER_TRAINING_RUNTIME, "clustertrainingruntimes", "Cluster"),
        runtime(TRAINING_RUNTIME, "trainingruntimes", "Namespaced"),
        train_job(),
    ]
}

/// All definitions as documents of YAML.
pub fn yaml() -> Result<String, serde_saphyr::ser::Error> {
    let mut all = String::new();
    for definition in crds() {
        all.push_str("---\n");
        all.push_str(&definition.yaml()?);
    }
    Ok(all)
}

// === impl Definition ===

impl Definition {
    /// As it is kept.
    pub fn yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        serde_saphyr::to_string(&self.object)
    }

    /// Its schema.
    pub fn schema(&self) -> &Value {
        &self.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

fn train_job() -> Definition {
    let rules = json!([
        {"rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
         "message": "metadata.name must match RFC 1035 DNS label format"},
        {"rule": "size(self.metadata.name) <= 63",
         "message": "metadata.name must be no more than 63 characters"},
    ]);
    let mut root = root("One run of a training.", schema::of::<TrainJobSpec>());
    root["properties"]["status"] = schema::of::<TrainJobStatus>();
    root["x-kubernetes-validations"] = rules;
    let version = json!({
        "name": VERSION, "served": true, "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": root},
    });
    definition(TRAIN_JOB, "trainjobs", "Namespaced", version)
}

fn runtime(kind: &str, plural: &str, scope: &str) -> Definition {
    let mut root = root(
        "What TrainJobs run on: a JobSet's template, and how its jobs learn and are scheduled.",
        schema::of::<TrainingRuntimeSpec>(),
    );
    // No subresource: the original's has none, and writers of its kind must find the same paths.
    root["properties"]["status"] = json!({"type": "object", "properties": {"conditions": {
        "type": "array", "maxItems": 8, "items": schema::condition(),
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    }}});
    let version = json!({"name": VERSION, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": root}});
    definition(kind, plural, scope, version)
}

fn root(description: &str, spec: Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": spec,
        },
    })
}

fn definition(kind: &str, plural: &str, scope: &str, version: Value) -> Definition {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase()},
            "versions": [version],
        },
    });
    Definition { file: format!("{GROUP}_{plural}.yaml"), object }
}
