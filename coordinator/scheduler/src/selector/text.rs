//! Functions of texts.

use regex::{Regex, RegexBuilder};

use super::{
    SelectorError, Value,
    call::{Answer, Function, method, wrong},
    eval::Evaluation,
};

/// Bytes that a pattern may take when it is made ready.
const LARGEST_PATTERN: usize = 1 << 18;
/// Steps that making a pattern ready counts as.
const PATTERN_STEPS: usize = 1_000;

pub(super) static FUNCTIONS: &[Function] = &[
    method("startsWith", 2, 2, |evaluation, arguments| {
        test(evaluation, "startsWith", arguments, |text, part| text.starts_with(part))
    }),
    method("endsWith", 2, 2, |evaluation, arguments| {
        test(evaluation, "endsWith", arguments, |text, part| text.ends_with(part))
    }),
    method("contains", 2, 2, |evaluation, arguments| {
        test(evaluation, "contains", arguments, |text, part| text.contains(part))
    }),
    method("matches", 2, 2, matches),
    method("lowerAscii", 1, 1, |evaluation, arguments| {
        change(evaluation, "lowerAscii", arguments, |text| text.to_ascii_lowercase())
    }),
    method("upperAscii", 1, 1, |evaluation, arguments| {
        change(evaluation, "upperAscii", arguments, |text| text.to_ascii_uppercase())
    }),
    method("trim", 1, 1, |evaluation, arguments| {
        change(evaluation, "trim", arguments, |text| text.trim().to_owned())
    }),
    method("replace", 3, 3, |evaluation, arguments| match arguments {
        [Value::Text(text), Value::Text(from), Value::Text(to)] => {
            let times = text.matches(from.as_ref()).count();
            evaluation.spend((text.len() + times.saturating_mul(to.len())) / 8)?;
            Ok(Value::Text(text.replace(from.as_ref(), to).into()))
        }
        _ => Err(wrong("replace", arguments)),
    }),
    method("split", 2, 2, |evaluation, arguments| match arguments {
        [Value::Text(text), Value::Text(by)] => {
            evaluation.spend(text.len())?;
            let parts: Vec<Value> = if by.is_empty() {
                text.chars().map(|c| Value::text(c.encode_utf8(&mut [0; 4]))).collect()
            } else {
                text.split(by.as_ref()).map(Value::text).collect()
            };
            Ok(Value::List(parts.into()))
        }
        _ => Err(wrong("split", arguments)),
    }),
    method("substring", 2, 3, |evaluation, arguments| {
        let (text, from, to) = match arguments {
            [Value::Text(text), Value::Int(from)] => (text, *from, None),
            [Value::Text(text), Value::Int(from), Value::Int(to)] => (text, *from, Some(*to)),
            _ => return Err(wrong("substring", arguments)),
        };
        evaluation.spend(text.len() / 8)?;
        let length = text.chars().count() as i64;
        let to = to.unwrap_or(length);
        if from < 0 || to < from || to > length {
            return Err(SelectorError::no("substring: it is not that long"));
        }
        let part = text.chars().skip(from as usize).take((to - from) as usize);
        Ok(Value::Text(part.collect::<String>().into()))
    }),
    method("indexOf", 2, 2, |evaluation, arguments| match arguments {
        [Value::Text(text), Value::Text(part)] => {
            evaluation.spend(text.len() / 8)?;
            let at = text.find(part.as_ref()).and_then(|at| text.get(..at));
            Ok(Value::Int(at.map_or(-1, |before| before.chars().count() as i64)))
        }
        _ => Err(wrong("indexOf", arguments)),
    }),
];

fn test(
    evaluation: &mut Evaluation<'_>,
    name: &str,
    arguments: &[Value],
    holds: fn(&str, &str) -> bool,
) -> Answer {
    match arguments {
        [Value::Text(text), Value::Text(part)] => {
            evaluation.spend((text.len() + part.len()) / 8)?;
            Ok(Value::Bool(holds(text, part)))
        }
        _ => Err(wrong(name, arguments)),
    }
}

fn change(
    evaluation: &mut Evaluation<'_>,
    name: &str,
    arguments: &[Value],
    change: fn(&str) -> String,
) -> Answer {
    match arguments {
        [Value::Text(text)] => {
            evaluation.spend(text.len() / 8)?;
            Ok(Value::Text(change(text).into()))
        }
        _ => Err(wrong(name, arguments)),
    }
}

/// Makes a pattern ready.
pub(super) fn pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build()
}

/// Whether a pattern is anywhere in a text.
fn matches(evaluation: &mut Evaluation<'_>, arguments: &[Value]) -> Answer {
    let [Value::Text(text), Value::Text(pattern)] = arguments else {
        return Err(wrong("matches", arguments));
    };
    evaluation.spend(PATTERN_STEPS + pattern.len() + text.len() / 4)?;
    let made = self::pattern(pattern)
        .map_err(|_| SelectorError::no(format!("`{pattern}` is no pattern")))?;
    Ok(Value::Bool(made.is_match(text)))
}
