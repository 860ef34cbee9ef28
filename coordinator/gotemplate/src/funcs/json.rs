//! `quote`, `toJson`, `fromJson`.

use super::{Functions, Param, any, bytes};
use crate::error::FunctionError;
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::quote;
use crate::value::{Numbers, Text, Value, json_read, json_write};

pub(super) fn register(functions: &mut Functions) {
    functions.text("quote", &[], Some(Param::Any), quoted);
    functions.text("toJson", &[Param::Any], None, |out, arguments, budget| {
        json(out, arguments, None, budget)
    });
    functions.value("fromJson", &[Param::Text], None, read);
}

pub(super) fn register_lenient(functions: &mut Functions) {
    functions.value("fromJson", &[Param::Text], None, |arguments, budget| {
        match read(arguments, budget) {
            Err(FunctionError::Call(_)) => Ok(Value::Nil),
            other => other,
        }
    });
}

/// Each argument in quotes, with blanks between them; what is not there is left out.
fn quoted(
    out: &mut Output,
    arguments: &[Value<'_>],
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    let mut first = true;
    for value in arguments.iter().filter(|value| !value.is_nil()) {
        if !first {
            out.push_byte(b' ');
        }
        first = false;
        match value {
            Value::Text(text) => quote::quote(out, text, false),
            // Digits need no escapes.
            Value::Int(number) => {
                out.push_byte(b'"');
                print::integer::decimal(out, *number);
                out.push_byte(b'"');
            }
            value => {
                let text = print::aside(value, budget.limits.output);
                quote::quote(out, text.as_bytes(), false);
                out.set_over(text.is_over());
            }
        }
    }
    Ok(())
}

/// JSON with an element per line.
pub(super) fn pretty(
    out: &mut Output,
    arguments: &[Value<'_>],
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    json(out, arguments, Some("  "), budget)
}

fn json(
    out: &mut Output,
    arguments: &[Value<'_>],
    indent: Option<&'static str>,
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    let layout = json_write::Layout { indent };
    json_write::write(out, &any(arguments, 0), layout, budget.limits.nesting)
}

fn read<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Result<Value<'a>, FunctionError> {
    let text = bytes(arguments, 0);
    budget.charge(text.len().saturating_mul(16))?;
    match arguments.first() {
        // The text is the caller's own and stays: nothing of it need be copied.
        Some(Value::Text(Text::Borrowed(text))) => {
            json_read::read_borrowed(text, Numbers::Floats, budget.limits.nesting)
        }
        _ => json_read::read(text, Numbers::Floats, budget.limits.nesting),
    }
}
