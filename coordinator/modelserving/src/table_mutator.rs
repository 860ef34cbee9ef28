//! What pods get that share a rank table: the marks of their group, and what the webhook would inject.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_ranktable::TableTemplate;
use muster_ranktable::inject::{self, Injection, TemplateProblem};
use serde_json::{Value, json};

use crate::api::ModelServing;
use crate::pod::{PodMutator, Slot};
use crate::ranktable::{RanktableError, Ranktables};
use crate::shape::Shape;

/// The reason of a template that is not there or cannot be used.
pub const TEMPLATE_INVALID: &str = "TemplateInvalid";

/// Where templates come from.
pub trait Templates {
    /// One template, by the name of its ConfigMap.
    fn template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem>;
}

/// What is done to the pods of one ModelServing.
#[derive(Debug)]
pub enum TableMutator<T> {
    /// It wants no rank tables.
    Plain,
    /// It does.
    Tables {
        /// Which.
        tables: Ranktables,
        /// Templates.
        templates: T,
        /// What is injected.
        injection: Injection,
        /// Why pods of some role are not made.
        over: Option<TableError>,
    },
    /// It does, and cannot have them: pods that would wait for ever are not made.
    Error(TableError),
}

/// Why a ModelServing cannot have its rank tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// In one word.
    pub reason: &'static str,
    /// For a person: what, and what to do.
    pub message: String,
}

// === impl TableError ===

impl From<RanktableError> for TableError {
    fn from(error: RanktableError) -> Self {
        Self { reason: error.reason(), message: error.to_string() }
    }
}

// === impl TableMutator ===

impl<T: Templates + Clone> TableMutator<T> {
    /// What this ModelServing wants.
    pub fn of(serving: &ModelServing, shape: Shape, templates: &T, injection: &Injection) -> Self {
        let Some(name) = Ranktables::template_of(&serving.metadata) else { return Self::Plain };
        let template = match templates.template(name) {
            Ok(template) => template,
            Err(problem) => {
                let message = problem.to_string();
                return Self::Error(TableError { reason: TEMPLATE_INVALID, message });
            }
        };
        match Ranktables::read(serving, shape, Some(template.level)) {
            Ok(None) => Self::Plain,
            Ok(Some(tables)) => {
                let (templates, injection) = (templates.clone(), injection.clone());
                let over = tables.over_limit(&serving.metadata).map(TableError::from);
                Self::Tables { tables, templates, injection, over }
            }
            Err(error) => Self::Error(error.into()),
        }
    }
}

impl<T> TableMutator<T> {
    /// What keeps all pods or those of some role from being made.
    pub fn error(&self) -> Option<&TableError> {
        match self {
            Self::Plain => None,
            Self::Tables { over, .. } => over.as_ref(),
            Self::Error(error) => Some(error),
        }
    }
}

impl<T: Templates> PodMutator for TableMutator<T> {
    fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String> {
        let (tables, templates, injection) = match self {
            Self::Plain => return Ok(()),
            Self::Error(error) => return Err(error.message.clone()),
            Self::Tables { tables, over: Some(over), .. } if tables.is_over_limit(slot) => {
                return Err(over.message.clone());
            }
            Self::Tables { tables, templates, injection, .. } => (tables, templates, injection),
        };
        let take = |pod: &mut Value, key: &str| -> BTreeMap<String, String> {
            serde_json::from_value(pod["metadata"][key].take()).unwrap_or_default()
        };
        let (mut labels, mut annotations) = (take(pod, "labels"), take(pod, "annotations"));
        tables.marks_of(slot).put_on(&mut labels, &mut annotations);
        pod["metadata"]["labels"] = json!(labels);
        pod["metadata"]["annotations"] = json!(annotations);
        let template = |name: &str| templates.template(name);
        let outcome = inject::mutate(pod, slot.namespace, template, injection);
        let outcome = outcome.map_err(|refusal| refusal.to_string())?;
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(outcome.patch))
            .map_err(|error| format!("the patch of pod {} cannot be read: {error}", slot.name))?;
        json_patch::patch(pod, &patch)
            .map_err(|error| format!("pod {} cannot be changed: {error}", slot.name))
    }
}
