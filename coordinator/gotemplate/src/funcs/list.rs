//! Lists: making, cutting, searching.
//!
//! No function changes its argument; each gives a new list.

use super::{Functions, Param, any, int};
use crate::error::FunctionError;
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::value::{List, Text, Value};

pub(super) fn register(functions: &mut Functions) {
    use Param::{Any, Int};
    functions.value("list", &[], Some(Any), |arguments, budget| {
        charge(arguments.len(), budget)?;
        Ok(Value::list(arguments.to_vec()))
    });
    functions.value("first", &[Any], None, |arguments, _| {
        Ok(take(arguments, 0, "first")?.get(0).unwrap_or(Value::Nil))
    });
    functions.value("last", &[Any], None, |arguments, _| {
        let list = take(arguments, 0, "last")?;
        Ok(list.len().checked_sub(1).and_then(|index| list.get(index)).unwrap_or(Value::Nil))
    });
    functions.value("rest", &[Any], None, |arguments, budget| {
        part(arguments, "rest", budget, |length| 1..length)
    });
    functions.value("initial", &[Any], None, |arguments, budget| {
        part(arguments, "initial", budget, |length| 0..length - 1)
    });
    for name in ["append", "push"] {
        functions.value(name, &[Any, Any], None, |arguments, budget| {
            let list = take(arguments, 0, "push")?;
            charge(list.len() + 1, budget)?;
            Ok(Value::list(list.iter().chain([any(arguments, 1)]).collect()))
        });
    }
    functions.value("prepend", &[Any, Any], None, |arguments, budget| {
        let list = take(arguments, 0, "prepend")?;
        charge(list.len() + 1, budget)?;
        Ok(Value::list([any(arguments, 1)].into_iter().chain(list.iter()).collect()))
    });
    functions.value("concat", &[], Some(Any), |arguments, budget| {
        let mut items = Vec::new();
        for index in 0..arguments.len() {
            let list = take(arguments, index, "concat")?;
            charge(list.len(), budget)?;
            items.extend(list.iter());
        }
        Ok(Value::list(items))
    });
    functions.value("reverse", &[Any], None, |arguments, budget| {
        let mut items = items(arguments, 0, "reverse", budget)?;
        items.reverse();
        Ok(Value::list(items))
    });
    functions.value("compact", &[Any], None, |arguments, budget| {
        let mut items = items(arguments, 0, "compact", budget)?;
        items.retain(Value::is_true);
        Ok(Value::list(items))
    });
    functions.value("uniq", &[Any], None, |arguments, budget| {
        let mut unique: Vec<Value<'_>> = Vec::new();
        for item in items(arguments, 0, "uniq", budget)? {
            if !contains(&unique, &item, budget)? {
                unique.push(item);
            }
        }
        Ok(Value::list(unique))
    });
    functions.value("without", &[Any], Some(Any), |arguments, budget| {
        let omitted = arguments.get(1..).unwrap_or_default();
        let mut kept = Vec::new();
        for item in items(arguments, 0, "without", budget)? {
            if !contains(omitted, &item, budget)? {
                kept.push(item);
            }
        }
        Ok(Value::list(kept))
    });
    functions.value("has", &[Any, Any], None, |arguments, budget| {
        if any(arguments, 1).is_nil() {
            return Ok(Value::Bool(false));
        }
        let items = items(arguments, 1, "has", budget)?;
        Ok(Value::Bool(contains(&items, &any(arguments, 0), budget)?))
    });
    functions.value("sortAlpha", &[Any], None, |arguments, budget| {
        let mut texts = texts(arguments, budget)?;
        texts.sort();
        Ok(Value::texts(texts.into_iter().map(Value::text).collect()))
    });
    functions.value("toStrings", &[Any], None, |arguments, budget| {
        Ok(Value::texts(texts(arguments, budget)?.into_iter().map(Value::text).collect()))
    });
    functions.value("until", &[Int], None, |arguments, budget| {
        let stop = int(arguments, 0);
        numbers(0, stop, stop.signum(), budget)
    });
    functions.value("untilStep", &[Int, Int, Int], None, |arguments, budget| {
        numbers(int(arguments, 0), int(arguments, 1), int(arguments, 2), budget)
    });
    functions.text("seq", &[], Some(Int), sequence);
}

