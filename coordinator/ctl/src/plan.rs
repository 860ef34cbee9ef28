//! `modelserving plan`.

mod table;
pub(crate) mod templates;

use std::io::Write;

use jiff::Timestamp;
use muster_modelserving::api::ModelServing;
use muster_modelserving::defaults;
use muster_modelserving::pod::{Plain, PodMutator};
use muster_modelserving::preview;
use muster_modelserving::ranktable::Ranktables;
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::shape::{Serving, Shape};
use muster_modelserving::step::Object;
use muster_modelserving::table_mutator::TableMutator;
use muster_ranktable::inject::Injection;
use serde_json::{Value as Json, json};

use crate::args::{Output, PlanArgs, PlanOutput, PodGroups};
use crate::modelserving::{called, found, print, servings};
use crate::{Failure, note};
use templates::Given;

pub(crate) fn plan(args: &PlanArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let templates = Given::read(&args.templates)?;
    let raw = servings(&args.file)?;
    let findings: Vec<_> = raw.iter().flat_map(|serving| found(&args.file, serving)).collect();
    if !findings.is_empty() {
        let json = args.output == PlanOutput::Json;
        print(&findings, if json { Output::Json } else { Output::Text }, out)?;
        return Ok(true);
    }
    let mut objects = Vec::new();
    for serving in raw {
        objects.extend(one(serving, &templates, args)?);
    }
    match args.output {
        PlanOutput::Table => table::print(&objects, out)?,
        PlanOutput::Yaml => {
            for (at, object) in objects.iter().enumerate() {
                let text = serde_saphyr::to_string(&object.body).map_err(Failure::wrong)?;
                let mark = if at > 0 { "---\n" } else { "" };
                writeln!(out, "{mark}{}", text.trim_end_matches('\n'))?;
            }
        }
        PlanOutput::Json => {
            let items: Vec<Json> = objects.into_iter().map(|object| object.body).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            writeln!(out, "{}", serde_json::to_string_pretty(&list).map_err(Failure::wrong)?)?;
        }
    }
    Ok(false)
}

/// What is made for one ModelServing.
fn one(mut raw: Json, templates: &Given, args: &PlanArgs) -> Result<Vec<Object>, Failure> {
    let object = called(&raw);
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Wrong(format!("{}: {object}: {why}", args.file.display()))
    };
    if raw["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        raw["metadata"]["namespace"] = json!("default");
    }
    if let Some(shape) = raw["apiVersion"].as_str().and_then(Shape::of) {
        defaults::fill(shape, &mut raw);
    }
    let serving = Serving::read(&raw).map_err(|error| wrong(&error))?;
    let shape = serving.shape();
    let serving = serving.into_model_serving();
    let mutator = mutator(&serving, shape, templates, args).map_err(|why| wrong(&why))?;
    let api = match args.pod_groups {
        PodGroups::Absent => PodGroupApi::Absent,
        PodGroups::Plain => PodGroupApi::Plain,
        PodGroups::SubGroups => PodGroupApi::SubGroups,
    };
    preview::objects(&serving, shape, api, mutator.as_ref(), Timestamp::now())
        .map_err(|error| wrong(&error))
}

/// What pods get for rank tables. Without templates that is not known: they are printed without.
fn mutator(
    serving: &ModelServing,
    shape: Shape,
    templates: &Given,
    args: &PlanArgs,
) -> Result<Box<dyn PodMutator>, String> {
    let Some(name) = Ranktables::template_of(&serving.metadata) else { return Ok(Box::new(Plain)) };
    if args.templates.is_empty() {
        note(format_args!(
            "rank tables are left out: give template {name} with --templates to see their marks"
        ));
        return Ok(Box::new(Plain));
    }
    let injection = Injection { delivery: args.delivery, ..Injection::default() };
    match TableMutator::of(serving, shape, templates, &injection) {
        TableMutator::Error(error) => Err(match templates.has(name) {
            true => error.message,
            false => format!("template {name} is not in --templates; {}", templates.names()),
        }),
        mutator => Ok(Box::new(mutator)),
    }
}
