//! ValidatingAdmissionPolicies: compiled once, evaluated per request.
//!
//! Left out: the `authorizer` variable (expressions that read it fail as an unknown name does) and
//! audit annotations, since nothing here keeps an audit log.

mod compile;
pub mod matching;

#[cfg(test)]
mod tests;

use crate::schema::cel::program::{self, Program};
use crate::schema::cel::value;
use crate::schema::print;
use compile::{conditions, items, validations, variables};
use kube_cel::cel::{Context, Value as Cel};
use matching::Target;
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;
/// What the match conditions of one policy or webhook may spend.
const MATCH_BUDGET: i64 = 2_500_000;

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    constraints: Value,
    conditions: Vec<Condition>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    ignore_failures: bool,
}

/// What a policy sees of a request.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// The object as it would be stored; none on delete.
    pub object: Option<&'a Value>,
    /// The stored object; none on create.
    pub old_object: Option<&'a Value>,
    /// The AdmissionRequest without the objects.
    pub request: &'a Value,
    /// The parameters, where the binding names some.
    pub params: Option<&'a Value>,
    /// The namespace of the object; none for cluster-wide objects.
    pub namespace_object: Option<&'a Value>,
}

/// One reason to refuse a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What a person reads.
    pub message: String,
    /// `Invalid`, `Forbidden`, `Unauthorized` or `RequestEntityTooLarge`.
    pub reason: &'static str,
    /// The HTTP status code that goes with the reason.
    pub code: u16,
}

/// Compiled match conditions, of a policy or of a webhook.
#[derive(Debug)]
pub struct MatchConditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    expression: Expression,
}

#[derive(Debug)]
struct Expression {
    source: String,
    program: Program,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: (&'static str, u16),
}

/// The variables of one request, ready for expressions.
struct Scope<'a> {
    context: Context<'a>,
    size: usize,
}

// === impl Policy ===

impl Policy {
    /// Compiles a ValidatingAdmissionPolicy; errors name its fields.
    pub fn compile(policy: &Value) -> Result<Policy, Vec<FieldError>> {
        let spec = &policy["spec"];
        let mut errors = Vec::new();
        let has_params = spec.get("paramKind").is_some_and(|p| !p.is_null());
        let ignore_failures = match spec.get("failurePolicy").and_then(Value::as_str) {
            None | Some("Fail") => false,
            Some("Ignore") => true,
            Some(other) => {
                let at = "spec.failurePolicy";
                errors.push(print::unsupported(at, &json!(other), &["Fail", "Ignore"]));
                false
            }
        };
        let constraints = spec.get("matchConstraints").cloned().unwrap_or(Value::Null);
        if constraints.is_null() {
            errors.push(FieldError::new(Kind::Required, "spec.matchConstraints", ""));
        } else if items(&constraints, "resourceRules").is_empty() {
            let at = "spec.matchConstraints.resourceRules";
            errors.push(FieldError::new(Kind::Required, at, ""));
        }
        let conditions =
            conditions(&spec["matchConditions"], "spec.matchConditions", has_params, &mut errors);
        let variables = variables(spec, has_params, &mut errors);
        let validations = validations(spec, has_params, &mut errors);
        if validations.is_empty()
            && items(spec, "auditAnnotations").is_empty()
            && items(spec, "validations").is_empty()
        {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::new(Kind::Required, "spec.validations", why));
            errors.push(FieldError::new(Kind::Required, "spec.auditAnnotations", why));
        }
        if errors.is_empty() {
            Ok(Policy { constraints, conditions, variables, validations, ignore_failures })
        } else {
            Err(errors)
        }
    }

    /// Whether the policy is about this request. The closures say whether a label selector selects the
    /// request's namespace and its object.
    pub fn matches_resource(
        &self,
        target: &Target<'_>,
        namespace: impl Fn(&Value) -> bool,
        object: impl Fn(&Value) -> bool,
    ) -> bool {
        matching::constraints_match(&self.constraints, target, namespace, object)
    }

    /// Evaluates the policy: no denial means that the request may pass.
    pub fn evaluate(&self, input: &PolicyInput<'_>) -> Vec<Denial> {
        let failed = |message: String| {
            if self.ignore_failures { vec![] } else { vec![Denial::of("Invalid", 422, message)] }
        };
        let mut scope = Scope::of(input);
        match condition_results(&self.conditions, &scope) {
            Err(why) => return failed(why),
            Ok(false) => return vec![],
            Ok(true) => {}
        }
        let mut budget = program::PER_OBJECT;
        let broken = self.bind_variables(&mut scope, &mut budget);
        let mut denials = Vec::new();
        for validation in &self.validations {
            match validation.expression.run(&scope, &broken, &mut budget) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let message = validation.message(&scope, &broken, &mut budget);
                    let (reason, code) = validation.reason;
                    denials.push(Denial::of(reason, code, message));
                }
                Err(why) => denials.extend(failed(why)),
            }
        }
        denials
    }

    /// Evaluates the variables in order; those that fail are returned with their errors, which matter
    /// only to expressions that read them.
    fn bind_variables(&self, scope: &mut Scope<'_>, budget: &mut i64) -> BTreeMap<String, String> {
        let mut broken = BTreeMap::new();
        if self.variables.is_empty() {
            return broken;
        }
        let mut values: Vec<(String, Cel)> = Vec::new();
        for (name, expression) in &self.variables {
            scope
                .context
                .add_variable_from_value("variables", value::object(values.iter().cloned()));
            match expression.program.run(&scope.context, scope.size, budget) {
                Ok(value) => values.push((name.clone(), value)),
                Err(why) => {
                    broken.insert(
                        name.clone(),
                        format!("composited variable \"{name}\" fails to evaluate: {why}"),
                    );
                }
            }
        }
        scope.context.add_variable_from_value("variables", value::object(values.into_iter()));
        broken
    }
}

