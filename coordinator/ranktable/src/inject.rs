//! What a pod needs so that it waits for its table and finds it: a volume, a mount in each container, and an init
//! container that ends when the table is there.
//!
//! ```text
//!   labels, annotations ──marks──▶ group, template, delivery, containers
//!   spec ─────────────────frame──▶ volumes, containers ──┐
//!   template, settings ───shape──▶ what belongs there ───┴─▶ patch, or a refusal
//! ```
//!
//! What the pod's author wrote wins: a volume, a mount or an init container that is there already is kept, and what
//! cannot work is refused, with its remedy. A pod that has everything gets nothing more, so the patch of a patched pod
//! is empty.

mod error;
mod frame;
mod marks;
mod shape;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::names::{RANKTABLE_FILE, VOLUME, WAITER};
use crate::template::TableTemplate;
use muster_kube::rank_group::RANKTABLE_TEMPLATE;

pub use error::{InjectError, Problem, TemplateProblem};
use error::{full_name, shortened};
use frame::{Frame, List, add, escape, name};
use marks::Marks;

/// How a table comes to its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The node's agent writes it into an emptyDir.
    #[default]
    Agent,
    /// The kubelet writes it: a ConfigMap volume.
    ConfigMap,
}

/// What is injected where the pod does not say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// How tables are delivered.
    pub delivery: Delivery,
    /// The image that has `muster-agent`.
    pub agent_image: String,
    /// The image that has a shell, for delivery by ConfigMap.
    pub busybox_image: String,
    /// How long a pod waits for its table before its init container fails; none: for ever. Delivery by ConfigMap always
    /// waits for ever.
    pub wait_timeout: Option<Duration>,
}

/// What is to be done with a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The operations of a JSON patch (RFC 6902); none where the pod stays as it is.
    pub patch: Vec<Json>,
    /// What its author should know.
    pub warnings: Vec<String>,
}

/// Decides what is injected into a new pod. `template` is asked for a template by the name of its ConfigMap, at most
/// once and only for pods of a rank group that name one.
pub fn mutate(
    pod: &Json,
    namespace: &str,
    template: impl FnOnce(&str) -> Result<Arc<TableTemplate>, TemplateProblem>,
    settings: &Injection,
) -> Result<Outcome, InjectError> {
    decide(pod, template, settings)
        .map_err(|problem| InjectError { pod: full_name(pod, namespace), problem })
}

fn decide(
    pod: &Json,
    template: impl FnOnce(&str) -> Result<Arc<TableTemplate>, TemplateProblem>,
    settings: &Injection,
) -> Result<Outcome, Problem> {
    let mut outcome = Outcome::default();
    let Some(marks) = Marks::read(pod, settings.delivery)? else { return Ok(outcome) };
    let Some(asked) = marks.template else {
        let [key, _] = RANKTABLE_TEMPLATE;
        outcome.warnings.push(format!(
            "rank group {}: this pod gets no table, since it names no template; add the annotation {key}",
            shortened(marks.group)
        ));
        return Ok(outcome);
    };
    let template = template(asked).map_err(Problem::Template)?;
    let file = marks.file.unwrap_or(&template.filename);
    if file != template.filename {
        outcome.warnings.push(format!(
            "annotation {RANKTABLE_FILE}: this pod waits for {file}, template {asked} says {}; drop the annotation for that",
            template.filename
        ));
    }
    let frame = Frame::read(pod)?;
    let chosen = marks.chosen(&frame)?;
    let Outcome { patch, warnings } = &mut outcome;
    if marks.file.is_none() {
        // The map is there: it holds the name of the template.
        patch.push(add(&format!("/metadata/annotations/{}", escape(RANKTABLE_FILE)), json!(file)));
    }
    if !has_volume(&frame.volumes, marks.delivery, marks.group)? {
        patch.push(frame.volumes.append(shape::volume(marks.delivery, marks.group)));
    }
    for (index, container) in frame.init.items.iter().enumerate() {
        if frame::is_sidecar(container) && chosen.has(name(container)) {
            let pointer = format!("/spec/initContainers/{index}");
            patch.extend(mount(container, &pointer, &template.mount_path, warnings)?);
        }
    }
    for (index, container) in frame.containers.items.iter().enumerate() {
        if name(container) == WAITER {
            return Err(Problem::NameTaken);
        }
        if chosen.has(name(container)) {
            let pointer = format!("/spec/containers/{index}");
            patch.extend(mount(container, &pointer, &template.mount_path, warnings)?);
        }
    }
    if !frame.init.items.iter().any(|container| name(container) == WAITER) {
        let waiter = shape::waiter(settings, marks.delivery, &template.mount_path, file);
        patch.push(frame.init.append(waiter));
    }
    Ok(outcome)
}

/// Whether the pod has the volume already. One of another kind would hide the table.
fn has_volume(volumes: &List<'_>, delivery: Delivery, group: &str) -> Result<bool, Problem> {
    let mut found = false;
    for volume in volumes.items.iter().filter(|volume| name(volume) == VOLUME) {
        if !shape::fits(volume, delivery, group) {
            let (is, wanted) = (shape::describe(volume), shape::wanted(delivery, group));
            return Err(Problem::Volume { is, delivery: delivery.word(), wanted });
        }
        found = true;
    }
    Ok(found)
}

/// The mount that a container lacks, if it does.
fn mount(
    container: &Json,
    pointer: &str,
    path: &str,
    warnings: &mut Vec<String>,
) -> Result<Option<Json>, Problem> {
    let mounts = List::read(container.get("volumeMounts"), format!("{pointer}/volumeMounts"))?;
    if let Some(own) = mounts.items.iter().find(|mount| name(mount) == VOLUME) {
        if ["subPath", "subPathExpr"]
            .iter()
            .any(|key| own[*key].as_str().is_some_and(|p| !p.is_empty()))
        {
            warnings.push(format!(
                "container {:?} mounts a part of volume {VOLUME} (subPath): it never sees a newer table; mount all of it",
                shortened(name(container))
            ));
        }
        return Ok(None);
    }
    let taken = mounts.items.iter().find(|mount| frame::same_path(&mount["mountPath"], path));
    match taken {
        Some(other) => Err(Problem::MountTaken {
            container: shortened(name(container)),
            path: path.to_owned(),
            volume: shortened(name(other)),
        }),
        None => Ok(Some(mounts.append(shape::mount(path)))),
    }
}

// === impl Delivery ===

impl Delivery {
    /// The words.
    pub const WORDS: &'static str = "agent or configmap";

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "agent" => Some(Self::Agent),
            "configmap" => Some(Self::ConfigMap),
            _ => None,
        }
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::ConfigMap => "configmap",
        }
    }
}

// === impl Injection ===

impl Default for Injection {
    fn default() -> Self {
        Self {
            delivery: Delivery::default(),
            agent_image: "muster-agent".to_owned(),
            busybox_image: "busybox:latest".to_owned(),
            wait_timeout: None,
        }
    }
}

#[cfg(test)]
mod tests;
