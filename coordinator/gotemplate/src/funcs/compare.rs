//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`.
//!
//! Values of one kind compare; whole numbers with and without a sign count as one kind. Nothing is only equal to
//! nothing.

use std::cmp::Ordering;

use super::{Functions, Param, any};
use crate::error::FunctionError;
use crate::print;
use crate::value::Value;

const BAD_TYPE: &str = "invalid type for comparison";

pub(super) fn register(functions: &mut Functions) {
    let any = Param::Any;
    functions.value("eq", &[any], Some(any), |arguments, _| {
        let others = arguments.get(1..).unwrap_or_default();
        if others.is_empty() {
            return Err("missing argument for comparison".into());
        }
        let first = super::any(arguments, 0);
        for other in others {
            if equal(&first, other)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    });
    functions.value("ne", &[any, any], None, |arguments, _| {
        pair(arguments, |left, right| Ok(!equal(left, right)?))
    });
    functions.value("lt", &[any, any], None, |arguments, _| pair(arguments, less));
    functions.value("le", &[any, any], None, |arguments, _| {
        pair(arguments, |left, right| Ok(less(left, right)? || equal(left, right)?))
    });
    functions.value("gt", &[any, any], None, |arguments, _| {
        pair(arguments, |left, right| Ok(!(less(left, right)? || equal(left, right)?)))
    });
    functions.value("ge", &[any, any], None, |arguments, _| {
        pair(arguments, |left, right| Ok(!less(left, right)?))
    });
}

fn pair<'a>(
    arguments: &[Value<'a>],
    compare: fn(&Value<'a>, &Value<'a>) -> Result<bool, FunctionError>,
) -> Result<Value<'a>, FunctionError> {
    compare(&any(arguments, 0), &any(arguments, 1)).map(Value::Bool)
}

/// A number without a fraction, whatever its type.
fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::Uint(number) => Some((*number).into()),
        Value::Byte(number) => Some((*number).into()),
        _ => None,
    }
}

fn incompatible(left: &Value<'_>, right: &Value<'_>) -> FunctionError {
    format!("incompatible types for comparison: {} and {}", left.type_name(), right.type_name())
        .into()
}

fn is_basic(value: &Value<'_>) -> bool {
    !matches!(
        value,
        Value::List(_) | Value::Map(_) | Value::Struct(_) | Value::Nil | Value::Missing
    )
}

/// Whether two values are equal; an error if they cannot be compared.
pub(super) fn equal(left: &Value<'_>, right: &Value<'_>) -> Result<bool, FunctionError> {
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Ok(left == right);
    }
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Float(left), Value::Float(right)) => Ok(left == right),
        (Value::Complex(a, b), Value::Complex(c, d)) => Ok(a == c && b == d),
        (Value::Text(left), Value::Text(right)) => Ok(**left == **right),
        _ if left.is_nil() || right.is_nil() => Ok(left.is_nil() && right.is_nil()),
        _ if is_basic(left) || is_basic(right) => Err(incompatible(left, right)),
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => Err(format!(
            "non-comparable type {}: {}",
            print::shown_by(right, 's'),
            right.type_name()
        )
        .into()),
        (Value::Struct(left), Value::Struct(right)) => same_struct(*left, *right),
        _ => {
            let (left_type, right_type) = (left.type_name(), right.type_name());
            let (left, right) = (print::shown_by(left, 's'), print::shown(right));
            Err(format!("non-comparable types {left}: {left_type}, {right_type}: {right}").into())
        }
    }
}

/// Structs are equal if they are of one type and all fields are; a list or map in one cannot be compared.
fn same_struct(
    left: &dyn crate::value::Struct,
    right: &dyn crate::value::Struct,
) -> Result<bool, FunctionError> {
    let fields = right.fields();
    let values = || (0..fields.len()).map(|index| right.field(index));
    if values().any(|value| matches!(value, Value::List(_) | Value::Map(_))) {
        let shown = print::shown_by(&Value::Struct(right), 's');
        return Err(format!("non-comparable type {shown}: {}", right.type_name()).into());
    }
    if left.type_name() != right.type_name() {
        return Ok(false);
    }
    for (index, value) in values().enumerate() {
        if !equal(&left.field(index), &value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn less(left: &Value<'_>, right: &Value<'_>) -> Result<bool, FunctionError> {
    if !is_basic(left) || !is_basic(right) {
        return Err(BAD_TYPE.into());
    }
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Ok(left < right);
    }
    match (left, right) {
        (Value::Bool(_), Value::Bool(_)) | (Value::Complex(..), Value::Complex(..)) => {
            Err(BAD_TYPE.into())
        }
        (Value::Float(left), Value::Float(right)) => Ok(left < right),
        (Value::Text(left), Value::Text(right)) => Ok(left.cmp(right) == Ordering::Less),
        _ => Err(incompatible(left, right)),
    }
}
