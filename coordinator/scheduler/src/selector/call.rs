//! Functions: numbers, quantities, versions, optional values. Those of texts are in [`super::text`].

use std::{cmp::Ordering, rc::Rc};

use super::{SelectorError, Value, Version, eval::Evaluation, text};
use muster_kube::Quantity;

pub(super) type Answer = Result<Value, SelectorError>;
type Run = fn(&mut Evaluation<'_>, &[Value]) -> Answer;

/// A function. What a method is called on is its first argument.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) method: bool,
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) run: Run,
}

/// A function by name and number of arguments.
pub(super) fn find(name: &str, method: bool, arguments: usize) -> Option<&'static Function> {
    FUNCTIONS.iter().chain(text::FUNCTIONS).find(|function| {
        function.name == name
            && function.method == method
            && (function.least..=function.most).contains(&arguments)
    })
}

pub(super) const fn method(name: &'static str, least: usize, most: usize, run: Run) -> Function {
    Function { name, method: true, least, most, run }
}

pub(super) const fn free(name: &'static str, least: usize, most: usize, run: Run) -> Function {
    Function { name, method: false, least, most, run }
}

/// What is said where arguments are of the wrong kind.
pub(super) fn wrong(name: &str, arguments: &[Value]) -> SelectorError {
    let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
    SelectorError::no(format!("{name} of {}", kinds.join(", ")))
}

