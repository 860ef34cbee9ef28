//! The functions that a template can call, and a registry for more.
//!
//! A function says what its parameters are; the machine checks the count and the types before it runs. A text
//! function writes its result, straight into the output where it can.

mod builtin;
mod choice;
mod compare;
mod dict;
mod escape;
mod json;
mod list;
mod math;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::FunctionError;
use crate::limits::Budget;
use crate::output::Output;
use crate::value::Value;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// Anything, nothing included.
    Any,
    /// Text.
    Text,
    /// An integer.
    Int,
    /// A float.
    Float,
    /// A truth value.
    Bool,
}

/// Writes a result.
pub(crate) type TextWork = fn(&mut Output, &[Value<'_>], &mut Budget) -> Result<(), FunctionError>;
/// Makes a result.
pub(crate) type ValueWork =
    for<'a> fn(&[Value<'a>], &mut Budget) -> Result<Value<'a>, FunctionError>;
/// A caller's own function.
pub(crate) type OwnWork = Arc<
    dyn for<'a> Fn(&[Value<'a>], &mut Budget) -> Result<Value<'a>, FunctionError> + Send + Sync,
>;

/// What a function does.
#[derive(Clone)]
pub(crate) enum Work {
    Text(TextWork),
    Value(ValueWork),
    /// `slice`, which does not look into what a list of anything holds.
    Slice(ValueWork),
    /// `and` and `or`: compiled, never called.
    Logic {
        or: bool,
    },
    /// `call`: templates have no function values, so it always fails.
    Invoke,
    Own(OwnWork),
}

/// One function.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) name: Arc<str>,
    pub(crate) params: Arc<[Param]>,
    /// What further arguments are, if any are taken.
    pub(crate) rest: Option<Param>,
    pub(crate) work: Work,
}

/// Functions by name.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    functions: BTreeMap<Arc<str>, Function>,
}

// === impl Param ===

impl Param {
    /// The name of the type, as Go prints it.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Text => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Bool => "bool",
        }
    }

    /// Whether the value can be given to it.
    pub(crate) fn takes(self, value: &Value<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Text => matches!(value, Value::Text(_)),
            Self::Int => matches!(value, Value::Int(_)),
            Self::Float => matches!(value, Value::Float(_)),
            Self::Bool => matches!(value, Value::Bool(_)),
        }
    }
}

// === impl Function ===

impl Function {
    /// What the parameter at the position takes.
    pub(crate) fn param(&self, position: usize) -> Param {
        self.params.get(position).copied().or(self.rest).unwrap_or(Param::Any)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?}, {:?})", self.name, self.params, self.rest)
    }
}

// === impl Functions ===

impl Functions {
    /// What Go's own engine has, and nothing else.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        builtin::register(&mut functions);
        compare::register(&mut functions);
        escape::register(&mut functions);
        functions
    }

    /// Go's own functions, `quote`, `toJson` and `fromJson`: what the seed's templates are written with.
    pub fn core() -> Self {
        let mut functions = Self::builtin();
        json::register(&mut functions);
        functions
    }

    /// Those and the usual ones for text, lists, dicts and numbers.
    pub fn standard() -> Self {
        let mut functions = Self::core();
        functions.text("toPrettyJson", &[Param::Any], None, json::pretty);
        text::register(&mut functions);
        choice::register(&mut functions);
        list::register(&mut functions);
        dict::register(&mut functions);
        math::register(&mut functions);
        functions
    }

    /// With a `fromJson` that reads what is no JSON as nothing, and not as an error.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        json::register_lenient(&mut self);
        self
    }

    /// Adds a caller's function, or replaces one. `rest` is what further arguments are, if any are taken.
    pub fn add<F>(&mut self, name: &str, params: &[Param], rest: Option<Param>, work: F)
    where
        F: for<'a> Fn(&[Value<'a>], &mut Budget) -> Result<Value<'a>, FunctionError>
            + Send
            + Sync
            + 'static,
    {
        self.put(name, params, rest, Work::Own(Arc::new(work)));
    }

    /// Whether a function has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// All names, ordered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(|name| &**name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    fn put(&mut self, name: &str, params: &[Param], rest: Option<Param>, work: Work) {
        let name: Arc<str> = Arc::from(name);
        let function = Function { name: name.clone(), params: Arc::from(params), rest, work };
        self.functions.insert(name, function);
    }

    fn text(&mut self, name: &str, params: &[Param], rest: Option<Param>, work: TextWork) {
        self.put(name, params, rest, Work::Text(work));
    }

    fn value(&mut self, name: &str, params: &[Param], rest: Option<Param>, work: ValueWork) {
        self.put(name, params, rest, Work::Value(work));
    }
}

/// The bytes of a text argument; other types were refused before.
fn bytes<'v>(arguments: &'v [Value<'_>], index: usize) -> &'v [u8] {
    arguments.get(index).and_then(Value::as_bytes).unwrap_or_default()
}

/// An integer argument; other types were refused before.
fn int(arguments: &[Value<'_>], index: usize) -> i64 {
    arguments.get(index).and_then(Value::as_int).unwrap_or_default()
}

/// Any argument.
fn any<'a>(arguments: &[Value<'a>], index: usize) -> Value<'a> {
    arguments.get(index).cloned().unwrap_or(Value::Missing)
}

#[cfg(test)]
mod tests;
