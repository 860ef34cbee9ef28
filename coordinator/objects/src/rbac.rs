//! Role-based access control: who may do what, decided from Role and binding objects.
//!
//! ```text
//!   Caller ──▶ bindings with a matching subject ──▶ role ──▶ rules ──▶ one that covers the Attributes
//! ```

use std::collections::BTreeSet;

use serde_json::Value;

use crate::meta;

mod aggregate;
mod rule;
#[cfg(test)]
mod tests;

pub use aggregate::{rules_of, selects};
pub use rule::covers;

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// What a request asks for. Either `resource` is set, or `path` is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or a special verb.
    /// For a path: the HTTP method in lower case.
    pub verb: &'a str,
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural name; empty for a request that is not about a resource.
    pub resource: &'a str,
    /// The subresource, such as `status`.
    pub subresource: &'a str,
    /// Object name, where the request has one.
    pub name: &'a str,
    /// Namespace, empty at the cluster scope.
    pub namespace: &'a str,
    /// URL path of a request that is not about a resource.
    pub path: &'a str,
    /// Field selectors with `=`: the node authoriser looks at them.
    pub fields: &'a [(String, String)],
}

/// The user who makes a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The user's name.
    pub name: &'a str,
    /// All groups, `system:authenticated` included.
    pub groups: &'a [String],
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether some rule allows it.
    pub allowed: bool,
    /// Which binding allows it, or what went wrong while looking. May be empty.
    pub reason: String,
}

/// Where roles and bindings come from.
pub trait RoleSource {
    /// A shared object.
    type Object: AsRef<Value>;
    /// The Role of this name.
    fn role(&self, namespace: &str, name: &str) -> Option<Self::Object>;
    /// The ClusterRole of this name.
    fn cluster_role(&self, name: &str) -> Option<Self::Object>;
    /// All ClusterRoles, in order of name.
    fn cluster_roles(&self) -> Vec<Self::Object>;
    /// The RoleBindings of a namespace, in order of name.
    fn role_bindings(&self, namespace: &str) -> Vec<Self::Object>;
    /// All ClusterRoleBindings, in order of name.
    fn cluster_role_bindings(&self) -> Vec<Self::Object>;
}

/// Whether the caller may do what the attributes say. Members of `system:masters` always may.
pub fn allowed(
    source: &impl RoleSource,
    caller: Caller<'_>,
    attributes: &Attributes<'_>,
) -> Decision {
    if caller.groups.iter().any(|g| g == MASTERS) {
        return Decision { allowed: true, reason: String::new() };
    }
    let mut decision = Decision::default();
    let errors = visit(source, caller, attributes.namespace, |binding, rule| {
        if covers(rule, attributes) {
            decision.allowed = true;
            decision.reason = format!("RBAC: allowed by {}", binding());
        }
        !decision.allowed
    });
    if !decision.allowed && !errors.is_empty() {
        decision.reason = format!("RBAC: {}", join_errors(errors));
    }
    decision
}

/// All rules that bindings give the caller in a namespace, and what went wrong while looking.
pub fn rules_for(
    source: &impl RoleSource,
    caller: Caller<'_>,
    namespace: &str,
) -> (Vec<Value>, Option<String>) {
    let mut rules = Vec::new();
    let errors = visit(source, caller, namespace, |_, rule| {
        rules.push(rule.clone());
        true
    });
    (rules, (!errors.is_empty()).then(|| join_errors(errors)))
}

/// Shows every rule that a binding gives the caller to `see` until that says false.
/// Answers what went wrong with bindings on the way.
fn visit(
    source: &impl RoleSource,
    caller: Caller<'_>,
    namespace: &str,
    mut see: impl FnMut(&dyn Fn() -> String, &Value) -> bool,
) -> Vec<String> {
    let mut errors = Vec::new();
    let cluster = source.cluster_role_bindings().into_iter().map(|binding| (binding, ""));
    let local = if namespace.is_empty() { Vec::new() } else { source.role_bindings(namespace) };
    for (binding, namespace) in cluster.chain(local.into_iter().map(|b| (b, namespace))) {
        let binding = binding.as_ref();
        let Some(subject) = items(binding, "subjects").find(|s| is_subject(s, caller, namespace))
        else {
            continue;
        };
        match referred_rules(source, binding, namespace) {
            Ok(rules) => {
                let describe = || describe(binding, subject, namespace);
                if !rules.iter().all(|rule| see(&describe, rule)) {
                    return errors;
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors
}

fn referred_rules(
    source: &impl RoleSource,
    binding: &Value,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let reference = &binding["roleRef"];
    let name = text(reference, "name");
    match text(reference, "kind") {
        "Role" => match source.role(namespace, name) {
            Some(role) => Ok(items(role.as_ref(), "rules").cloned().collect()),
            None => Err(format!("role.rbac.authorization.k8s.io {name:?} not found")),
        },
        "ClusterRole" => match source.cluster_role(name) {
            Some(role) => Ok(rules_of(source, role.as_ref())),
            None => Err(format!("clusterrole.rbac.authorization.k8s.io {name:?} not found")),
        },
        kind => Err(format!("unsupported role reference kind: {kind:?}")),
    }
}

fn is_subject(subject: &Value, caller: Caller<'_>, namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => caller.name == name,
        "Group" => caller.groups.iter().any(|g| g == name),
        "ServiceAccount" => {
            let own = subject_namespace(subject, namespace);
            let rest = caller.name.strip_prefix("system:serviceaccount:");
            !own.is_empty() && rest.and_then(|r| r.split_once(':')) == Some((own, name))
        }
        _ => false,
    }
}

fn subject_namespace<'a>(subject: &'a Value, namespace: &'a str) -> &'a str {
    Some(text(subject, "namespace")).filter(|n| !n.is_empty()).unwrap_or(namespace)
}

fn describe(binding: &Value, subject: &Value, namespace: &str) -> String {
    let (kind, name) = match namespace {
        "" => ("ClusterRoleBinding", meta::name(binding).to_owned()),
        _ => ("RoleBinding", format!("{}/{namespace}", meta::name(binding))),
    };
    let (role_kind, role) = (text(&binding["roleRef"], "kind"), text(&binding["roleRef"], "name"));
    let subject_kind = text(subject, "kind");
    let mut subject_name = text(subject, "name").to_owned();
    if subject_kind == "ServiceAccount" {
        subject_name = format!("{subject_name}/{}", subject_namespace(subject, namespace));
    }
    format!("{kind} {name:?} of {role_kind} {role:?} to {subject_kind} {subject_name:?}")
}

/// Several errors as Kubernetes joins them: each once, in brackets when there is more than one.
fn join_errors(errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let mut once: Vec<String> =
        errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    match once.len() {
        1 => once.remove(0),
        _ => format!("[{}]", once.join(", ")),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}
