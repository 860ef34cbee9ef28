//! `modelserving check`.

use std::io::Write;
use std::path::Path;

use muster_kube::FieldError;
use muster_modelserving::api::KIND;
use muster_modelserving::check;
use serde_json::{Value as Json, json};

use crate::args::{Output, ServingArgs};
use crate::{Failure, input, note};

/// What was found in an object of a file.
pub(crate) struct Finding {
    file: String,
    object: String,
    error: FieldError,
}

pub(crate) fn check(args: &ServingArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut findings = Vec::new();
    for file in &args.files {
        for serving in servings(file)? {
            findings.extend(found(file, &serving));
        }
    }
    print(&findings, args.output, out)?;
    Ok(!findings.is_empty())
}

/// One line for each, or a list.
pub(crate) fn print(
    findings: &[Finding],
    output: Output,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match output {
        Output::Text => {
            for Finding { file, object, error } in findings {
                writeln!(out, "{file}: {object}: {error}; {}", error.remedy)?;
            }
        }
        Output::Json => {
            let list = findings.iter().map(Finding::json).collect::<Result<Vec<Json>, _>>()?;
            writeln!(out, "{}", serde_json::to_string_pretty(&list).map_err(Failure::wrong)?)?;
        }
    }
    Ok(())
}

/// What is wrong with an object of a file.
pub(crate) fn found(file: &Path, serving: &Json) -> Vec<Finding> {
    let (file, object) = (file.display().to_string(), called(serving));
    let finding = |error| Finding { file: file.clone(), object: object.clone(), error };
    check::check(serving).into_iter().map(finding).collect()
}

/// The ModelServings of a file. One without any is a mistake of whoever named it.
pub(crate) fn servings(file: &Path) -> Result<Vec<Json>, Failure> {
    let shown = file.display();
    let objects = input::objects(file)?;
    let is_other = |object: &Json| object["kind"].as_str().is_some_and(|kind| kind != KIND);
    let (others, servings): (Vec<Json>, Vec<Json>) = objects.into_iter().partition(is_other);
    if servings.is_empty() {
        return Err(Failure::Usage(format!("{shown}: there is no {KIND} in it")));
    }
    for other in others {
        note(format_args!("{shown}: {} is passed over", called(&other)));
    }
    Ok(servings)
}

// === impl Finding ===

impl Finding {
    fn json(&self) -> Result<Json, Failure> {
        let mut json = serde_json::to_value(&self.error).map_err(Failure::wrong)?;
        json["file"] = json!(self.file);
        json["object"] = json!(self.object);
        Ok(json)
    }
}

/// The object, as people call it.
pub(crate) fn called(object: &Json) -> String {
    let word = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (word(&object["kind"]), &object["metadata"]);
    let name = match (word(&metadata["namespace"]), word(&metadata["name"])) {
        (_, name) if name.is_empty() => "without a name".to_owned(),
        (namespace, name) if namespace.is_empty() => name,
        (namespace, name) => format!("{namespace}/{name}"),
    };
    if kind.is_empty() { format!("object {name}") } else { format!("{kind} {name}") }
}
