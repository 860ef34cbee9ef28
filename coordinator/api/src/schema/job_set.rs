//! The spec of a JobSet, `jobset.x-k8s.io/v1alpha2`.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::pod::template;
use super::{anything, atomic, list_map, metadata, open, rule, schema, with};

const IMMUTABLE: &str = "Value is immutable";

/// The spec of a JobSet.
pub(crate) fn spec(_: &mut SchemaGenerator) -> Schema {
    let text = json!({"type": "string"});
    let flag = json!({"type": "boolean"});
    let number = json!({"type": "integer", "format": "int32"});
    let network =
        json!({"enableDNSHostnames": flag, "subdomain": text, "publishNotReadyAddresses": flag});
    let coordinator = json!({"type": "object", "required": ["replicatedJob"],
        "properties": {"replicatedJob": text, "jobIndex": number, "podIndex": number}});
    let success = json!({"operator": {"type": "string", "enum": ["All", "Any"]},
        "targetReplicatedJobs": atomic(text.clone())});
    let startup =
        json!({"startupPolicyOrder": {"type": "string", "enum": ["AnyOrder", "InOrder"]}});
    schema(json!({
        "type": "object",
        "description": "The spec of the JobSet.",
        "x-kubernetes-validations": rule(
            "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && \
             has(self.replicatedJobs) && self.replicatedJobs.exists(job, has(job.dependsOn)))",
            "StartupPolicy and DependsOn APIs are mutually exclusive",
        ),
        "properties": {
            "replicatedJobs": list_map(replicated_job(), &["name"]),
            "network": fixed(network, &[]),
            "successPolicy": fixed(success, &["operator"]),
            "failurePolicy": fixed(failure(), &[]),
            "startupPolicy": fixed(startup, &["startupPolicyOrder"]),
            "suspend": flag,
            "coordinator": coordinator,
            "managedBy": text,
            "ttlSecondsAfterFinished": {"type": "integer", "format": "int32", "minimum": 0},
            "volumeClaimPolicies": claims(),
        },
    }))
}

/// An object that stays as it was made.
fn fixed(properties: Value, required: &[&str]) -> Value {
    let mut object = json!({"type": "object", "properties": properties,
        "x-kubernetes-validations": rule("self == oldSelf", IMMUTABLE)});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn failure() -> Value {
    let text = json!({"type": "string"});
    let actions = [
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ];
    let one = json!({"type": "object", "required": ["action", "name"], "properties": {
        "name": text, "action": {"type": "string", "enum": actions},
        "onJobFailureReasons": atomic(text.clone()), "onJobFailureMessagePatterns": atomic(text.clone()),
        "targetReplicatedJobs": atomic(text.clone()),
    }});
    json!({
        "maxRestarts": {"type": "integer", "format": "int32"},
        "restartStrategy": {"type": "string", "default": "Recreate",
            "enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"]},
        "rules": atomic(one),
    })
}

fn claims() -> Value {
    let claim = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata(), "spec": anything(),
        "status": open(json!({"conditions": list_map(open(json!({"type": {"type": "string"}}), &["status", "type"]), &["type"])}), &[]),
    }});
    let retention = json!({"type": "object", "properties": {
        "whenDeleted": {"type": "string", "default": "Delete", "enum": ["Delete", "Retain"]}}});
    let policy = json!({
        "type": "object",
        "properties": {
            "templates": with(atomic(claim), json!({"maxItems": 50})),
            "retentionPolicy": retention,
        },
        "x-kubernetes-validations": rule(
            "!has(self.templates) || self.templates.all(claim, !has(claim.metadata) || !has(claim.metadata.__namespace__) || claim.metadata.__namespace__ == '')",
            "namespace cannot be set for VolumeClaimPolicies templates",
        ),
    });
    with(
        atomic(policy),
        json!({"maxItems": 50, "x-kubernetes-validations": rule("self == oldSelf", IMMUTABLE)}),
    )
}

fn replicated_job() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "format": "int32"});
    let depends = json!({"type": "object", "required": ["name", "status"], "properties": {
        "name": text, "status": {"type": "string", "enum": ["Ready", "Complete"]}}});
    let depends = with(
        list_map(depends, &["name"]),
        json!({"maxItems": 5, "x-kubernetes-validations": rule("self == oldSelf", IMMUTABLE)}),
    );
    let job = open(
        json!({
            "template": template(), "parallelism": number, "completions": number, "backoffLimit": number,
            "completionMode": text, "suspend": {"type": "boolean"}, "managedBy": text,
            "activeDeadlineSeconds": {"type": "integer", "format": "int64"},
            "ttlSecondsAfterFinished": number,
        }),
        &["template"],
    );
    json!({
        "type": "object",
        "required": ["name", "template"],
        "properties": {
            "name": text,
            "groupName": {"type": "string", "default": "default"},
            "replicas": {"type": "integer", "format": "int32", "default": 1},
            "template": {"type": "object", "properties": {"metadata": metadata(), "spec": job}},
            "dependsOn": depends,
        },
    })
}
