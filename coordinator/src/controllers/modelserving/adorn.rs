//! What pods get that share a rank table: the marks of their group, and what the webhook would inject.

use std::collections::BTreeMap;

use muster_modelserving::api::ModelServing;
use muster_modelserving::pod::{Adorn, Slot};
use muster_modelserving::ranktable::Ranktables;
use muster_modelserving::shape::Shape;
use muster_ranktable::inject::{self, Injection};
use serde_json::Value;

use crate::conditions::reason;
use crate::templates::Templates;

/// What is done to the pods of one ModelServing.
pub enum Dress {
    /// It wants no rank tables.
    Plain,
    /// It does.
    Tables {
        /// Which.
        tables: Ranktables,
        /// Templates.
        templates: Templates,
        /// What is injected.
        injection: Injection,
    },
    /// It does, and cannot have them: pods that would wait for ever are not made.
    Trouble(Trouble),
}

/// Why a ModelServing cannot have its rank tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// In one word.
    pub reason: &'static str,
    /// For a person: what, and what to do.
    pub message: String,
}

// === impl Dress ===

impl Dress {
    /// What this ModelServing wants.
    pub fn of(
        serving: &ModelServing,
        shape: Shape,
        templates: &Templates,
        injection: &Injection,
    ) -> Self {
        let Some(name) = Ranktables::template_of(&serving.metadata) else { return Self::Plain };
        let template = match templates.get(name) {
            Ok(template) => template,
            Err(problem) => {
                let message = problem.to_string();
                return Self::Trouble(Trouble { reason: reason::TEMPLATE_INVALID, message });
            }
        };
        match Ranktables::read(serving, shape, Some(template.level)) {
            Ok(None) => Self::Plain,
            Ok(Some(tables)) => {
                let (templates, injection) = (templates.clone(), injection.clone());
                Self::Tables { tables, templates, injection }
            }
            Err(error) => {
                Self::Trouble(Trouble { reason: error.reason(), message: error.to_string() })
            }
        }
    }
}

impl Adorn for Dress {
    fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String> {
        let (tables, templates, injection) = match self {
            Self::Plain => return Ok(()),
            Self::Trouble(trouble) => return Err(trouble.message.clone()),
            Self::Tables { tables, templates, injection } => (tables, templates, injection),
        };
        let take = |pod: &mut Value, key: &str| -> BTreeMap<String, String> {
            serde_json::from_value(pod["metadata"][key].take()).unwrap_or_default()
        };
        let (mut labels, mut annotations) = (take(pod, "labels"), take(pod, "annotations"));
        tables.marks_of(slot).put_on(&mut labels, &mut annotations);
        pod["metadata"]["labels"] = serde_json::json!(labels);
        pod["metadata"]["annotations"] = serde_json::json!(annotations);
        let outcome = inject::mutate(pod, slot.namespace, |name| templates.get(name), injection);
        let outcome = outcome.map_err(|refusal| refusal.to_string())?;
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(outcome.patch))
            .map_err(|error| format!("the patch of pod {} cannot be read: {error}", slot.name))?;
        json_patch::patch(pod, &patch)
            .map_err(|error| format!("pod {} cannot be changed: {error}", slot.name))
    }
}
