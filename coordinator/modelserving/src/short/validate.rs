//! What may be wrong with a ModelServing of the short form.
//!
//! The CRD says most of it too; the rules stand here as well for files that no API server has seen.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MOST_ROLES, SeedRole, ShortServing};
use crate::validate::{image, label};
use muster_kube::{FieldError, FieldErrorKind};

const ROLES: &str = "spec.roles";
const POLICIES: [&str; 3] = ["ServingGroupRecreate", "RoleRecreate", "None"];

/// What is wrong with an object: names, roles one after the other, the policy.
pub fn validate(serving: &ShortServing) -> Vec<FieldError> {
    let (mut errors, mut known) = (Vec::new(), BTreeSet::new());
    let roles = &serving.spec.roles;
    let own = serving.metadata.name.as_deref().unwrap_or_default();
    errors.extend(own_name(own));
    errors.extend(roles.iter().filter_map(|role| pod_name(own, role)));
    if roles.is_empty() {
        let error = FieldError::required(ROLES, "there must be at least one role");
        errors.push(error.remedy("write a role with a name and a template"));
    }
    if roles.len() > MOST_ROLES {
        let why = format!("must have at most {MOST_ROLES} items");
        let error =
            FieldError::with_value(FieldErrorKind::TooMany, ROLES, &roles.len().into(), why);
        errors.push(error.remedy("make several ModelServings of it"));
    }
    for (index, role) in roles.iter().enumerate() {
        let at = |field: &str| format!("{ROLES}[{index}].{field}");
        errors.extend(label::role(at("name"), &role.name));
        if !known.insert(&role.name) {
            let name = role.name.as_str();
            let error =
                FieldError::with_value(FieldErrorKind::Duplicate, at("name"), &name.into(), "");
            errors.push(error.remedy("give each role its own name"));
        }
        if let Some(count) = role.replicas.filter(|count| *count < 0) {
            let why = "role replicas must be a non-negative integer";
            let error = FieldError::invalid(at("replicas"), count, why);
            errors.push(error.remedy("set it to 0 or more; without the field it is 1"));
        }
        let containers = at("template.spec.containers");
        if role.template.spec.get("containers").and_then(Value::as_array).is_none_or(Vec::is_empty)
        {
            let error = FieldError::required(containers.clone(), "a pod has a container");
            errors.push(error.remedy("write a container with a name and an image"));
        }
        errors.extend(image::check(&containers, &role.template));
    }
    let policy = serving.spec.recovery_policy.as_str();
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        let words = POLICIES.map(|word| format!("{word:?}")).join(", ");
        let why = format!("supported values: {words}");
        let kind = FieldErrorKind::NotSupported;
        let error = FieldError::with_value(kind, "spec.recoveryPolicy", &policy.into(), why);
        errors.push(error.remedy("use one of them, or drop the field for RoleRecreate"));
    }
    errors
}

/// The name is part of the names of pods.
fn own_name(own: &str) -> Option<FieldError> {
    (!own.split('.').all(is_dns_1123)).then(|| {
        let why = "must be lower-case letters, digits, dots and dashes, a letter or digit at both ends: pods are called by it";
        FieldError::invalid("metadata.name", own, why).remedy("use a name such as qwen2.5-7b")
    })
}

/// The pods of a role are called `<name>-<role>-<number>`; the last one has the longest name.
fn pod_name(own: &str, role: &SeedRole) -> Option<FieldError> {
    let last = role.replicas.unwrap_or(1).saturating_sub(1).max(0);
    let pod = format!("{own}-{}-{last}", role.name);
    (pod.len() > label::LONGEST).then(|| {
        let most = label::LONGEST;
        let why = format!("pod name {pod} must be no more than {most} characters");
        FieldError::invalid("metadata.name", own, why)
            .remedy("use a shorter name for the object or the role")
    })
}

fn is_dns_1123(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    part.bytes().all(|byte| plain(byte) || byte == b'-')
        && part.bytes().next().is_some_and(plain)
        && part.bytes().last().is_some_and(plain)
}
