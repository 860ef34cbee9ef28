//! All that can be said of an object from its file alone: what the API server would drop or refuse by its definition,
//! what the webhook would refuse, and what would become a condition later.
//!
//! ```text
//!   raw object ──▶ fields that nobody knows ──▶ defaults ──▶ read ──▶ limits of the definition ──▶ webhook ──▶ level
//! ```
//!
//! There is no schema here: the limits are written once more, and tests compare them with the definitions.

mod known;
mod limits;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::defaults;
use crate::pod_fields::{self, Verdict};
use crate::ranktable::{RanktableError, Ranktables};
use crate::shape::{Serving, Shape, Unreadable};
use muster_kube::FieldError;

pub use known::UNKNOWN;

/// What is found, in this order: unknown fields, limits, the webhook's rules, annotations.
pub fn check(raw: &Value) -> Vec<FieldError> {
    let mut filled = raw.clone();
    let shape = raw.get("apiVersion").and_then(Value::as_str).and_then(Shape::of);
    let mut found = Vec::new();
    if let Some(shape) = shape {
        found.extend(known::unknown(shape, raw));
        let Verdict { errors, warnings } = pod_fields::judge(raw, None);
        let remedy = "correct its name or its place";
        found.extend(errors.into_iter().chain(warnings).map(|error| error.remedy(remedy)));
        defaults::fill(shape, &mut filled);
    }
    let serving = match Serving::read(&filled) {
        Ok(serving) => serving,
        Err(why) => {
            found.push(unreadable(raw, why));
            return found;
        }
    };
    if let Serving::Kthena(serving) = &serving {
        found.extend(limits::check(&filled, serving));
    }
    found.extend(serving.validate());
    let shape = serving.shape();
    let serving = serving.into_model_serving();
    let why = match Ranktables::read(&serving, shape, None) {
        Ok(tables) => tables.and_then(|tables| tables.over_limit(&serving.metadata)),
        Err(why) => Some(why),
    };
    found.extend(why.map(|why| {
        let (at, value) = match &why {
            RanktableError::Level { key, value, .. } | RanktableError::Scope { key, value, .. } => {
                (format!("metadata.annotations[{key}]"), value.clone())
            }
            RanktableError::Size { role, size, .. } => {
                (format!("spec.roles[{role}].replicas"), format!("{size} pods share a table"))
            }
        };
        FieldError::invalid(at, value, why.reason()).remedy(why.remedy())
    }));
    found
}

fn unreadable(raw: &Value, why: Unreadable) -> FieldError {
    let pointer: String = why
        .field
        .split(['.', '[', ']'])
        .filter(|part| !part.is_empty())
        .map(|part| format!("/{part}"))
        .collect();
    let value = raw.pointer(&pointer).cloned().unwrap_or_default();
    FieldError::invalid(why.field, value, why.why).remedy("write a value of the field's type")
}
