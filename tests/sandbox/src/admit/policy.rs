//! ValidatingAdmissionPolicies and their bindings, from the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use muster_kube::FieldError;
use muster_objects::meta;
use muster_objects::policy::matching::rules_match;
use muster_objects::policy::{Denial, MatchConditions, Policy, PolicyInput};
use muster_objects::rbac::selects;
use muster_objects::status::{Cause, Status};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Admission, Attempt, review};
use crate::store::Object;

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
/// Compiled programs kept; beyond, all are compiled again.
const MAX_KEPT: usize = 1024;

type Kept<T> = Mutex<HashMap<(String, usize), (u64, Arc<T>)>>;

/// Compiled expressions, by uid and revision of the object they stand in.
#[derive(Default)]
pub(super) struct Compiled {
    policies: Kept<Result<Policy, String>>,
    conditions: Kept<Result<MatchConditions, String>>,
}

// === impl Compiled ===

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl Compiled {
    fn policy(&self, policy: &Object) -> Arc<Result<Policy, String>> {
        let key = (meta::uid(&policy.value), policy.revision, 0);
        kept(&self.policies, key, || Policy::compile(&policy.value).map_err(join))
    }

    /// The match conditions of a webhook.
    pub(super) fn conditions(
        &self,
        key: (&str, u64, usize),
        conditions: &Value,
    ) -> Result<Held, String> {
        let compiled = kept(&self.conditions, key, || {
            MatchConditions::compile(conditions, "matchConditions").map_err(join)
        });
        match &*compiled {
            Ok(_) => Ok(Held(compiled)),
            Err(why) => Err(why.clone()),
        }
    }
}

/// Match conditions that compiled.
pub(super) struct Held(Arc<Result<MatchConditions, String>>);

impl Held {
    pub(super) fn hold(&self, input: &PolicyInput<'_>) -> Result<bool, String> {
        match &*self.0 {
            Ok(conditions) => conditions.hold(input),
            Err(why) => Err(why.clone()),
        }
    }
}

fn kept<T>(kept: &Kept<T>, key: (&str, u64, usize), make: impl FnOnce() -> T) -> Arc<T> {
    let (uid, revision, place) = key;
    let key = (uid.to_owned(), place);
    if let Some((at, compiled)) = kept.lock().get(&key)
        && *at == revision
    {
        return compiled.clone();
    }
    let compiled = Arc::new(make());
    let mut kept = kept.lock();
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(key, (revision, compiled.clone()));
    compiled
}

fn join(errors: Vec<FieldError>) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join(", ")
}

// === impl Admission ===

impl Admission {
    /// Evaluates every policy that a binding applies to the write. The first denial refuses it.
    pub(super) fn apply_policies(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let mut refusal = None;
        let bindings = self.store.list(BINDINGS, None);
        for policy in self.store.list(POLICIES, None) {
            let name = meta::name(&policy.value);
            let mut bound =
                bindings.iter().filter(|b| b.value["spec"]["policyName"] == name).peekable();
            if bound.peek().is_none() {
                continue;
            }
            let version = match self.matched(&policy.value["spec"]["matchConstraints"], attempt) {
                Ok(None) => continue,
                Ok(Some(version)) => Ok(version),
                Err(status) => Err(status.message),
            };
            let compiled = self.policies.policy(&policy);
            let ready = version.and_then(|version| match &*compiled {
                Ok(compiled) => Ok((version, compiled)),
                Err(why) => Err(why.clone()),
            });
            let (version, compiled) = match ready {
                Ok(ready) => ready,
                Err(why) => {
                    if policy.value["spec"]["failurePolicy"] != "Ignore" {
                        let message = format!(
                            "ValidatingAdmissionPolicy '{name}' denied request: failed to configure policy: {why}"
                        );
                        refusal.get_or_insert((message, "Invalid", 422));
                    }
                    continue;
                }
            };
            for binding in bound {
                self.apply_binding(
                    attempt,
                    (&policy.value, compiled, &version),
                    &binding.value,
                    &mut refusal,
                );
            }
        }
        match refusal {
            None => Ok(()),
            Some((message, reason, code)) => Err(refused(attempt, message, reason, code)),
        }
    }

