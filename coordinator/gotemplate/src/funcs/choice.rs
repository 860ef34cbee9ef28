//! Which of several values counts, and what must be there.

use super::{Functions, Param, any, bytes};
use crate::error::FunctionError;
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    use Param::{Any, Bool, Text};
    functions.value("default", &[Any], Some(Any), |arguments, _| {
        let given = any(arguments, 1);
        Ok(if given.is_true() { given } else { any(arguments, 0) })
    });
    functions
        .value("empty", &[Any], None, |arguments, _| Ok(Value::Bool(!any(arguments, 0).is_true())));
    functions.value("coalesce", &[], Some(Any), |arguments, _| {
        Ok(arguments.iter().find(|value| value.is_true()).cloned().unwrap_or(Value::Nil))
    });
    functions.value("ternary", &[Any, Any, Bool], None, |arguments, _| {
        Ok(any(arguments, if any(arguments, 2).is_true() { 0 } else { 1 }))
    });
    functions.value("fail", &[Text], None, |arguments, _| {
        Err(FunctionError::call(String::from_utf8_lossy(bytes(arguments, 0))))
    });
    functions.value("required", &[Text, Any], None, |arguments, _| match any(arguments, 1) {
        value if value.is_nil() || value.as_bytes().is_some_and(<[u8]>::is_empty) => {
            Err(FunctionError::call(String::from_utf8_lossy(bytes(arguments, 0))))
        }
        value => Ok(value),
    });
}
