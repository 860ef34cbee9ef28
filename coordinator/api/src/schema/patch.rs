//! What a TrainJob may change of its runtime's template.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{anything, atomic, immutable, list_map, metadata, pod, schema, with};

/// Changes of a JobSet's spec.
pub(crate) fn job_set_spec(_: &mut SchemaGenerator) -> Schema {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 253});
    let template =
        json!({"type": "object", "properties": {"metadata": metadata(), "spec": pod_spec(&name)}});
    let job_spec = json!({"type": "object", "properties": {"template": template}});
    let job_template =
        json!({"type": "object", "properties": {"metadata": metadata(), "spec": job_spec}});
    let job = json!({"type": "object", "required": ["name"],
        "properties": {"name": name, "template": job_template}});
    let jobs = with(list_map(job, &["name"]), json!({"maxItems": 100}));
    schema(
        json!({"type": "object", "description": "Changes of its spec, merged as Kubernetes merges.",
        "properties": {"replicatedJobs": jobs}}),
    )
}

fn pod_spec(name: &Value) -> Value {
    let fixed = |value: Value, more: Value| {
        with(with(value, more), json!({"x-kubernetes-validations": immutable()}))
    };
    let container = json!({"type": "object", "required": ["name"], "properties": {
        "name": name,
        "env": with(pod::env(), json!({"maxItems": 128})),
        "volumeMounts": with(pod::mounts_by_volume(), json!({"maxItems": 128})),
        "securityContext": anything(),
    }});
    let containers = fixed(list_map(container, &["name"]), json!({"maxItems": 64}));
    json!({"type": "object", "properties": {
        "serviceAccountName": fixed(json!({"type": "string"}), json!({"maxLength": 253})),
        "volumes": fixed(pod::volumes(), json!({"maxItems": 128})),
        "initContainers": containers,
        "containers": containers,
        "imagePullSecrets": fixed(pod::pull_secrets(), json!({"maxItems": 64})),
        "securityContext": fixed(anything(), json!({})),
        "terminationGracePeriodSeconds":
            fixed(json!({"type": "integer", "format": "int64"}), json!({"minimum": 0})),
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "affinity": anything(),
        "tolerations": with(atomic(anything()), json!({"maxItems": 128})),
        "schedulingGates": with(pod::gates(), json!({"maxItems": 16})),
    }})
}
