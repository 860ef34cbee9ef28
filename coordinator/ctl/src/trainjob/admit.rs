//! The API server's part: unknown fields go, defaults come, schema and rules are checked, then the webhooks of runtimes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use muster_api::{TrainJob, crd};
use muster_modelserving::pod_fields;
use muster_objects::schema::Schema;
use muster_pipeline::runtime::Runtime;
use muster_pipeline::validate;
use serde_json::{Value as Json, json};

use super::{Finding, integers};
use crate::{Failure, modelserving::called};

/// What a test of recorded cases may ask for.
const OPTIONS: &str = "oracle.test/v1";
/// Marks the TrainJob as it was before an update.
const OLD: &str = "oracle.test/old";
const GROUP: &str = "trainer.kubeflow.org/";

/// What a document with options asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// Go on although something was refused.
    pub(super) force: bool,
    /// Leave the pass out.
    pub(super) skip_reconcile: bool,
    pub(super) train_job_status: bool,
}

/// What was admitted.
#[derive(Default)]
pub(super) struct Admitted {
    pub(super) options: Options,
    pub(super) job: Option<TrainJob>,
    pub(super) old: Option<TrainJob>,
    /// All other objects.
    pub(super) objects: Vec<Json>,
    pub(super) warnings: Vec<String>,
    pub(super) errors: Vec<Finding>,
}

/// Admits all objects.
pub(super) fn admit(objects: Vec<Json>) -> Result<Admitted, Failure> {
    let schemas = SCHEMAS.as_ref().map_err(|why| Failure::Wrong(why.clone()))?;
    let mut admitted = Admitted::default();
    let mut documents = Vec::new();
    for mut object in objects {
        if object["apiVersion"] == OPTIONS {
            admitted.options = Options::read(&object["spec"]);
            continue;
        }
        integers::tidy(&mut object);
        let old = take_old(&mut object);
        documents.push((old, object));
    }
    let jobs = documents.iter().filter(|(old, object)| !old && is_job(object)).count();
    if jobs > 1 || documents.is_empty() {
        let why = format!("the files hold {jobs} TrainJobs; give one, and what it needs");
        return Err(Failure::Usage(why));
    }
    // The job as it was comes first: the other one is compared with it.
    documents.sort_by_key(|(old, _)| !old);
    let mut before: Option<Json> = None;
    for (old, mut object) in documents {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let ours = object["apiVersion"].as_str().is_some_and(|api| api.starts_with(GROUP));
        let schema = schemas.get(kind.as_str()).filter(|_| ours);
        let name = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        if let Some(schema) = schema {
            let was = before.as_ref().filter(|_| is_job(&object));
            let mut errors = check(schema, &mut object, was, &name);
            let phase = if is_job(&object) { "trainjob-webhook" } else { "runtime-webhook" };
            let typos = pod_fields::judge(&object, was);
            errors.extend(typos.errors.iter().map(|error| Finding::of(phase, &name, error)));
            if !old {
                admitted.warnings.extend(typos.warnings.iter().map(ToString::to_string));
            }
            let shape = SHAPES.get(kind.as_str());
            let misfits = shape.map(|shape| integers::misfits(shape, &object)).unwrap_or_default();
            errors.extend(misfits.into_iter().map(|detail| Finding {
                phase: "schema",
                object: name.clone(),
                field: "<nil>".to_owned(),
                kind: "FieldValueInvalid".to_owned(),
                detail,
                remedy: "",
            }));
            if !old {
                admitted.errors.extend(errors);
            }
        }
        if schema.is_none() {
            admitted.objects.push(object);
        } else if is_job(&object) {
            let job: Option<TrainJob> = match serde_json::from_value(object.clone()) {
                Ok(job) => Some(job),
                // What cannot be read has been refused by the schema; if not, it is said here.
                Err(error) if admitted.errors.is_empty() => {
                    return Err(Failure::Wrong(format!("{}: {error}", called(&object))));
                }
                Err(_) => None,
            };
            if old {
                (admitted.old, before) = (job, Some(object));
            } else {
                admitted.job = job;
            }
        } else {
            if let Ok(runtime) = Runtime::read(object.clone()) {
                let verdict = validate::runtime(&runtime);
                admitted.warnings.extend(verdict.warnings);
                let found = verdict.errors.iter();
                let finding = |error| Finding::of("runtime-webhook", &name, error);
                admitted.errors.extend(found.map(finding));
            }
            admitted.objects.push(object);
        }
    }
    Ok(admitted)
}