    fn apply_binding(
        &self,
        attempt: &mut Attempt<'_>,
        (policy, compiled, version): (&Value, &Policy, &str),
        binding: &Value,
        refusal: &mut Option<(String, &'static str, u16)>,
    ) {
        let (policy_name, binding_name) = (meta::name(policy), meta::name(binding));
        let spec = &binding["spec"];
        let denials = match self.matched(&spec["matchResources"], attempt) {
            Ok(None) => return,
            Ok(Some(_)) => self
                .parameters(&policy["spec"]["paramKind"], &spec["paramRef"], attempt)
                .map(|parameters| self.evaluate(attempt, compiled, version, &parameters)),
            Err(status) => Err(status.message),
        };
        let denials = match denials {
            Ok(denials) => denials,
            Err(_) if policy["spec"]["failurePolicy"] == "Ignore" => return,
            Err(why) => {
                let message = format!(
                    "ValidatingAdmissionPolicy '{policy_name}' with binding '{binding_name}' denied request: failed to configure binding: {why}"
                );
                refusal.get_or_insert((message, "Invalid", 422));
                return;
            }
        };
        for denial in denials {
            let actions = spec["validationActions"].as_array().into_iter().flatten();
            for action in actions.filter_map(Value::as_str) {
                match action {
                    "Deny" => {
                        let message = denial.sentence(policy_name, binding_name);
                        refusal.get_or_insert((message, denial.reason, denial.code));
                    }
                    "Warn" => attempt.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy_name}' with binding '{binding_name}': {}",
                        denial.message
                    )),
                    // Audit: there is no audit log to write to.
                    _ => {}
                }
            }
        }
    }

    /// The version in which match criteria fit the write; none if they do not.
    fn matched(&self, criteria: &Value, attempt: &Attempt<'_>) -> Result<Option<String>, Status> {
        let in_namespace = self.namespace_selected(&criteria["namespaceSelector"], attempt);
        if matches!(in_namespace, Ok(false))
            || !attempt.object_selected(&criteria["objectSelector"])
        {
            return Ok(None);
        }
        let operation = attempt.operation.to_string();
        let versions = self.versions(attempt, criteria["matchPolicy"] == "Exact");
        let fits = |rules: &Value| {
            versions.iter().find(|v| rules_match(rules, &attempt.target(&operation, v)))
        };
        if fits(&criteria["excludeResourceRules"]).is_some() {
            return Ok(None);
        }
        let rules = &criteria["resourceRules"];
        let all = rules.as_array().is_none_or(Vec::is_empty);
        let version = if all { versions.first() } else { fits(rules) };
        let Some(version) = version else { return Ok(None) };
        in_namespace?;
        Ok(Some(version.clone()))
    }

    /// The parameter objects of a binding, or one `None` where the policy takes none.
    fn parameters(
        &self,
        kind: &Value,
        reference: &Value,
        attempt: &Attempt<'_>,
    ) -> Result<Vec<Option<Value>>, String> {
        if !kind.is_object() || !reference.is_object() {
            return Ok(vec![None]);
        }
        let text =
            |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(kind, "apiVersion"), text(kind, "kind"));
        let known = self
            .kinds
            .find(&api_version, &kind)
            .ok_or_else(|| format!("paramKind kind `{api_version}, Kind={kind}` not known"))?;
        let mut namespace = text(reference, "namespace");
        if !known.namespaced && !namespace.is_empty() {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()
            );
        }
        if known.namespaced && namespace.is_empty() {
            attempt.selected_namespace().clone_into(&mut namespace);
            if namespace.is_empty() {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
            }
        }
        let name = text(reference, "name");
        let found: Vec<Arc<Object>> = if name.is_empty() {
            let within = known.namespaced.then_some(namespace.as_str());
            let mut all = self.store.list(&known.resource, within);
            all.retain(|object| selects(&reference["selector"], &object.value));
            all
        } else {
            self.store.get(&known.resource, &namespace, &name).into_iter().collect()
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".into()
            );
        }
        let stamped = found.iter().map(|object| {
            let mut value = object.value.clone();
            let map = meta::as_map(&mut value);
            map.insert("apiVersion".into(), json!(api_version));
            map.insert("kind".into(), json!(kind));
            Some(value)
        });
        Ok(stamped.collect())
    }

    fn evaluate(
        &self,
        attempt: &Attempt<'_>,
        policy: &Policy,
        version: &str,
        parameters: &[Option<Value>],
    ) -> Vec<Denial> {
        let object = review::stamped(attempt, attempt.object.as_ref(), version);
        let old = review::stamped(attempt, attempt.old, version);
        let request = review::request(attempt, version);
        let namespace = self.namespace_object(attempt);
        let evaluate = |params: &Option<Value>| {
            policy.evaluate(&PolicyInput {
                object: object.as_ref(),
                old_object: old.as_ref(),
                request: &request,
                params: params.as_ref(),
                namespace_object: namespace.as_ref(),
            })
        };
        parameters.iter().flat_map(evaluate).collect()
    }
}

fn refused(attempt: &Attempt<'_>, message: String, reason: &'static str, code: u16) -> Status {
    let mut status = attempt.forbid(&message);
    status.reason = reason.into();
    status.code = code;
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { message, ..Cause::default() });
    }
    status
}
