//! The definitions: they are what is committed, an API server takes them, and they take, complete and refuse the right
//! objects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::PathBuf;

use muster_api::crd::{self, Definition};
use muster_objects::schema::{Schema, crd as definitions};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds"))
}

fn definition(kind: &str) -> Definition {
    crd::all().into_iter().find(|d| d.object["spec"]["names"]["kind"] == kind).unwrap()
}

/// The object as it is kept, or why it is refused: field and detail.
fn admit(mut object: Value, old: Option<&Value>) -> Result<Value, Vec<String>> {
    let schema = Schema::compile(definition(object["kind"].as_str().unwrap()).schema()).unwrap();
    schema.prune(&mut object);
    schema.default(&mut object);
    let errors = schema.validate(&object, old);
    if errors.is_empty() {
        return Ok(object);
    }
    Err(errors.into_iter().map(|e| format!("{}: {}", e.field, e.detail)).collect())
}

fn job(spec: Value) -> Value {
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "n"}, "spec": spec})
}

/// `MUSTER_WRITE_CRDS=1 cargo test -p muster-api` writes them anew.
#[test]
fn what_is_committed_is_what_the_types_make() {
    for definition in crd::all() {
        let (file, text) = (folder().join(&definition.file), definition.yaml().unwrap());
        if std::env::var_os("MUSTER_WRITE_CRDS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == text, "{} is old: see this test's comment", file.display());
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, definition.object, "{} reads as it was written", definition.file);
    }
}

#[test]
fn an_api_server_takes_them() {
    for definition in crd::all() {
        let mut object = definition.object.clone();
        definitions::default_crd(&mut object);
        assert_eq!(definitions::validate_crd(&object), [], "{}", definition.file);
    }
}

#[test]
fn defaults_are_filled_in_and_unknown_fields_go() {
    let kept = admit(job(json!({"runtimeRef": {"name": "r"}, "podTemplateOverrides": []})), None);
    assert_eq!(
        kept.unwrap()["spec"],
        json!({"runtimeRef": {"name": "r", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
            "suspend": false, "managedBy": "trainer.kubeflow.org/trainjob-controller"})
    );
}

#[test]
fn a_trainer_cannot_be_changed() {
    let spec = |nodes: i32| json!({"runtimeRef": {"name": "r"}, "trainer": {"numNodes": nodes}});
    let old = admit(job(spec(1)), None).unwrap();
    assert_eq!(admit(job(spec(2)), Some(&old)).unwrap_err(), ["spec.trainer: field is immutable"]);
    admit(job(spec(1)), Some(&old)).unwrap();
}

#[test]
fn names_must_be_labels() {
    let mut object = job(json!({"runtimeRef": {"name": "r"}}));
    object["metadata"]["name"] = json!("1a");
    let why = admit(object, None).unwrap_err();
    assert!(why.len() == 1 && why.iter().all(|w| w.contains("RFC 1035")), "{why:?}");
}
