//! The definitions, made from what the types hold. `deploy/crds/dijob.yaml` is this, written out; a test compares.

use serde_json::{Value, json};

use crate::api;

/// The definition of DIJobs.
pub fn dijob() -> Value {
    let replica = |about: &str| {
        let mut schema = replica();
        schema["description"] = about.into();
        schema
    };
    let spec = json!({
        "type": "object",
        "description": "What is wanted.",
        "required": ["coordinator"],
        "properties": {
            "group": text("A word for jobs that belong together."),
            "priorityClassName": text("Priority class of the coordinator, and of all other pods that name none."),
            "cleanPodPolicy": {
                "type": "string", "default": "Running",
                "description": "Which pods go when the job has ended: Running, All or None.",
            },
            "volumes": {
                "type": "array", "description": "Volumes of all pods but aggregators.",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
            "coordinator": replica("The pod that decides what is learned next."),
            "collector": replica("Pods that play."),
            "learner": replica("Pods that learn."),
        },
    });
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": text("The phase."),
            "status": text("True, False or Unknown."),
            "reason": text("Why, in one word."),
            "message": text("Why, for a person."),
            "lastUpdateTime": time("When it was last said."),
            "lastTransitionTime": time("Since when."),
        },
    });
    let count = |about: &str| json!({"type": "integer", "format": "int32", "description": about});
    let counts = json!({
        "type": "object",
        "properties": {
            "active": count("Pods that run."),
            "succeeded": count("Pods that have done their work."),
            "failed": count("Pods that have failed."),
        },
    });
    let status = json!({
        "type": "object",
        "description": "What is there.",
        "properties": {
            "phase": text("Created, Running, Succeeded or Failed."),
            "conditions": {"type": "array", "items": condition},
            "replicaStatus": {
                "type": "object", "description": "Pods by role.", "additionalProperties": counts,
            },
        },
    });
    let phase = json!({"name": "Phase", "type": "string", "jsonPath": ".status.phase"});
    definition(api::KIND, "dijobs", "dijob", &["dijob"], &[phase, age()], &spec, &status)
}

/// The definition of AggregatorConfigs.
pub fn aggregator_config() -> Value {
    let mut aggregator = replica();
    aggregator["description"] = "How aggregators look.".into();
    let spec = json!({
        "type": "object",
        "description": "What is wanted.",
        "required": ["aggregator"],
        "properties": {"aggregator": aggregator},
    });
    let status = json!({"type": "object"});
    let (plural, single) = ("aggregatorconfigs", "aggregatorconfig");
    definition(api::AGGREGATOR_KIND, plural, single, &["agconfig"], &[age()], &spec, &status)
}

fn definition(
    kind: &str,
    plural: &str,
    singular: &str,
    short: &[&str],
    columns: &[Value],
    spec: &Value,
    status: &Value,
) -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", api::GROUP)},
        "spec": {
            "group": api::GROUP,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular,
                "shortNames": short,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": api::VERSION, "served": true, "storage": true,
                "additionalPrinterColumns": columns,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// A template: containers must be there, all else is the API server's to judge when the pod is made.
fn replica() -> Value {
    let text_map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let container = json!({
        "type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": {"type": "string"}},
    });
    json!({
        "type": "object",
        "required": ["template"],
        "properties": {"template": {
            "type": "object",
            "required": ["spec"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "metadata": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"labels": text_map, "annotations": text_map},
                },
                "spec": {
                    "type": "object", "required": ["containers"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"containers": {"type": "array", "minItems": 1, "items": container}},
                },
            },
        }},
    })
}

fn age() -> Value {
    json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn time(about: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": about})
}