/// They take long to compile, and never change.
static SCHEMAS: LazyLock<Result<BTreeMap<String, Schema>, String>> = LazyLock::new(schemas);

/// The schemas as they are written, by kind.
static SHAPES: LazyLock<BTreeMap<String, Json>> = LazyLock::new(|| {
    let shape = |definition: crd::Definition| {
        let kind = definition.object["spec"]["names"]["kind"].as_str().unwrap_or_default();
        (kind.to_owned(), definition.schema().clone())
    };
    crd::crds().into_iter().map(shape).collect()
});

/// What the rules of all definitions say.
static RULES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut messages = BTreeSet::new();
    for definition in crd::crds() {
        collect(definition.schema(), &mut messages);
    }
    messages
});

fn collect(schema: &Json, messages: &mut BTreeSet<String>) {
    match schema {
        Json::Array(items) => items.iter().for_each(|item| collect(item, messages)),
        Json::Object(fields) => {
            let rules = fields.get("x-kubernetes-validations").and_then(Json::as_array);
            let said = rules.into_iter().flatten().filter_map(|rule| rule["message"].as_str());
            messages.extend(said.map(str::to_owned));
            fields.values().for_each(|field| collect(field, messages));
        }
        _ => {}
    }
}

fn schemas() -> Result<BTreeMap<String, Schema>, String> {
    let compile = |definition: crd::Definition| {
        let kind = definition.object["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let schema =
            Schema::compile(definition.schema()).map_err(|errors| format!("{kind}: {errors:?}"))?;
        Ok((kind.to_owned(), schema))
    };
    crd::crds().into_iter().map(compile).collect()
}

/// What the API server does with an object of ours.
fn check(schema: &Schema, object: &mut Json, old: Option<&Json>, name: &str) -> Vec<Finding> {
    schema.prune(object);
    schema.default(object);
    let mut errors = schema.validate(object, None);
    // An update is also compared with what was there. The API server would bear with what is wrong and has not changed.
    for error in old.map(|old| schema.validate(object, Some(old))).unwrap_or_default() {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    // Rules are looked at where the shape is right.
    let is_rule = |error: &muster_kube::FieldError| RULES.contains(&error.detail);
    if errors.iter().any(|error| !is_rule(error)) {
        errors.retain(|error| !is_rule(error));
    }
    let errors = errors.into_iter();
    // That rules were not looked at is a consequence of the rest.
    let errors = errors.filter(|error| !error.detail.starts_with("some validation rules were not"));
    let finding = |error: muster_kube::FieldError| Finding {
        phase: "schema",
        object: name.to_owned(),
        field: error.field,
        kind: error.kind.reason().to_owned(),
        detail: error.detail,
        remedy: "",
    };
    errors.map(finding).collect()
}

/// Whether it is the TrainJob as it was; the mark goes.
fn take_old(object: &mut Json) -> bool {
    let Some(metadata) = object.get_mut("metadata").and_then(Json::as_object_mut) else {
        return false;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut) else {
        return false;
    };
    let old = annotations.remove(OLD) == Some(json!("true"));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    old
}

fn is_job(object: &Json) -> bool {
    object["kind"] == "TrainJob"
        && object["apiVersion"].as_str().is_some_and(|api| api.starts_with(GROUP))
}

// === impl Options ===

impl Options {
    fn read(spec: &Json) -> Self {
        let flag = |value: &Json| value.as_bool().unwrap_or_default();
        Self {
            force: flag(&spec["force"]),
            skip_reconcile: flag(&spec["skipReconcile"]),
            train_job_status: flag(&spec["featureGates"]["TrainJobStatus"]),
        }
    }
}
