//! `trainjob render`: what becomes of a TrainJob, without a cluster.
//!
//! ```text
//!   documents ──admit──▶ pruned, completed, checked ──given──▶ a cluster that holds them
//!                                                                  │
//!                 webhook's verdict, objects, snapshot, status, one pass ──mask──▶ JSON
//! ```

mod admit;
mod given;
mod integers;
mod mask;

use std::io::Write;

use jiff::Timestamp;
use muster_kube::FieldError;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::{Pass, reconcile};
use muster_pipeline::runtime::{RuntimeKind, Runtimes};
use muster_pipeline::{Registry, Settings, validate};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::args::TrainjobArgs;
use crate::plan::templates::Given as Templates;
use crate::{Failure, input};
use admit::Admitted;
use given::Given;

/// What becomes of a TrainJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// What would be applied.
    pub objects: Vec<Json>,
    /// What its author should know.
    pub warnings: Vec<String>,
    /// What is wrong.
    pub errors: Vec<Finding>,
    /// How the runtime would be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Json>,
    /// What the JobSet that is there says.
    pub status: Option<Json>,
    /// What one pass leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Json>,
}

/// What is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Who says so: `schema`, `runtime-webhook`, `trainjob-webhook`, `build`, `status`.
    pub phase: &'static str,
    /// Kind, namespace and name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Path of the field.
    pub field: String,
    /// Which kind of wrong.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong with the value.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub remedy: &'static str,
}

/// Prints the document of the files.
pub(crate) fn print(args: &TrainjobArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(input::objects(file)?);
    }
    let templates = Templates::read(&args.templates)?;
    let document = render(documents, args.reconcile, &templates)?;
    writeln!(out, "{}", serde_json::to_string_pretty(&document).map_err(Failure::wrong)?)?;
    Ok(false)
}

/// The document of these objects, as `trainjob render` prints it, without templates of rank tables.
pub fn document(objects: Vec<Json>, one_pass: bool) -> Result<Json, Failure> {
    let document = render(objects, one_pass, &Templates::default())?;
    serde_json::to_value(document).map_err(Failure::wrong)
}

fn render(objects: Vec<Json>, one_pass: bool, templates: &Templates) -> Result<Document, Failure> {
    let Admitted { options, job, old, objects, mut warnings, mut errors } = admit::admit(objects)?;
    let mut document = Document::default();
    let job = match job {
        Some(job) if errors.is_empty() || options.force => job,
        _ => {
            errors.sort();
            return Ok(Document { warnings, errors, ..document });
        }
    };
    let cluster = Given::new(objects, templates.clone());
    let settings = Settings { train_job_status: options.train_job_status, ..Settings::default() };
    // Nothing of it is shown, so it need not be random; keys that are made of a job's uid are the original's.
    let keys = Keys { seed: Some([0; 64]), curve_of_uid: true };
    let context = Context { cluster: &cluster, settings: &settings, keys: &keys };
    let (registry, runtimes, now) = (Registry::standard(), Runtimes::default(), Timestamp::now());
    let pass = Pass { job: &job, context, registry: &registry, runtimes: &runtimes, now };

    let name = format!("TrainJob/{}", job.name());
    match validate::train_job(&job, old.as_ref(), &context, &registry) {
        Ok(verdict) => {
            warnings.extend(verdict.warnings);
            let found = verdict.errors.iter();
            errors.extend(found.map(|error| Finding::of("trainjob-webhook", &name, error)));
        }
        Err(unsupported) => errors.push(Finding {
            phase: "trainjob-webhook",
            object: name,
            kind: "Error".to_owned(),
            detail: unsupported.to_string(),
            ..Finding::default()
        }),
    }
    warnings.sort();
    if errors.is_empty() || options.force {
        build(&pass, &mut document, &mut errors);
        if one_pass && !options.skip_reconcile {
            document.reconcile = Some(passed(&pass, &cluster));
        }
    }
    errors.sort();
    Ok(Document { warnings, errors, ..document })
}

/// Objects, snapshot and status, whoever works on the job and however far it is.
fn build(pass: &Pass<'_>, document: &mut Document, errors: &mut Vec<Finding>) {
    let wrong = |kind: &str, detail: String| Finding {
        phase: "build",
        kind: kind.to_owned(),
        detail,
        ..Finding::default()
    };
    if RuntimeKind::of(&pass.job.spec.runtime_ref).is_none() {
        errors.push(wrong("UnsupportedRuntime", pass.job.spec.runtime_ref.key()));
        return;
    }
    match pass.runtime() {
        Ok((runtime, snapshot)) => {
            document.snapshot = snapshot.as_ref().map(mask::snapshot);
            match pass.objects(&runtime) {
                Ok(objects) => document.objects = mask::objects(objects),
                Err(fault) => errors.push(wrong("Error", fault.0)),
            }
        }
        Err(fault) => errors.push(wrong("Error", fault.0)),
    }
    // That there is no JobSet is no news here.
    if let Ok(Some(status)) = pass.registry.status(&pass.context, pass.job, false) {
        document.status = Some(mask::times(json!(status), pass.now));
    }
}

/// What one pass leaves.
fn passed(pass: &Pass<'_>, cluster: &Given) -> Json {
    let outcome = reconcile(pass);
    let status = outcome.status.clone().or_else(|| pass.job.status.clone()).unwrap_or_default();
    let there = cluster.has_job_set(pass.job) || makes_job_set(&outcome.apply);
    let after = if there && !outcome.delete_job_set { "present" } else { "absent" };
    let events = outcome.events.iter().map(|event| {
        let kind = if event.warning { "Warning" } else { "Normal" };
        format!("{kind} {} {}", event.reason, event.note)
    });
    let mut passed = json!({
        "status": mask::times(json!(status), pass.now),
        "events": events.collect::<Vec<String>>(),
        "requeues": outcome.requeue.is_some(),
        "jobSetAfter": after,
    });
    if let Some(error) = outcome.error {
        passed["error"] = json!(error);
    }
    passed
}

fn makes_job_set(objects: &[Json]) -> bool {
    objects.iter().any(|object| object["kind"] == "JobSet")
}

// === impl Finding ===

impl Finding {
    fn of(phase: &'static str, object: &str, error: &FieldError) -> Self {
        Self {
            phase,
            object: object.to_owned(),
            field: error.field.clone(),
            kind: error.kind.reason().to_owned(),
            detail: error.detail.clone(),
            remedy: error.remedy,
        }
    }
}
