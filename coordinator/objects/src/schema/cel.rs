//! CEL rules of a schema: compiled with it, evaluated after the other checks have passed.

pub mod program;
mod rewrite;
pub mod value;

#[cfg(test)]
mod tests;

use self::program::Program;
use super::node::Node;
use super::{path, print, validate};
use kube_cel::cel::Value as Cel;
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// One rule of `x-kubernetes-validations`.
#[derive(Debug)]
pub struct Rule {
    /// The rule's source.
    pub source: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: Option<String>,
    /// Relative path below the value, already in Kubernetes' notation.
    field_path: String,
    optional_old_self: bool,
}

/// Why a rule does not compile: the part of it and the text.
#[derive(Debug)]
pub struct RuleError {
    /// `rule` or `messageExpression`.
    pub part: &'static str,
    /// What is wrong.
    pub detail: String,
}

/// What an update knows about the old state of a value: itself or, where that cannot be told, the
/// nearest parent that can.
#[derive(Clone, Copy, Default)]
struct Trace<'a> {
    here: Option<Pair<'a>>,
    parent: Option<Pair<'a>>,
}

/// A new and an old value that correspond.
#[derive(Clone, Copy)]
struct Pair<'a> {
    spine: &'a Node,
    new: &'a Value,
    old: &'a Value,
}

/// One evaluation of all rules of one object.
struct Run {
    budget: i64,
    errors: Vec<FieldError>,
}

/// Evaluates the rules of `node` and below. `base` is the path of `value`.
pub fn check(node: &Node, value: &Value, old: Option<&Value>, base: &str) -> Vec<FieldError> {
    check_from(node, value, old, old.is_some(), base)
}

/// Evaluates the rules without forgiving what did not change, as is done for defaults.
pub fn check_from(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    ratchet: bool,
    base: &str,
) -> Vec<FieldError> {
    let mut run = Run { budget: program::PER_OBJECT, errors: Vec::new() };
    let here = old.filter(|_| ratchet).map(|old| Pair { spine: node, new: value, old });
    run.visit(node, value, old, Trace { here, parent: None }, base);
    run.errors
}

// === impl Rule ===

impl Rule {
    /// Compiles a rule of `node`, which is that of a whole resource or of a part of one.
    pub fn compile(
        rule: &Value,
        field_path: String,
        node: &Node,
        resource: bool,
    ) -> Result<Rule, RuleError> {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let source = text("rule").to_owned();
        let program = Program::compile(&source).map_err(|why| RuleError {
            part: "rule",
            detail: format!("compilation failed: {why}"),
        })?;
        let message_program = match text("messageExpression") {
            "" => None,
            source => Some(Program::compile(source).map_err(|why| RuleError {
                part: "messageExpression",
                detail: format!("messageExpression compilation failed: {why}"),
            })?),
        };
        for (part, program) in
            [("rule", Some(&program)), ("messageExpression", message_program.as_ref())]
        {
            let unknown = program.and_then(|p| p.variables().iter().find(|v| !known(v)));
            if let Some(name) = unknown {
                let prefix = if part == "rule" { "" } else { "messageExpression " };
                let source = if part == "rule" { text("rule") } else { text("messageExpression") };
                return Err(RuleError {
                    part,
                    detail: format!("{prefix}compilation failed: {}", undeclared(source, name)),
                });
            }
        }
        if let Some(why) = program
            .self_chains()
            .iter()
            .find_map(|chain| undefined_field(&source, chain, node, resource))
        {
            return Err(RuleError { part: "rule", detail: format!("compilation failed: {why}") });
        }
        Ok(Rule {
            program,
            message: text("message").to_owned(),
            message_program,
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path,
            optional_old_self: rule
                .get("optionalOldSelf")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            source,
        })
    }

    /// Whether the rule compares with the old value.
    pub fn uses_old_self(&self) -> bool {
        self.program.uses("oldSelf")
    }

    fn shown(&self) -> &str {
        let message = self.message.trim();
        if message.is_empty() { self.source.trim() } else { message }
    }

    fn failure(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.shown())
        } else {
            self.message.trim().to_owned()
        }
    }

    fn error(&self, at: &str, type_name: &str, detail: String) -> FieldError {
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::new(Kind::Forbidden, at, detail),
            Some("FieldValueRequired") => FieldError::new(Kind::Required, at, detail),
            Some("FieldValueDuplicate") => print::error(Kind::Duplicate, at, &json!(type_name), ""),
            _ => print::error(Kind::Invalid, at, &json!(type_name), detail),
        }
    }
}

/// Names that rules may read.
fn known(name: &str) -> bool {
    name == "self" || name == "oldSelf" || program::TYPES.contains(&name)
}

/// cel-go's text for a name that it does not know.
pub fn undeclared(source: &str, name: &str) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let place = source
        .match_indices(name)
        .find(|(at, _)| {
            let before = source[..*at].chars().next_back();
            let after = source[at + name.len()..].chars().next();
            !before.is_some_and(|c| word(c) || c == '.') && !after.is_some_and(word)
        })
        .map_or(0, |(at, _)| at);
    positioned(source, place, &format!("undeclared reference to '{name}' (in container '')"))
}

/// A message with its place in the source, as cel-go shows it.
fn positioned(source: &str, place: usize, message: &str) -> String {
    let before = &source[..place];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count());
    let text = source.lines().nth(line).unwrap_or("");
    format!(
        "ERROR: <input>:{}:{}: {message}\n | {text}\n | {}^",
        line + 1,
        column + 1,
        ".".repeat(column)
    )
}

