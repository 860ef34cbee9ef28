//! Checks of strings and numbers.

use super::Outcome;
use crate::schema::node::Node;
use crate::schema::print;
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

/// Whether a float is an integer that JSON carries without loss.
pub fn is_json_integer(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let whole = float.trunc();
    float == whole || (whole != 0.0 && (float - whole).abs() / (float.abs() + whole.abs()) < 1e-9)
}

/// Length and pattern of a string.
pub fn check_string(node: &Node, text: &str, at: &str, out: &mut Outcome) {
    let limits = &node.limits;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        let message = format!("{at} in body should be at most {max} chars long");
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = if max < 0 {
            "value is too long".to_owned()
        } else {
            format!("may not be more than {max} {unit}")
        };
        return out.push(FieldError::new(Kind::TooLong, at, detail), message);
    }
    if let Some(min) = limits.min_length.filter(|min| length < *min) {
        let message = format!("{at} in body should be at least {min} chars long");
        return out.invalid(at, &json!(text), message);
    }
    if let Some((source, program)) = &limits.pattern {
        match program {
            Ok(program) if program.is_match(text) => {}
            Ok(_) => {
                out.invalid(at, &json!(text), format!("{at} in body should match '{source}'"));
            }
            Err(why) => out.invalid(
                at,
                &json!(text),
                format!("{at} in body should match '{source}, but pattern is invalid: {why}'"),
            ),
        }
    }
}

/// Bounds of a number.
pub fn check_number(node: &Node, value: &Value, at: &str, out: &mut Outcome) {
    let limits = &node.limits;
    let int = value.as_i64();
    let float = value.as_f64().unwrap_or(0.0);
    // Bounds are floats in the schema, but are truncated where the value is an integer.
    let bound = |limit: f64| match int {
        Some(_) => (limit as i64).to_string(),
        None => print::go_float(limit),
    };
    if let Some(factor) = limits.multiple_of {
        let (positive, multiple) = match int {
            Some(int) => {
                let factor = factor as i64;
                (factor > 0, factor > 0 && int % factor == 0)
            }
            None if factor < 1.0 => (factor > 0.0, is_json_integer(1.0 / factor * float)),
            None => (true, is_json_integer(float / factor)),
        };
        if !positive {
            let text = bound(factor);
            let bad = json!(if int.is_some() { json!(factor as i64) } else { json!(factor) });
            let message = format!("factor MultipleOf declared for {at} must be positive: {text}");
            out.invalid(at, &bad, message);
        } else if !multiple {
            let message = format!("{at} in body should be a multiple of {}", bound(factor));
            out.invalid(at, value, message);
        }
    }
    if let Some((min, exclusive)) = limits.minimum {
        let below = match int {
            Some(int) => int < min as i64 || (exclusive && int == min as i64),
            None => float < min || (exclusive && float == min),
        };
        if below {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            out.invalid(at, value, format!("{at} in body should be {words} {}", bound(min)));
        }
    }
    if let Some((max, exclusive)) = limits.maximum {
        let above = match int {
            Some(int) => int > max as i64 || (exclusive && int == max as i64),
            None => float > max || (exclusive && float == max),
        };
        if above {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            out.invalid(at, value, format!("{at} in body should be {words} {}", bound(max)));
        }
    }
}
