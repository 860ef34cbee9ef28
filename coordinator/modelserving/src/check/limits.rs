//! What the definition of Kthena's shape refuses beside types: words, numbers and fields that must be there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::ModelServing;
use muster_kube::{FieldError, FieldErrorKind};

const MOST_ROLES: usize = 4;
const LONGEST_ROLE: usize = 12;
const LONGEST_TIER: usize = 253;

/// What is found in an object that has its defaults.
pub(super) fn check(filled: &Value, serving: &ModelServing) -> Vec<FieldError> {
    let (mut found, spec) = (Vec::new(), &filled["spec"]);
    word(&mut found, "spec.recoveryPolicy", &spec["recoveryPolicy"], RECOVERY);
    word(&mut found, "spec.rolloutStrategy.type", &spec["rolloutStrategy"]["type"], ROLLOUT);
    for (index, plugin) in list(&spec["plugins"]).iter().enumerate() {
        word(&mut found, &format!("spec.plugins[{index}].type"), &plugin["type"], &["BuiltIn"]);
        required(&mut found, &format!("spec.plugins[{index}]"), plugin, &["name"]);
    }
    let topology = &spec["template"]["networkTopology"];
    for policy in ["groupPolicy", "rolePolicy"] {
        topology_policy(
            &mut found,
            &format!("spec.template.networkTopology.{policy}"),
            &topology[policy],
        );
    }
    let roles = &serving.spec.template.roles;
    if roles.len() > MOST_ROLES {
        let why = format!("must have at most {MOST_ROLES} items");
        let at = "spec.template.roles";
        let error = FieldError::with_value(FieldErrorKind::TooMany, at, &roles.len().into(), why);
        found.push(error.remedy("make several ModelServings of it"));
    }
    let mut known = BTreeSet::new();
    let raw = list(&spec["template"]["roles"]);
    for (index, (role, raw)) in roles.iter().zip(raw).enumerate() {
        let at = format!("spec.template.roles[{index}]");
        let name = role.name.as_str();
        if name.len() > LONGEST_ROLE {
            let why = format!("may not be more than {LONGEST_ROLE} bytes");
            let error = FieldError::invalid(format!("{at}.name"), name, why);
            found.push(error.remedy("use a shorter name"));
        }
        if !known.insert(name) {
            let kind = FieldErrorKind::Duplicate;
            let error = FieldError::with_value(kind, format!("{at}.name"), &name.into(), "");
            found.push(error.remedy("give each role its own name"));
        }
        required(&mut found, &at, raw, &["entryTemplate", "name", "workerReplicas"]);
        for template in ["entryTemplate", "workerTemplate"] {
            if !raw[template].is_null() && list(&raw[template]["spec"]["containers"]).is_empty() {
                let at = format!("{at}.{template}.spec.containers");
                let error = FieldError::required(at, "a pod has a container");
                found.push(error.remedy("write a container with a name and an image"));
            }
        }
    }
    found
}

const RECOVERY: &[&str] = &["ServingGroupRecreate", "RoleRecreate", "None"];
const ROLLOUT: &[&str] = &["ServingGroupRollingUpdate", "RoleRollingUpdate"];

fn topology_policy(found: &mut Vec<FieldError>, at: &str, policy: &Value) {
    word(found, &format!("{at}.mode"), &policy["mode"], &["hard", "soft"]);
    let tier = &policy["highestTierAllowed"];
    if !tier.is_null() && tier.as_u64().is_none() {
        let error = FieldError::invalid(
            format!("{at}.highestTierAllowed"),
            tier.clone(),
            "should be a whole number greater than or equal to 0",
        );
        found.push(error.remedy("set it to 0 or more; 1 is one switch"));
    }
    let name = &policy["highestTierName"];
    if !name.is_null() && name.as_str().is_none_or(|name| name.chars().count() > LONGEST_TIER) {
        let why = format!("should be a text of at most {LONGEST_TIER} characters");
        let error = FieldError::invalid(format!("{at}.highestTierName"), name.clone(), why);
        found.push(error.remedy("use the name of a tier"));
    }
}

/// One of these words, if there is one.
fn word(found: &mut Vec<FieldError>, at: &str, value: &Value, words: &[&str]) {
    if value.is_null() || value.as_str().is_some_and(|word| words.contains(&word)) {
        return;
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    let why = format!("supported values: {}", quoted.join(", "));
    let error = FieldError::with_value(FieldErrorKind::NotSupported, at, value, why);
    found.push(error.remedy("use one of these words, or drop the field for its default"));
}

fn required(found: &mut Vec<FieldError>, at: &str, object: &Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| object[**field].is_null()) {
        found.push(FieldError::required(format!("{at}.{field}"), "").remedy("add the field"));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