// === impl Denial ===

impl Denial {
    fn of(reason: &'static str, code: u16, message: String) -> Denial {
        Denial { message, reason, code }
    }

    /// The text that a client reads after `is forbidden: `.
    pub fn sentence(&self, policy: &str, binding: &str) -> String {
        format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
            self.message
        )
    }
}

// === impl MatchConditions ===

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook; `at` is their field.
    pub fn compile(conditions: &Value, at: &str) -> Result<MatchConditions, Vec<FieldError>> {
        let mut errors = Vec::new();
        let compiled = compile::conditions(conditions, at, false, &mut errors);
        if errors.is_empty() { Ok(MatchConditions(compiled)) } else { Err(errors) }
    }

    /// Whether all conditions hold; an error is one that no false condition outweighs.
    pub fn hold(&self, input: &PolicyInput<'_>) -> Result<bool, String> {
        condition_results(&self.0, &Scope::of(input))
    }
}

/// Compiles and evaluates conditions at once. Where they are used again, keep [`MatchConditions`].
pub fn match_conditions(conditions: &Value, input: &PolicyInput<'_>) -> Result<bool, String> {
    MatchConditions::compile(conditions, "matchConditions")
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))?
        .hold(input)
}

fn condition_results(conditions: &[Condition], scope: &Scope<'_>) -> Result<bool, String> {
    let mut budget = MATCH_BUDGET;
    let mut errors = Vec::new();
    for condition in conditions {
        match condition.expression.run(scope, &BTreeMap::new(), &mut budget) {
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => {}
            Err(why) => errors.push(why),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

// === impl Expression ===

impl Expression {
    fn run(
        &self,
        scope: &Scope<'_>,
        broken: &BTreeMap<String, String>,
        budget: &mut i64,
    ) -> Result<Cel, String> {
        self.program.run(&scope.context, scope.size, budget).map_err(|why| {
            // a variable that failed is absent; tell why it is
            let missing = why.strip_prefix("no such key: ").and_then(|name| broken.get(name));
            let why = missing.unwrap_or(&why);
            format!("expression '{}' resulted in error: {why}", self.source)
        })
    }
}

// === impl Validation ===

impl Validation {
    fn message(
        &self,
        scope: &Scope<'_>,
        broken: &BTreeMap<String, String>,
        budget: &mut i64,
    ) -> String {
        let made = self.message_expression.as_ref().and_then(|expression| {
            match expression.run(scope, broken, budget) {
                Ok(Cel::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
        });
        let own = self.message.trim();
        match made {
            Some(text) if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') => {
                text
            }
            _ if own.is_empty() => format!("failed expression: {}", self.expression.source.trim()),
            _ => own.to_owned(),
        }
    }
}

// === impl Scope ===

impl Scope<'_> {
    fn of(input: &PolicyInput<'_>) -> Scope<'static> {
        let mut context = program::scope();
        let mut size = 0;
        for (name, value) in [
            ("object", input.object),
            ("oldObject", input.old_object),
            ("params", input.params),
            ("namespaceObject", input.namespace_object),
        ] {
            size += value.map_or(1, value::size);
            context.add_variable_from_value(name, value.map_or(Cel::Null, value::plain));
        }
        context.add_variable_from_value("request", value::plain(input.request));
        Scope { context, size }
    }
}