/// cel-go's text for a field that the schema does not have, if the chain has one.
fn undefined_field(source: &str, chain: &[String], node: &Node, resource: bool) -> Option<String> {
    let mut node = node;
    let mut resource = resource;
    for (i, name) in chain.iter().enumerate() {
        if node.values().is_some() || (node.properties.is_empty() && !resource) {
            return None;
        }
        let known = node.properties.iter().find(|(n, _)| value::escape(n).as_deref() == Some(name));
        match (known, name.as_str()) {
            (_, "apiVersion" | "kind") if resource => return None,
            (_, "metadata") if resource => {
                let below = chain.get(i + 1)?;
                let fine = below == "name" || below == "generateName";
                return (!fine).then(|| field_error(source, &chain[..=i + 1]));
            }
            (Some((_, below)), _) => {
                node = below;
                resource = below.embedded;
            }
            (None, _) => return Some(field_error(source, &chain[..=i])),
        }
    }
    None
}

fn field_error(source: &str, chain: &[String]) -> String {
    let (name, before) = chain.split_last().map_or(("", &[][..]), |(n, b)| (n.as_str(), b));
    let operand = std::iter::once("self").chain(before.iter().map(String::as_str));
    let operand = operand.collect::<Vec<_>>().join(".");
    let place = source.find(&format!("{operand}.{name}")).map_or(0, |at| at + operand.len());
    positioned(source, place, &format!("undefined field '{name}'"))
}

// === impl Trace ===

impl<'a> Trace<'a> {
    fn unchanged(self) -> bool {
        self.here.or(self.parent).is_some_and(|p| validate::unchanged(p.spine, p.new, p.old))
    }

    fn field(self, name: &str) -> Trace<'a> {
        let Some(here) = self.here else { return self };
        if self.parent.is_none() && (name == "apiVersion" || name == "kind") {
            return Trace::default();
        }
        let below = || {
            let spine = here.spine.field(name)?;
            Some(Pair { spine, new: here.new.get(name)?, old: here.old.get(name)? })
        };
        Trace { here: below(), parent: Some(here) }
    }

    fn item(self, index: usize) -> Trace<'a> {
        let Some(here) = self.here else { return self };
        let below = || {
            let new = here.new.get(index)?;
            let old = here.spine.correlated_item(new, here.old.as_array()?)?;
            Some(Pair { spine: here.spine.items.as_deref()?, new, old })
        };
        Trace { here: below(), parent: Some(here) }
    }
}

// === impl Run ===

impl Run {
    fn visit(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        trace: Trace<'_>,
        at: &str,
    ) {
        if !node.has_rules || value.is_null() || self.budget < 0 {
            return;
        }
        let old = old.filter(|o| !o.is_null());
        if !node.rules.is_empty() {
            self.evaluate(node, value, old, trace, at);
        }
        match value {
            Value::Array(items) => {
                let Some(below) = &node.items else { return };
                let none = Vec::new();
                let old = old.and_then(Value::as_array).unwrap_or(&none);
                for (i, item) in items.iter().enumerate() {
                    let old = node.correlated_item(item, old);
                    self.visit(below, item, old, trace.item(i), &path::index(at, i));
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let (below, at) = match (node.properties.get(key), node.values()) {
                        (Some(field), _) => (field, path::child(at, key)),
                        (None, Some(values)) => (values, path::key(at, key)),
                        (None, None) => continue,
                    };
                    self.visit(below, value, old.and_then(|o| o.get(key)), trace.field(key), &at);
                }
            }
            _ => {}
        }
    }

    fn evaluate(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        trace: Trace<'_>,
        at: &str,
    ) {
        let type_name = node.type_name.as_str();
        let invalid = |at: &str, detail: String| {
            print::error(Kind::Invalid, path::shown(at), &json!(type_name), detail)
        };
        let size = value::size(value) + old.map_or(0, value::size);
        let self_value = value::typed(value, node);
        let old_value = old.map(|o| value::typed(o, node));
        for rule in &node.rules {
            if rule.uses_old_self() && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let mut scope = program::scope();
            scope.add_variable_from_value("self", self_value.clone());
            if rule.optional_old_self {
                scope.add_variable_from_value("oldSelf", program::optional(old_value.clone()));
            } else if let Some(old) = &old_value {
                scope.add_variable_from_value("oldSelf", old.clone());
            }
            let result = rule.program.run(&scope, size, &mut self.budget);
            if self.budget < 0 {
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.errors.push(invalid(at, why.to_owned()));
                return;
            }
            match result {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let detail = self.message(rule, &scope, size);
                    let at = path::shown(&path_below(at, &rule.field_path));
                    if rule.uses_old_self() || !trace.unchanged() {
                        self.errors.push(rule.error(&at, type_name, detail));
                    }
                }
                Err(why) if program::out_of_budget(&why) => {
                    let shown = rule.shown();
                    self.errors.push(invalid(at, format!("'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}")));
                    self.budget = -1;
                    return;
                }
                Err(why) if why.starts_with("no such overload") => {
                    let shown = rule.shown();
                    self.errors.push(invalid(at, format!("'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}")));
                }
                Err(why) => {
                    self.errors
                        .push(invalid(at, format!("{why} evaluating rule: {}", rule.shown())));
                }
            }
        }
    }

    /// The message of a failed rule: of its expression if that yields one, else its own.
    fn message(&mut self, rule: &Rule, scope: &kube_cel::cel::Context<'_>, size: usize) -> String {
        let made = rule.message_program.as_ref().and_then(|program| {
            match program.run(scope, size, &mut self.budget) {
                Ok(Cel::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
        });
        made.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'))
            .unwrap_or_else(|| rule.failure())
    }
}

fn path_below(at: &str, below: &str) -> String {
    match below {
        "" => at.to_owned(),
        below => path::child(at, below),
    }
}
