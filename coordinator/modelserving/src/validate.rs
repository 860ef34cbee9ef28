//! What the validating webhook says of a ModelServing of `workload.serving.volcano.sh`.
//!
//! ```text
//!   object, pruned and completed by the CRD ──▶ names ▸ images ▸ counts ▸ rollout ▸ gang ▸ workers ▸ pair ──▶ errors
//! ```
//!
//! The rules, their order and their words are those that clients of Kthena know, odd ones included: counts stand for
//! the largest number in the check of names, a malformed budget is reported twice, and of an image only blanks are
//! looked at. Creation and update run the same rules; what may not change is written in the CRD.

pub(crate) mod budget;
mod gang;
pub(crate) mod image;
pub(crate) mod label;
mod rollout;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::api::{ModelServing, Role};
use muster_kube::FieldError;

pub use budget::scaled;

/// What is wrong with an object, in the order in which it is reported.
pub fn validate(serving: &ModelServing) -> Vec<FieldError> {
    let rules: [fn(&ModelServing, &mut Vec<FieldError>); 9] = [
        generated_names,
        role_names,
        images,
        replicas,
        rollout::groups,
        rollout::roles,
        gang::minimum,
        workers,
        rollout::pair,
    ];
    let mut errors = Vec::new();
    for rule in rules {
        rule(serving, &mut errors);
    }
    errors
}

/// The text of a refusal.
pub fn message(errors: &[FieldError]) -> String {
    let mut text = "validation failed:".to_owned();
    for error in errors {
        text.push_str(&format!("\n  - {error}"));
    }
    text
}

/// Where a field of a role is.
fn role_field(index: usize, field: &str) -> String {
    format!("spec.template.roles[{index}].{field}")
}

fn roles(serving: &ModelServing) -> impl Iterator<Item = (usize, &Role)> {
    serving.spec.template.roles.iter().enumerate()
}

fn name(serving: &ModelServing) -> &str {
    serving.metadata.name.as_deref().unwrap_or_default()
}

/// Pods and services are called by these names.
fn generated_names(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let (own, groups) = (name(serving), serving.spec.replicas.unwrap_or(1));
    for (_, role) in roles(serving) {
        let (instances, workers) = (role.replicas.unwrap_or(1), role.worker_replicas);
        let why = label::dns_1035(&format!("{own}-{groups}-{}-{instances}-{workers}", role.name));
        if !why.is_empty() {
            let why = format!("invalid name: {}", why.join("; "));
            errors.push(FieldError::invalid("metadata.name", own, why).remedy(
                "<name>-<replicas>-<role>-<replicas>-<workerReplicas> must be a DNS label: use another name, or a shorter one",
            ));
        }
    }
}

fn role_names(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    for (index, role) in roles(serving) {
        errors.extend(label::role(role_field(index, "name"), &role.name));
    }
}

fn images(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    for (index, role) in roles(serving) {
        let at = |template: &str| role_field(index, &format!("{template}.spec.containers"));
        errors.extend(image::check(&at("entryTemplate"), &role.entry_template));
        if let Some(template) = &role.worker_template {
            errors.extend(image::check(&at("workerTemplate"), template));
        }
    }
}

fn replicas(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let remedy = "set it to 0 or more; without the field it is 1";
    if serving.spec.replicas.is_none_or(|count| count < 0) {
        let value = serving.spec.replicas.map_or(Value::Null, Value::from);
        let why = "replicas must be a non-negative integer";
        errors.push(FieldError::invalid("spec.replicas", value, why).remedy(remedy));
    }
    if serving.spec.template.roles.is_empty() {
        let why = "roles must be specified";
        errors.push(
            FieldError::invalid("spec.template.roles", json!([]), why)
                .remedy("write one to four roles"),
        );
        return;
    }
    for (index, role) in roles(serving).filter(|(_, role)| role.replicas.is_none_or(|n| n < 0)) {
        let value = role.replicas.map_or(Value::Null, Value::from);
        let why = "role replicas must be a non-negative integer";
        errors.push(FieldError::invalid(role_field(index, "replicas"), value, why).remedy(remedy));
    }
}

fn workers(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    for (index, role) in roles(serving) {
        if role.worker_replicas < 0 {
            let why = "workerReplicas must be a non-negative integer";
            let at = role_field(index, "workerReplicas");
            errors.push(
                FieldError::invalid(at, role.worker_replicas, why).remedy("set it to 0 or more"),
            );
        }
        if role.worker_replicas > 0 && role.worker_template.is_none() {
            let why = "workerTemplate is required when workerReplicas is greater than 0";
            let at = role_field(index, "workerTemplate");
            errors.push(
                FieldError::required(at, why)
                    .remedy("write the template of the workers, or set workerReplicas to 0"),
            );
        }
    }
}
