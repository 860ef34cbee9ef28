//! `ranktable inject`.

use std::io::Write;
use std::sync::Arc;

use muster_ranktable::TableTemplate;
use muster_ranktable::inject::{Injection, mutate};
use serde_json::{Value as Json, json};

use crate::args::{InjectArgs, PodOutput};
use crate::{Failure, input, note};

pub(crate) fn inject(args: &InjectArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let template = input::config_map(&args.template)?;
    let parser = input::parser(args.parser.as_deref(), &template, &args.template)?;
    let template = TableTemplate::read(&template, parser.as_ref()).map_err(Failure::wrong)?;
    let template = Arc::new(template);
    let mut given = input::value(&args.pod)?;
    let many = given.is_array() || given.get("items").is_some();
    let pods = match &mut given {
        Json::Array(pods) => pods.iter_mut().collect(),
        Json::Object(list) if many => match list.get_mut("items") {
            Some(Json::Array(pods)) => pods.iter_mut().collect(),
            _ => return Err(input::wrong(&args.pod, "items is no list")),
        },
        pod => vec![pod],
    };
    let mut patches = Vec::with_capacity(pods.len());
    let mut refused = Vec::new();
    for pod in pods {
        match one(pod, &template, args)? {
            Ok(patch) => patches.push(patch),
            Err(refusal) => refused.push(refusal),
        }
    }
    if !refused.is_empty() {
        return Err(Failure::Wrong(refused.join("\n")));
    }
    let json = match args.output {
        PodOutput::Yaml => {
            let text = serde_saphyr::to_string(&given).map_err(Failure::wrong)?;
            out.write_all(text.as_bytes())?;
            return Ok(false);
        }
        PodOutput::Json => given,
        PodOutput::Patch if many => Json::Array(patches),
        PodOutput::Patch => patches.pop().unwrap_or_else(|| json!([])),
    };
    writeln!(out, "{}", serde_json::to_string_pretty(&json).map_err(Failure::wrong)?)?;
    Ok(false)
}

/// Changes a pod and returns the patch, or why the pod is refused.
fn one(
    pod: &mut Json,
    template: &Arc<TableTemplate>,
    args: &InjectArgs,
) -> Result<Result<Json, String>, Failure> {
    if let Some(kind) = pod["kind"].as_str().filter(|kind| *kind != "Pod") {
        let message = format!("this is a {kind}; give a Pod or a List of Pods");
        return Err(input::wrong(&args.pod, message));
    }
    let settings = Injection {
        delivery: args.delivery,
        agent_image: args.agent_image.clone(),
        busybox_image: args.busybox_image.clone(),
        wait_timeout: None,
    };
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
    // The given template is tried whatever it is called; a file may have no name in it.
    let found = |asked: &str| {
        if asked != template.name {
            note(format_args!("the pod names template {asked}; {} is tried", template.name));
        }
        Ok(template.clone())
    };
    let outcome = match mutate(pod, namespace, found, &settings) {
        Ok(outcome) => outcome,
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    outcome.warnings.iter().for_each(note);
    let patch = Json::Array(outcome.patch);
    let read: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(Failure::wrong)?;
    json_patch::patch(pod, &read).map_err(Failure::wrong)?;
    Ok(Ok(patch))
}
