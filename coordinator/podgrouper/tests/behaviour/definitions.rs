//! The shipped definitions, as an API server uses them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::schema::{Schema, crd};
use serde_json::Value;

/// Kinds and their definitions.
pub const ALL: [(&str, &str); 6] = [
    ("PodGroup", include_str!("../../../../deploy/crds/scheduling.run.ai_podgroups.yaml")),
    ("Queue", include_str!("../../../../deploy/crds/scheduling.run.ai_queues.yaml")),
    ("BindRequest", include_str!("../../../../deploy/crds/scheduling.run.ai_bindrequests.yaml")),
    ("Topology", include_str!("../../../../deploy/crds/kai.scheduler_topologies.yaml")),
    (
        "SchedulingShard",
        include_str!("../../../../deploy/crds/kai.scheduler_schedulingshards.yaml"),
    ),
    ("Config", include_str!("../../../../deploy/crds/kai.scheduler_configs.yaml")),
];

/// The definition of a kind.
pub fn definition(kind: &str) -> Value {
    let (_, text) = ALL.iter().find(|(name, _)| *name == kind).unwrap();
    let mut definition: Value = serde_saphyr::from_str(text).unwrap();
    crd::default_crd(&mut definition);
    definition
}

/// The schema of a kind, compiled once.
pub fn schema(kind: &str) -> &'static Schema {
    static SCHEMAS: OnceLock<BTreeMap<&str, Schema>> = OnceLock::new();
    let compile = |kind: &'static str| {
        let mut definition = definition(kind);
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
        (kind, Schema::compile(&schema).unwrap())
    };
    &SCHEMAS.get_or_init(|| ALL.iter().map(|(kind, _)| compile(kind)).collect())[kind]
}

/// Completes an object and says what is wrong with it.
pub fn complete(kind: &str, object: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    let schema = schema(kind);
    schema.prune(object);
    schema.default(object);
    schema.validate(object, old)
}

/// What is wrong with an object.
pub fn refused(kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    complete(kind, &mut object.clone(), old)
}

/// What kind of wrong, in one word.
pub fn class(error: &FieldError) -> String {
    let has = |part: &str| error.detail.contains(part);
    let class = match error.kind {
        FieldErrorKind::Required => "required",
        FieldErrorKind::NotSupported => "enum",
        FieldErrorKind::TooLong => "too-long",
        FieldErrorKind::TooMany => "too-many",
        FieldErrorKind::TypeInvalid => "type",
        FieldErrorKind::Duplicate => "not-unique",
        FieldErrorKind::Forbidden => "immutable",
        _ if has("should match") => "pattern",
        _ if has("should be at least") || has("should have at least") => "too-short",
        _ if has("greater than or equal to") => "minimum",
        _ if has("hostname") => "hostname-not-last",
        _ => "other",
    };
    class.to_owned()
}
