//! Numbers that may also be a part of something: `2`, `"40%"`.

use serde_json::Value;

use muster_kube::FieldError;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const REMEDY: &str = "write a number such as 1, or a part such as \"25%\"";

/// What is wrong with how it is written.
pub(crate) fn check(field: &str, value: &Value) -> Option<FieldError> {
    let why = match value {
        Value::String(text) => match text.strip_suffix('%') {
            Some(digits) if is_number(digits) => match digits.parse::<i64>() {
                Ok(0..=100) => return None,
                _ => "must be a valid percent value (0-100)",
            },
            _ => PERCENT,
        },
        value => match number(value) {
            Some(0..) => return None,
            Some(_) => "must be a non-negative integer",
            None => "must be an int or percent",
        },
    };
    Some(FieldError::invalid(field, value.clone(), why).remedy(REMEDY))
}

/// How many of `total` that is; parts are rounded up or down.
pub fn scaled(value: &Value, total: i32, up: bool) -> Result<i64, String> {
    let Value::String(text) = value else {
        return number(value)
            .map(i64::from)
            .ok_or_else(|| wrong("invalid type: neither int nor percentage"));
    };
    let Some(digits) = text.strip_suffix('%') else {
        return Err(wrong("invalid type: string is not a percentage"));
    };
    let percent: i64 = digits.parse().map_err(|_| {
        let known = is_number(digits.strip_prefix(['+', '-']).unwrap_or(digits));
        let why = if known { "value out of range" } else { "invalid syntax" };
        wrong(&format!("invalid value {text:?}: strconv.Atoi: parsing {digits:?}: {why}"))
    })?;
    let hundredfold = i128::from(percent) * i128::from(total);
    let down = hundredfold.div_euclid(100);
    let rounded = if up && hundredfold.rem_euclid(100) != 0 { down + 1 } else { down };
    Ok(i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX }))
}

fn wrong(why: &str) -> String {
    format!("invalid value for IntOrString: {why}")
}

/// A number as the API has it: 32 bits.
fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
