//! Dicts: maps that templates make.
//!
//! No function changes its argument: `set` and `unset` give a new dict, so write `{{$d = set $d "k" 1}}`.

use super::list::key;
use super::{Functions, Param, any, bytes};
use crate::error::FunctionError;
use crate::limits::Budget;
use crate::value::{Map, Text, Value};

type Entries<'a> = Vec<(Text<'a>, Value<'a>)>;

pub(super) fn register(functions: &mut Functions) {
    use Param::{Any, Text};
    functions.value("dict", &[], Some(Any), |arguments, budget| {
        let mut entries = Vec::new();
        for pair in arguments.chunks(2) {
            let [name, rest @ ..] = pair else { break };
            entries.push((key(name, budget)?, rest.first().cloned().unwrap_or(Value::from(""))));
        }
        made(entries, budget)
    });
    functions.value("get", &[Any, Text], None, |arguments, _| {
        Ok(take(arguments, 0)?.get(bytes(arguments, 1)).unwrap_or(Value::from("")))
    });
    functions.value("set", &[Any, Text, Any], None, |arguments, budget| {
        let mut entries = take(arguments, 0)?.entries();
        if let Value::Text(name) = any(arguments, 1) {
            entries.push((name, any(arguments, 2)));
        }
        made(entries, budget)
    });
    functions.value("unset", &[Any, Text], None, |arguments, budget| {
        filtered(take(arguments, 0)?, budget, |name| name != bytes(arguments, 1))
    });
    functions.value("hasKey", &[Any, Text], None, |arguments, _| {
        Ok(Value::Bool(take(arguments, 0)?.get(bytes(arguments, 1)).is_some()))
    });
    functions.value("keys", &[], Some(Any), |arguments, budget| {
        let entries = all(arguments, budget)?;
        Ok(Value::texts(entries.into_iter().map(|(name, _)| Value::Text(name)).collect()))
    });
    functions.value("values", &[], Some(Any), |arguments, budget| {
        Ok(Value::list(all(arguments, budget)?.into_iter().map(|(_, value)| value).collect()))
    });
    functions.value("pick", &[Any], Some(Text), |arguments, budget| {
        filtered(take(arguments, 0)?, budget, |name| named(arguments, name))
    });
    functions.value("omit", &[Any], Some(Text), |arguments, budget| {
        filtered(take(arguments, 0)?, budget, |name| !named(arguments, name))
    });
    functions.value("pluck", &[Text], Some(Any), |arguments, _| {
        let mut found = Vec::new();
        for index in 1..arguments.len() {
            found.extend(take(arguments, index)?.get(bytes(arguments, 0)));
        }
        Ok(Value::list(found))
    });
    functions.value("dig", &[Any, Any], Some(Any), dig);
    functions.value("merge", &[Any], Some(Any), |arguments, budget| {
        let mut result = take(arguments, 0)?;
        for index in 1..arguments.len() {
            result = merge(&result, &take(arguments, index)?, false, budget)?;
        }
        Ok(Value::Map(result))
    });
    functions.value("mergeOverwrite", &[Any], Some(Any), |arguments, budget| {
        let mut result = take(arguments, 0)?;
        for index in 1..arguments.len() {
            result = merge(&result, &take(arguments, index)?, true, budget)?;
        }
        Ok(Value::Map(result))
    });
}

/// A dict argument.
fn take<'a>(arguments: &[Value<'a>], index: usize) -> Result<Map<'a>, FunctionError> {
    match any(arguments, index) {
        Value::Map(map) => Ok(map),
        other => Err(format!(
            "wrong type for value; expected map[string]interface {{}}; got {}",
            other.type_name()
        )
        .into()),
    }
}

fn charge(count: usize, budget: &mut Budget) -> Result<(), FunctionError> {
    budget.charge(count.saturating_add(1).saturating_mul(size_of::<(Text<'_>, Value<'_>)>()))
}

fn made<'a>(entries: Entries<'a>, budget: &mut Budget) -> Result<Value<'a>, FunctionError> {
    charge(entries.len(), budget)?;
    Ok(Value::map(entries))
}

fn filtered<'a>(
    map: Map<'a>,
    budget: &mut Budget,
    keep: impl Fn(&[u8]) -> bool,
) -> Result<Value<'a>, FunctionError> {
    let mut entries = map.entries();
    entries.retain(|(name, _)| keep(name));
    made(entries, budget)
}

fn named(arguments: &[Value<'_>], name: &[u8]) -> bool {
    arguments.iter().skip(1).any(|argument| argument.as_bytes() == Some(name))
}

/// The entries of all dicts.
fn all<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Result<Entries<'a>, FunctionError> {
    let mut entries = Vec::new();
    for index in 0..arguments.len() {
        let map = take(arguments, index)?;
        charge(map.len(), budget)?;
        entries.extend(map.entries());
    }
    Ok(entries)
}

/// A value deep in dicts: keys, then what stands for a missing one, then the dict.
fn dig<'a>(arguments: &[Value<'a>], _: &mut Budget) -> Result<Value<'a>, FunctionError> {
    let [names @ .., fallback, dict] = arguments else {
        return Err("dig needs at least three arguments".into());
    };
    let mut value = dict.clone();
    for name in names {
        let Some(name) = name.as_bytes() else {
            return Err(format!("dig keys are text, got {}", name.type_name()).into());
        };
        match &value {
            Value::Map(map) => match map.get(name) {
                Some(found) => value = found,
                None => return Ok(fallback.clone()),
            },
            other => return Err(format!("dig into type {}", other.type_name()).into()),
        }
    }
    Ok(value)
}

/// The entries of both; where both have a key, dicts merge and otherwise the first one counts unless it is empty.
fn merge<'a>(
    first: &Map<'a>,
    second: &Map<'a>,
    overwrite: bool,
    budget: &mut Budget,
) -> Result<Map<'a>, FunctionError> {
    charge(first.len() + second.len(), budget)?;
    let mut entries = first.entries();
    for (name, new) in second.entries() {
        let value = match (first.get(&name), new) {
            // Dicts are no deeper than the nesting limit.
            (Some(Value::Map(old)), Value::Map(new)) => {
                Value::Map(merge(&old, &new, overwrite, budget)?)
            }
            (Some(old), new) if old.is_true() && !(overwrite && new.is_true()) => old,
            (_, new) => new,
        };
        entries.push((name, value));
    }
    Ok(Map::of_any(entries))
}
