//! Calls of functions: their results, their errors, and arguments that do not fit.

use super::{Machine, Stop};
use crate::error::FunctionError;
use crate::funcs::{Param, Work};
use crate::limits::Budget;
use crate::output::Output;
use crate::print;
use crate::tree::NodeId;
use crate::value::{ANY, Struct, Text, Value};

/// What stands for a value that must not be looked into.
struct Hidden;

impl<'a> Machine<'a, '_> {
    /// The arguments of a call start here on the stack.
    fn arguments(&self, count: u32) -> usize {
        self.stack.len().saturating_sub(count as usize)
    }

    pub(super) fn write(&mut self, at: NodeId, function: u32, count: u32) -> Result<(), Stop> {
        let start = self.arguments(count);
        let arguments = self.stack.get(start..).unwrap_or_default();
        let Some(called) = self.setting.program.functions.get(function as usize) else {
            return Ok(());
        };
        if let Work::Text(work) = called.work
            && let Err(fault) = reading(arguments, &mut self.budget)
                .and_then(|()| work(&mut self.out, arguments, &mut self.budget))
        {
            return Err(self.fault(at, &called.name, fault));
        }
        self.stack.truncate(start);
        self.check_output()
    }

    pub(super) fn call(&mut self, at: NodeId, function: u32, count: u32) -> Result<(), Stop> {
        let start = self.arguments(count);
        let arguments = self.stack.get(start..).unwrap_or_default();
        let Some(called) = self.setting.program.functions.get(function as usize) else {
            return Ok(());
        };
        if let Err(fault) = reading(arguments, &mut self.budget) {
            return Err(self.fault(at, &called.name, fault));
        }
        let result = match &called.work {
            Work::Text(work) => {
                let mut text = Output::new(self.setting.limits.output);
                work(&mut text, arguments, &mut self.budget).and_then(|()| {
                    self.budget.charge(text.len())?;
                    if text.is_over() {
                        return Err(FunctionError::Limit(self.setting.output_limit()));
                    }
                    Ok(Value::Text(Text::from(text.into_bytes())))
                })
            }
            Work::Value(work) | Work::Slice(work) => work(arguments, &mut self.budget),
            Work::Own(work) => work(arguments, &mut self.budget),
            Work::Logic { .. } => Ok(Value::Missing),
            Work::Invoke => Err(self.not_callable(at, arguments)),
        };
        let result = result.and_then(|value| {
            if value.depth() as usize > self.setting.limits.nesting {
                return Err(FunctionError::Limit("lists and maps are nested too deep".to_owned()));
            }
            Ok(value)
        });
        match result {
            Ok(value) => {
                self.stack.truncate(start);
                self.stack.push(value);
                self.held = false;
                Ok(())
            }
            Err(fault) => Err(self.fault(at, &called.name, fault)),
        }
    }

    /// What `call` says, since no value is a function.
    fn not_callable(&self, at: NodeId, arguments: &[Value<'a>]) -> FunctionError {
        let tree = &self.setting.program.tree;
        let Some(value) = arguments.first().filter(|value| !value.is_nil()) else {
            return FunctionError::call("call of nil");
        };
        let named = match (tree.words(at).get(1), value) {
            (Some(word), _) => tree.show(*word),
            (None, Value::Text(_)) => print::shown(value),
            (None, value) => format!("<{} Value>", value.type_name()),
        };
        FunctionError::call(format!("non-function {named} of type {}", value.type_name()))
    }

    fn fault(&mut self, at: NodeId, name: &str, fault: FunctionError) -> Stop {
        self.mark(at);
        match fault {
            FunctionError::Call(message) => Stop::Exec(format!("error calling {name}: {message}")),
            FunctionError::Limit(message) => Stop::Limit(message),
        }
    }
}

/// Charges for long texts that are read once more, lest a loop reads one for hours.
#[inline]
fn reading(arguments: &[Value<'_>], budget: &mut Budget) -> Result<(), FunctionError> {
    let long = arguments
        .iter()
        .filter_map(Value::as_bytes)
        .map(<[u8]>::len)
        .filter(|length| *length > 1024);
    let total: usize = long.sum();
    if total > 0 { budget.charge(total / 64) } else { Ok(()) }
}

/// Says that an argument does not fit its parameter.
pub(super) fn mismatch(param: Param, value: &Value<'_>) -> Stop {
    let expected = param.type_name();
    Stop::Exec(match value {
        Value::Missing => format!("invalid value; expected {expected}"),
        Value::Nil => format!("wrong type for value; expected {expected}; got interface {{}}"),
        _ => format!("wrong type for value; expected {expected}; got {}", value.type_name()),
    })
}

/// A value that shows nothing of itself but that something holds it.
pub(super) fn hidden<'a>() -> Value<'a> {
    Value::Struct(&Hidden)
}

// === impl Hidden ===

impl Struct for Hidden {
    fn type_name(&self) -> &'static str {
        ANY
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn field(&self, _: usize) -> Value<'_> {
        Value::Missing
    }
}
