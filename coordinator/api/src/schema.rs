//! Schemas of the kinds: what the types cannot say by themselves, and the form that Kubernetes wants.
//!
//! A pod's spec is not typed to its end: typed is what has defaults, is merged by keys or is summed up. All else is
//! kept as it is written and checked by the API server when the pod is created, so that fields of newer versions of
//! Kubernetes reach the pods.

mod clean;
pub mod job_set;
pub mod patch;
pub mod pod;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// The schema of a type, in the form that Kubernetes wants.
pub fn of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    clean::clean(&mut schema);
    schema
}

/// The key of a label.
pub(crate) const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A whole number of any size.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "integer"}))
}

/// Whole numbers of any size, by name.
pub(crate) fn integers(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "object", "additionalProperties": {"type": "integer"}}))
}

/// A number.
pub(crate) fn number(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "number"}))
}

/// An object of which nothing is typed.
pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    schema(anything())
}

/// Objects of which nothing is typed.
pub(crate) fn anything_list(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "array", "items": anything()}))
}

/// Quantities by resource.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "object", "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
    }}))
}

/// What the levels of a topology must be.
pub(crate) fn levels_rules() -> Value {
    json!([
        {"rule": "self.map(level, level.nodeLabel) == oldSelf.map(level, level.nodeLabel)",
         "message": "node labels stay as they were created; only aliases may change",
         "reason": "FieldValueForbidden"},
        {"rule": "self.all(one, self.filter(other, other.nodeLabel == one.nodeLabel).size() == 1)",
         "message": "each node label may be the label of one level",
         "reason": "FieldValueDuplicate"},
        {"rule": "!self.exists(level, level.nodeLabel == 'kubernetes.io/hostname') || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
         "message": "kubernetes.io/hostname may be the label of the last level only, because nothing is narrower"},
    ])
}

/// A schema that is written as JSON.
pub(crate) fn schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

/// A rule.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!([{"rule": rule, "message": message}])
}

/// It stays as it was made.
pub(crate) fn immutable() -> Value {
    rule("self == oldSelf", "field is immutable")
}

/// It is at least one.
pub(crate) fn at_least_one(message: &str) -> Value {
    rule("self >= 1", message)
}

/// Who may work on a TrainJob.
pub(crate) fn managed_by() -> Value {
    json!([
        {"rule": "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']",
         "message": "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set"},
        {"rule": "self == oldSelf", "message": "field is immutable"},
    ])
}

/// A place, or nothing.
pub(crate) fn storage_uri() -> Value {
    rule(
        "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
        "storageUri may be empty, or it must be a valid URI (scheme://...)",
    )
}

/// A report says when it was made.
pub(crate) fn updated() -> Value {
    rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
}

/// At most one framework.
pub(crate) fn one_policy() -> Value {
    rule(
        "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(x, x).size() <= 1",
        "Only one of the policy can be configured",
    )
}

/// The container that trains has its variables anyway.
pub(crate) fn not_node() -> Value {
    rule(
        "!self.exists(name, name == 'node')",
        "containerNames must not include the main node container because PET_* envs are always injected into it",
    )
}

/// A point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    schema(json!({"type": "string", "format": "date-time"}))
}

/// Conditions of a TrainJob.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    schema(json!({
        "type": "array", "maxItems": 8,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": condition(),
    }))
}

/// A condition as all kinds of Kubernetes have it.
pub(crate) fn condition() -> Value {
    json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string", "maxLength": 316,
                "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "message": {"type": "string", "maxLength": 32768},
        },
    })
}

/// Metadata inside a template.
pub(crate) fn metadata() -> Value {
    let words = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "labels": words, "annotations": words,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "name": {"type": "string"}, "namespace": {"type": "string"},
        },
    })
}

/// A list that merges by keys.
pub(crate) fn list_map(items: Value, keys: &[&str]) -> Value {
    json!({"type": "array", "items": items,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

/// A list that is replaced as a whole.
pub(crate) fn atomic(items: Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
}

/// An object of which only a part is typed.
pub(crate) fn open(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": true});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// An object of which nothing is typed.
pub(crate) fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The same with more.
pub(crate) fn with(mut schema: Value, more: Value) -> Value {
    if let (Some(schema), Value::Object(more)) = (schema.as_object_mut(), more) {
        schema.extend(more);
    }
    schema
}