static FUNCTIONS: &[Function] = &[
    free("size", 1, 1, size),
    method("size", 1, 1, size),
    free("dyn", 1, 1, |_, arguments| match arguments {
        [value] => Ok(value.clone()),
        _ => Err(wrong("dyn", arguments)),
    }),
    free("int", 1, 1, int),
    free("double", 1, 1, double),
    free("string", 1, 1, string),
    free("bool", 1, 1, |_, arguments| match arguments {
        [Value::Bool(yes)] => Ok(Value::Bool(*yes)),
        [Value::Text(text)] if text.as_ref() == "true" => Ok(Value::Bool(true)),
        [Value::Text(text)] if text.as_ref() == "false" => Ok(Value::Bool(false)),
        _ => Err(wrong("bool", arguments)),
    }),
    free("quantity", 1, 1, |_, arguments| match arguments {
        [Value::Text(text)] => Quantity::amount(text)
            .map(Value::Quantity)
            .map_err(|error| SelectorError::no(error.to_string())),
        _ => Err(wrong("quantity", arguments)),
    }),
    free("isQuantity", 1, 1, |_, arguments| match arguments {
        [Value::Text(text)] => Ok(Value::Bool(Quantity::amount(text).is_ok())),
        _ => Err(wrong("isQuantity", arguments)),
    }),
    free("semver", 1, 2, |_, arguments| match version(arguments) {
        Some(Some(version)) => Ok(Value::Version(Rc::new(version))),
        Some(None) => Err(SelectorError::no("semver of a text that is no version")),
        None => Err(wrong("semver", arguments)),
    }),
    free("isSemver", 1, 2, |_, arguments| match version(arguments) {
        Some(version) => Ok(Value::Bool(version.is_some())),
        None => Err(wrong("isSemver", arguments)),
    }),
    method("major", 1, 1, |_, arguments| part(arguments, 0)),
    method("minor", 1, 1, |_, arguments| part(arguments, 1)),
    method("patch", 1, 1, |_, arguments| part(arguments, 2)),
    method("compareTo", 2, 2, |_, arguments| {
        let order = compare(arguments)?;
        Ok(Value::Int(order as i64))
    }),
    method("isGreaterThan", 2, 2, |_, arguments| Ok(Value::Bool(compare(arguments)?.is_gt()))),
    method("isLessThan", 2, 2, |_, arguments| Ok(Value::Bool(compare(arguments)?.is_lt()))),
    method("isInteger", 1, 1, |_, arguments| match arguments {
        [Value::Quantity(amount)] => Ok(Value::Bool(amount.is_whole())),
        _ => Err(wrong("isInteger", arguments)),
    }),
    method("asInteger", 1, 1, |_, arguments| match arguments {
        [Value::Quantity(amount)] if amount.is_whole() => Ok(Value::Int(amount.units())),
        _ => Err(wrong("asInteger", arguments)),
    }),
    method("asApproximateFloat", 1, 1, |_, arguments| match arguments {
        [Value::Quantity(amount)] => Ok(Value::Double(amount.milli() as f64 / 1000.0)),
        _ => Err(wrong("asApproximateFloat", arguments)),
    }),
    method("sign", 1, 1, |_, arguments| match arguments {
        [Value::Quantity(amount)] => Ok(Value::Int(i64::from(!amount.is_zero()))),
        _ => Err(wrong("sign", arguments)),
    }),
    free("optional.none", 0, 0, |_, _| Ok(Value::Optional(None))),
    free("optional.of", 1, 1, |_, arguments| match arguments {
        [value] => Ok(Value::Optional(Some(Rc::new(value.clone())))),
        _ => Err(wrong("optional.of", arguments)),
    }),
    method("hasValue", 1, 1, |_, arguments| match arguments {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(wrong("hasValue", arguments)),
    }),
    method("value", 1, 1, |_, arguments| match arguments {
        [Value::Optional(Some(inner))] => Ok(inner.as_ref().clone()),
        _ => Err(wrong("value", arguments)),
    }),
    method("orValue", 2, 2, |_, arguments| match arguments {
        [Value::Optional(Some(inner)), _] => Ok(inner.as_ref().clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(wrong("orValue", arguments)),
    }),
    method("or", 2, 2, |_, arguments| match arguments {
        [Value::Optional(Some(inner)), _] => Ok(Value::Optional(Some(inner.clone()))),
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        _ => Err(wrong("or", arguments)),
    }),
];

fn size(evaluation: &mut Evaluation<'_>, arguments: &[Value]) -> Answer {
    let size = match arguments {
        [Value::Text(text)] => text.chars().count(),
        [other] => evaluation.items(other)?.len(),
        _ => return Err(wrong("size", arguments)),
    };
    Ok(Value::Int(size as i64))
}

fn int(_: &mut Evaluation<'_>, arguments: &[Value]) -> Answer {
    let value = match arguments {
        [Value::Int(value)] => Some(*value),
        [Value::Uint(value)] => i64::try_from(*value).ok(),
        [Value::Double(value)] if value.abs() < i64::MAX as f64 => Some(*value as i64),
        [Value::Text(text)] => text.parse().ok(),
        _ => None,
    };
    value.map(Value::Int).ok_or_else(|| wrong("int", arguments))
}

fn double(_: &mut Evaluation<'_>, arguments: &[Value]) -> Answer {
    let value = match arguments {
        [Value::Int(value)] => Some(*value as f64),
        [Value::Uint(value)] => Some(*value as f64),
        [Value::Double(value)] => Some(*value),
        [Value::Text(text)] => text.parse().ok(),
        _ => None,
    };
    value.map(Value::Double).ok_or_else(|| wrong("double", arguments))
}

fn string(_: &mut Evaluation<'_>, arguments: &[Value]) -> Answer {
    Ok(Value::Text(match arguments {
        [Value::Text(text)] => text.clone(),
        [Value::Bool(value)] => value.to_string().into(),
        [Value::Int(value)] => value.to_string().into(),
        [Value::Uint(value)] => value.to_string().into(),
        [Value::Double(value)] => value.to_string().into(),
        _ => return Err(wrong("string", arguments)),
    }))
}

/// A version from a text, read loosely if the second argument says so; none if the arguments are of the wrong kind.
fn version(arguments: &[Value]) -> Option<Option<Version>> {
    match arguments {
        [Value::Text(text)] | [Value::Text(text), Value::Bool(false)] => Some(Version::parse(text)),
        [Value::Text(text), Value::Bool(true)] => Some(Version::parse_loosely(text)),
        _ => None,
    }
}

fn part(arguments: &[Value], at: usize) -> Answer {
    match arguments {
        [Value::Version(version)] => Ok(Value::Int(version.number(at))),
        _ => Err(wrong("a part", arguments)),
    }
}

fn compare(arguments: &[Value]) -> Result<Ordering, SelectorError> {
    match arguments {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(a.cmp(b)),
        [Value::Version(a), Value::Version(b)] => Ok(a.cmp(b)),
        _ => Err(wrong("a comparison", arguments)),
    }
}