fn charge(count: usize, budget: &mut Budget) -> Result<(), FunctionError> {
    budget.charge(count.saturating_add(1).saturating_mul(size_of::<Value<'_>>()))
}

/// A list argument.
fn take<'a>(arguments: &[Value<'a>], index: usize, what: &str) -> Result<List<'a>, FunctionError> {
    match any(arguments, index) {
        Value::List(list) => Ok(list),
        other => Err(format!("cannot {what} on type {}", other.type_name()).into()),
    }
}

fn items<'a>(
    arguments: &[Value<'a>],
    index: usize,
    what: &str,
    budget: &mut Budget,
) -> Result<Vec<Value<'a>>, FunctionError> {
    let list = take(arguments, index, what)?;
    charge(list.len(), budget)?;
    Ok(list.iter().collect())
}

/// A part of a list; nothing of an empty one.
fn part<'a>(
    arguments: &[Value<'a>],
    what: &str,
    budget: &mut Budget,
    range: fn(usize) -> std::ops::Range<usize>,
) -> Result<Value<'a>, FunctionError> {
    let list = take(arguments, 0, what)?;
    if list.is_empty() {
        return Ok(Value::Nil);
    }
    charge(list.len(), budget)?;
    let range = range(list.len());
    Ok(Value::List(list.part(range.start, range.end)))
}

fn texts(arguments: &[Value<'_>], budget: &mut Budget) -> Result<Vec<Vec<u8>>, FunctionError> {
    let parts = match any(arguments, 0) {
        Value::List(list) => list.iter().filter(|part| !part.is_nil()).collect(),
        value if value.is_nil() => Vec::new(),
        value => vec![value],
    };
    charge(parts.len(), budget)?;
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let text = print::aside(&part, budget.limits.output);
        budget.charge(text.len())?;
        texts.push(text.into_bytes());
    }
    Ok(texts)
}

fn contains(
    items: &[Value<'_>],
    sought: &Value<'_>,
    budget: &mut Budget,
) -> Result<bool, FunctionError> {
    for item in items {
        if same(item, sought, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two values are the same in type and content, through all levels. Each step is charged, because shared
/// parts can make a small value long to walk.
pub(super) fn same(
    left: &Value<'_>,
    right: &Value<'_>,
    budget: &mut Budget,
) -> Result<bool, FunctionError> {
    budget.charge(8)?;
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !same(&left, &right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for ((left_key, left), (right_key, right)) in
                left.entries().iter().zip(right.entries().iter())
            {
                if **left_key != **right_key || !same(left, right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (left, right) if left.is_nil() || right.is_nil() => Ok(left.is_nil() && right.is_nil()),
        (left, right) if left.type_name() != right.type_name() => Ok(false),
        (left, right) => Ok(super::compare::equal(left, right).unwrap_or(false)),
    }
}

fn numbers<'a>(
    start: i64,
    stop: i64,
    step: i64,
    budget: &mut Budget,
) -> Result<Value<'a>, FunctionError> {
    let mut items = Vec::new();
    let mut next = start;
    while (step > 0 && next < stop) || (step < 0 && next > stop) {
        charge(1, budget)?;
        items.push(Value::Int(next));
        match next.checked_add(step) {
            Some(after) => next = after,
            None => break,
        }
    }
    Ok(Value::List(List::shared(items, "[]int")))
}

/// Numbers with blanks between them, both ends included: `stop`, `start stop` or `start step stop`.
fn sequence(
    out: &mut Output,
    arguments: &[Value<'_>],
    _: &mut Budget,
) -> Result<(), FunctionError> {
    let towards = |start: i64, stop: i64| if stop < start { -1 } else { 1 };
    let (start, step, stop) = match arguments.len() {
        1 => (1, towards(1, int(arguments, 0)), int(arguments, 0)),
        2 => (int(arguments, 0), towards(int(arguments, 0), int(arguments, 1)), int(arguments, 1)),
        3 => (int(arguments, 0), int(arguments, 1), int(arguments, 2)),
        _ => return Ok(()),
    };
    let mut next = start;
    while ((step > 0 && next <= stop) || (step < 0 && next >= stop)) && !out.is_over() {
        if next != start {
            out.push_byte(b' ');
        }
        print::integer::decimal(out, next);
        match next.checked_add(step) {
            Some(after) => next = after,
            None => break,
        }
    }
    Ok(())
}

/// A key of a map from any value.
pub(super) fn key<'a>(value: &Value<'a>, budget: &mut Budget) -> Result<Text<'a>, FunctionError> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        other => {
            let text = print::aside(other, budget.limits.output);
            budget.charge(text.len())?;
            Ok(Text::from(text.into_bytes()))
        }
    }
}
