//! From the JSON of a policy to compiled expressions.

use super::{Condition, Expression, Validation};
use crate::schema::cel::program::{self, Program};
use crate::schema::cel::value;
use crate::schema::{path, print};
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

const REASONS: [(&str, u16); 4] =
    [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413), ("Unauthorized", 401)];

/// Names that expressions may read beside those of types.
const NAMES: [&str; 6] =
    ["object", "oldObject", "request", "namespaceObject", "params", "variables"];

/// A list member, empty if absent.
pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn compile(
    source: &str,
    at: &str,
    has_params: bool,
    errors: &mut Vec<FieldError>,
) -> Option<Expression> {
    let why = match Program::compile(source) {
        Ok(program) => {
            let unknown = program.variables().iter().find(|name| {
                let name = name.as_str();
                let known = NAMES.contains(&name) || program::TYPES.contains(&name);
                !known || (name == "params" && !has_params)
            });
            match unknown {
                None => return Some(Expression { source: source.to_owned(), program }),
                Some(name) => crate::schema::cel::undeclared(source, name),
            }
        }
        Err(why) => why,
    };
    let detail = format!("compilation failed: {why}");
    errors.push(print::error(Kind::Invalid, at, &json!(source), detail));
    None
}

/// Compiles match conditions.
pub fn conditions(
    list: &Value,
    at: &str,
    has_params: bool,
    errors: &mut Vec<FieldError>,
) -> Vec<Condition> {
    let mut compiled = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    if list.len() > 64 {
        errors.push(FieldError::printed(
            Kind::TooMany,
            at,
            list.len().to_string(),
            "must have at most 64 items",
        ));
    }
    for (i, condition) in list.iter().enumerate() {
        let at = path::index(at, i);
        let source = condition.get("expression").and_then(Value::as_str).unwrap_or_default().trim();
        if source.is_empty() {
            errors.push(FieldError::new(Kind::Required, path::child(&at, "expression"), ""));
        } else if let Some(expression) =
            compile(source, &path::child(&at, "expression"), has_params, errors)
        {
            compiled.push(Condition { expression });
        }
        let name = condition.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::new(Kind::Required, path::child(&at, "name"), ""));
        } else if names.contains(&name) {
            errors.push(print::error(Kind::Duplicate, path::child(&at, "name"), &json!(name), ""));
        }
        names.push(name);
    }
    compiled
}

/// Compiles the variables of a policy.
pub fn variables(
    spec: &Value,
    has_params: bool,
    errors: &mut Vec<FieldError>,
) -> Vec<(String, Expression)> {
    let mut compiled = Vec::new();
    for (i, variable) in items(spec, "variables").iter().enumerate() {
        let at = path::index("spec.variables", i);
        let text = |name: &str| variable.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        if name.trim().is_empty() {
            let why = "name is not specified";
            errors.push(FieldError::new(Kind::Required, path::child(&at, "name"), why));
        } else if value::escape(name).as_deref() != Some(name) {
            let why = "must be a valid CEL identifier";
            errors.push(print::error(Kind::Invalid, path::child(&at, "name"), &json!(name), why));
        }
        let at = path::child(&at, "expression");
        if text("expression").trim().is_empty() {
            errors.push(FieldError::new(Kind::Required, at, "expression is not specified"));
        } else if let Some(expression) = compile(text("expression"), &at, has_params, errors) {
            compiled.push((name.to_owned(), expression));
        }
    }
    compiled
}

/// Compiles the validations of a policy.
pub fn validations(
    spec: &Value,
    has_params: bool,
    errors: &mut Vec<FieldError>,
) -> Vec<Validation> {
    let mut compiled = Vec::new();
    for (i, validation) in items(spec, "validations").iter().enumerate() {
        let at = path::index("spec.validations", i);
        let text = |name: &str| validation.get(name).and_then(Value::as_str).unwrap_or_default();
        let expression_at = path::child(&at, "expression");
        let expression = if text("expression").trim().is_empty() {
            let why = "expression is not specified";
            errors.push(FieldError::new(Kind::Required, expression_at, why));
            None
        } else {
            compile(text("expression"), &expression_at, has_params, errors)
        };
        let message_at = path::child(&at, "messageExpression");
        let message_expression = match text("messageExpression") {
            "" => None,
            blank if blank.trim().is_empty() => {
                let why = "must be non-empty if specified";
                errors.push(print::error(Kind::Invalid, message_at, &json!(blank), why));
                None
            }
            source => compile(source, &message_at, has_params, errors),
        };
        let message = text("message");
        let trimmed = message.trim();
        if !message.is_empty() && trimmed.is_empty() {
            let why = "must be non-empty if specified";
            errors.push(print::error(
                Kind::Invalid,
                path::child(&at, "message"),
                &json!(message),
                why,
            ));
        } else if trimmed.contains(['\n', '\r']) {
            let why = "must not contain line breaks";
            errors.push(print::error(
                Kind::Invalid,
                path::child(&at, "message"),
                &json!(message),
                why,
            ));
        }
        let reason = match text("reason") {
            "" => ("Invalid", 422),
            name => match REASONS.into_iter().find(|(known, _)| *known == name) {
                Some(known) => known,
                None => {
                    let known = REASONS.map(|(known, _)| known);
                    errors.push(print::unsupported(
                        path::child(&at, "reason"),
                        &json!(name),
                        &known,
                    ));
                    continue;
                }
            },
        };
        if let Some(expression) = expression {
            compiled.push(Validation {
                expression,
                message: message.to_owned(),
                message_expression,
                reason,
            });
        }
    }
    compiled
}
