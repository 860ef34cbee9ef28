//! What Go's engine has from the start, apart from comparison and escaping.

use super::{Functions, Param, Work, any, bytes};
use crate::error::FunctionError;
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::print::verbs::printf;
use crate::value::{Text, Value};

pub(super) fn register(functions: &mut Functions) {
    let any = Param::Any;
    functions.put("and", &[any], Some(any), Work::Logic { or: false });
    functions.put("or", &[any], Some(any), Work::Logic { or: true });
    functions.put("call", &[any], Some(any), Work::Invoke);
    functions.put("slice", &[any], Some(any), Work::Slice(slice));
    functions.value("not", &[any], None, |arguments, _| {
        Ok(Value::Bool(!super::any(arguments, 0).is_true()))
    });
    functions.value("len", &[any], None, len);
    functions.value("index", &[any], Some(any), index);
    functions.text("print", &[], Some(any), |out, arguments, _| {
        print::join(out, arguments);
        Ok(())
    });
    functions.text("println", &[], Some(any), |out, arguments, _| {
        print::line(out, arguments);
        Ok(())
    });
    functions.text("printf", &[Param::Text], Some(any), format);
}

fn format(out: &mut Output, arguments: &[Value<'_>], _: &mut Budget) -> Result<(), FunctionError> {
    printf(out, bytes(arguments, 0), arguments.get(1..).unwrap_or_default());
    Ok(())
}

fn len<'a>(arguments: &[Value<'a>], _: &mut Budget) -> Result<Value<'a>, FunctionError> {
    let length = match any(arguments, 0) {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Nil => return Err("len of nil pointer".into()),
        Value::Missing => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn index<'a>(arguments: &[Value<'a>], _: &mut Budget) -> Result<Value<'a>, FunctionError> {
    let mut item = any(arguments, 0);
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for key in arguments.get(1..).unwrap_or_default() {
        item = match &item {
            Value::List(list) => {
                let at = position(key, list.len())?;
                list.get(at).ok_or("reflect: slice index out of range")?
            }
            Value::Text(text) => {
                let at = position(key, text.len())?;
                Value::Byte(*text.get(at).ok_or("reflect: string index out of range")?)
            }
            Value::Map(map) => match key {
                Value::Text(key) => map.get(key).unwrap_or_else(|| map.zero()),
                key if key.is_nil() => return Err("value is nil; should be of type string".into()),
                key => {
                    return Err(
                        format!("value has type {}; should be string", key.type_name()).into()
                    );
                }
            },
            Value::Nil | Value::Missing => return Err("index of nil pointer".into()),
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}

/// An index up to and including the length.
fn position(key: &Value<'_>, length: usize) -> Result<usize, FunctionError> {
    let number = match key {
        Value::Int(number) => *number,
        Value::Uint(number) => number.cast_signed(),
        Value::Byte(number) => (*number).into(),
        key if key.is_nil() => return Err("cannot index slice/array with nil".into()),
        key => return Err(format!("cannot index slice/array with type {}", key.type_name()).into()),
    };
    match usize::try_from(number) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(format!("index out of range: {number}").into()),
    }
}

/// A part of a list or text. A list is bounded by its length, because it has no capacity here.
fn slice<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Result<Value<'a>, FunctionError> {
    let item = any(arguments, 0);
    let keys = arguments.get(1..).unwrap_or_default();
    if item.is_nil() {
        return Err("slice of untyped nil".into());
    }
    if keys.len() > 3 {
        return Err(format!("too many slice indexes: {}", keys.len()).into());
    }
    let length = match &item {
        Value::Text(_) if keys.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name()).into()),
    };
    let mut bounds = [0, length, length];
    for (bound, key) in bounds.iter_mut().zip(keys) {
        *bound = position(key, length)?;
    }
    let [from, to, capacity] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}").into());
    }
    if keys.len() == 3 && to > capacity {
        return Err(format!("invalid slice index: {to} > {capacity}").into());
    }
    match item {
        Value::List(list) => {
            budget.charge((to - from) * size_of::<Value<'_>>())?;
            Ok(Value::List(list.part(from, to)))
        }
        Value::Text(Text::Borrowed(text)) => {
            Ok(Value::Text(Text::Borrowed(text.get(from..to).unwrap_or_default())))
        }
        Value::Text(text) => {
            budget.charge(to - from)?;
            Ok(Value::text(text.get(from..to).unwrap_or_default()))
        }
        _ => Ok(Value::Missing),
    }
}
