//! Numbers: arithmetic on integers and floats, conversion, and what kind a value is.
//!
//! Integer functions take anything that reads as an integer, as chart authors expect: `add "1" 2.9` is 3.
//! An overflow or a division by zero is an error.

use super::{Functions, Param, any};
use crate::error::FunctionError;
use crate::number::parse_float;
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    use Param::Any;
    let rest = Some(Any);
    functions.value("add", &[], rest, |arguments, _| fold(arguments, 0, i64::checked_add));
    functions.value("mul", &[Any], rest, |arguments, _| fold(arguments, 1, i64::checked_mul));
    functions.value("add1", &[Any], None, |arguments, _| {
        pair(&[any(arguments, 0), Value::Int(1)], i64::checked_add)
    });
    functions.value("sub", &[Any, Any], None, |arguments, _| pair(arguments, i64::checked_sub));
    functions.value("div", &[Any, Any], None, |arguments, _| pair(arguments, divide));
    functions.value("mod", &[Any, Any], None, |arguments, _| pair(arguments, i64::checked_rem));
    for name in ["max", "biggest"] {
        functions.value(name, &[Any], rest, |arguments, _| choose(arguments, i64::max));
    }
    functions.value("min", &[Any], rest, |arguments, _| choose(arguments, i64::min));
    functions.value("addf", &[], rest, |arguments, _| {
        fold_floats(arguments, |left, right| left + right)
    });
    functions.value("subf", &[Any], rest, |arguments, _| {
        fold_floats(arguments, |left, right| left - right)
    });
    functions.value("mulf", &[Any], rest, |arguments, _| {
        fold_floats(arguments, |left, right| left * right)
    });
    functions.value("divf", &[Any], rest, |arguments, _| {
        fold_floats(arguments, |left, right| left / right)
    });
    functions.value("maxf", &[Any], rest, |arguments, _| fold_floats(arguments, f64::max));
    functions.value("minf", &[Any], rest, |arguments, _| fold_floats(arguments, f64::min));
    functions.value("floor", &[Any], None, |arguments, _| {
        Ok(Value::Float(float(&any(arguments, 0)).floor()))
    });
    functions.value("ceil", &[Any], None, |arguments, _| {
        Ok(Value::Float(float(&any(arguments, 0)).ceil()))
    });
    functions.value("round", &[Any, Param::Int], None, |arguments, _| {
        let digits = any(arguments, 1).as_int().unwrap_or(0).clamp(-400, 400);
        let scale = 10f64.powi(i32::try_from(digits).unwrap_or(0));
        let scaled = float(&any(arguments, 0)) * scale;
        Ok(Value::Float((scaled + 0.5f64.copysign(scaled)).trunc() / scale))
    });
    for name in ["int", "int64", "atoi"] {
        functions
            .value(name, &[Any], None, |arguments, _| Ok(Value::Int(integer(&any(arguments, 0)))));
    }
    functions
        .value("float64", &[Any], None, |arguments, _| Ok(Value::Float(float(&any(arguments, 0)))));
    functions.text("typeOf", &[Any], None, |out, arguments, _| {
        out.push_str(any(arguments, 0).type_name());
        Ok(())
    });
    functions.text("kindOf", &[Any], None, |out, arguments, _| {
        out.push_str(kind(&any(arguments, 0)));
        Ok(())
    });
    functions.value("kindIs", &[Param::Text, Any], None, |arguments, _| {
        let expected = super::bytes(arguments, 0);
        Ok(Value::Bool(kind(&any(arguments, 1)).as_bytes() == expected))
    });
    functions.value("typeIs", &[Param::Text, Any], None, |arguments, _| {
        let expected = super::bytes(arguments, 0);
        Ok(Value::Bool(any(arguments, 1).type_name().as_bytes() == expected))
    });
}

fn kind<'v>(value: &Value<'v>) -> &'v str {
    match value {
        Value::Missing | Value::Nil => "invalid",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Struct(_) => "struct",
        other => other.type_name(),
    }
}

/// The value as an integer; what does not read as one is zero.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a float is cut to its integer part, as documented"
)]
fn integer(value: &Value<'_>) -> i64 {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Float(value) => *value as i64,
        Value::Text(text) => {
            std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
        }
        other => other.as_int().unwrap_or(0),
    }
}

/// The value as a float; what does not read as one is zero.
#[allow(clippy::cast_precision_loss, reason = "the nearest float is meant")]
fn float(value: &Value<'_>) -> f64 {
    match value {
        Value::Float(value) => *value,
        Value::Text(text) => std::str::from_utf8(text).ok().and_then(parse_float).unwrap_or(0.0),
        other => integer(other) as f64,
    }
}

fn overflow() -> FunctionError {
    FunctionError::call("integer overflow")
}

fn divide(left: i64, right: i64) -> Option<i64> {
    left.checked_div(right)
}

fn fold<'a>(
    arguments: &[Value<'a>],
    start: i64,
    step: fn(i64, i64) -> Option<i64>,
) -> Result<Value<'a>, FunctionError> {
    let total = arguments.iter().try_fold(start, |total, value| step(total, integer(value)));
    total.map(Value::Int).ok_or_else(overflow)
}

fn pair<'a>(
    arguments: &[Value<'a>],
    work: fn(i64, i64) -> Option<i64>,
) -> Result<Value<'a>, FunctionError> {
    let (left, right) = (integer(&any(arguments, 0)), integer(&any(arguments, 1)));
    work(left, right).map(Value::Int).ok_or_else(|| match right {
        0 => FunctionError::call("runtime error: integer divide by zero"),
        _ => overflow(),
    })
}

fn choose<'a>(
    arguments: &[Value<'a>],
    better: fn(i64, i64) -> i64,
) -> Result<Value<'a>, FunctionError> {
    Ok(Value::Int(arguments.iter().map(integer).reduce(better).unwrap_or(0)))
}

fn fold_floats<'a>(
    arguments: &[Value<'a>],
    step: fn(f64, f64) -> f64,
) -> Result<Value<'a>, FunctionError> {
    Ok(Value::Float(arguments.iter().map(float).reduce(step).unwrap_or(0.0)))
}
