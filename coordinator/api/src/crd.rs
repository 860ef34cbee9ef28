//! The CustomResourceDefinitions of the kinds, made of their types.

use serde_json::{Value, json};

use crate::kai;
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
    /// What the file says before the definition, without comment signs.
    pub head: &'static str,
    /// The definition.
    pub object: Value,
}

/// What a kind is called.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The API group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind in paths.
    pub plural: &'a str,
    /// `Namespaced` or `Cluster`.
    pub scope: &'a str,
    /// What people may call it for short.
    pub short: &'a [&'a str],
}

/// All definitions that are made of these types, in the order of their files.
pub fn all() -> Vec<Definition> {
    let mut all = vec![
        kai::config::definition(),
        kai::scheduling_shard::definition(),
        kai::topology::definition(),
        kai::bind_request::definition(),
        kai::pod_group::definition(),
        kai::queue::definition(),
    ];
    all.extend(crds());
    all
}

/// The definitions of TrainJobs and their runtimes, in the order of their files.
pub fn crds() -> Vec<Definition> {
    vec![
        runtime(CLUSTER_TRAINING_RUNTIME, "clustertrainingruntimes", "Cluster"),
        runtime(TRAINING_RUNTIME, "trainingruntimes", "Namespaced"),
        train_job(),
    ]
}

/// The definitions of TrainJobs and their runtimes as documents of YAML.
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
    /// The definition of a kind with one version. `properties` are those of its objects, `version` what the version has
    /// beside its schema.
    pub fn new(
        head: &'static str,
        names: &Names<'_>,
        description: &str,
        properties: Value,
        required: &[&str],
        version: Value,
    ) -> Self {
        let Names { group, version: number, kind, plural, scope, short } = names;
        let mut root = json!({
            "description": description, "type": "object",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            },
        });
        root["properties"] = schema::with(root["properties"].take(), properties);
        if !required.is_empty() {
            root["required"] = json!(required);
        }
        let version = schema::with(
            json!({"name": number, "served": true, "storage": true, "schema": {"openAPIV3Schema": root}}),
            version,
        );
        let mut called = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
        });
        if !short.is_empty() {
            called["shortNames"] = json!(short);
        }
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": scope, "names": called, "versions": [version]},
        });
        Self { file: format!("{group}_{plural}.yaml"), head, object }
    }

    /// As it is kept.
    pub fn yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        let head: String = self.head.lines().map(|line| format!("# {line}\n")).collect();
        Ok(head + &serde_saphyr::to_string(&self.object)?)
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
    Definition { file: format!("{GROUP}_{plural}.yaml"), head: "", object }
}
