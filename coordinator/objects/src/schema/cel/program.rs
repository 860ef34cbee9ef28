//! CEL expressions: compiled once, run within a budget, with the error texts of cel-go.
//!
//! The interpreter has no budget of its own. Expressions are therefore rewritten after parsing: every
//! turn of a loop pays, and functions whose result can outgrow their input check it. A run can neither
//! hang, nor fill the memory, nor take the process down.

use super::rewrite;
use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, ExecutionError, Value};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

/// What one run may spend.
pub const PER_CALL: i64 = 1_000_000;
/// What all rules of one object may spend.
pub const PER_OBJECT: i64 = 10_000_000;
/// The longest expression, in bytes.
pub const MAX_SOURCE: usize = 64 * 1024;
/// The longest string and list that an expression may build.
const MAX_SIZE: usize = 1024 * 1024;
/// How deep brackets may nest, and how many operators may follow each other. With the stack below it
/// keeps the parser from overflowing.
const MAX_BRACKETS: usize = 48;
const MAX_CHAIN: usize = 1000;
const LARGE_STACK: usize = 64 << 20;
/// How deep an expression may nest after parsing, as in cel-go.
const MAX_TREE: usize = 250;
/// Expressions that nest deeper than this run on a large stack, as the interpreter recurses.
const DEEP: usize = 24;

const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    expression: Expression,
    variables: Vec<String>,
    self_chains: Vec<Vec<String>>,
    deep: bool,
}

/// The functions that expressions may call.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function(rewrite::TICK, tick);
    context.add_function(rewrite::SIZED, sized);
    context.add_function(rewrite::FORMAT, format_string);
    context.add_function(rewrite::JOINABLE, joinable);
    for name in TYPES {
        context.add_variable_from_value(name, type_value(name));
    }
    context.add_function("type", type_of);
    context.add_function("dyn", |value: Value| -> Result<Value, ExecutionError> { Ok(value) });
    context.add_function("size", size);
    context.add_function("replace", replace);
    context.add_function("lists.range", range);
    context
});

thread_local! {
    /// What the current run may still spend, and how large its variables are.
    static METER: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

// === impl Program ===

impl Program {
    /// Compiles an expression; the error reads as cel-go's.
    pub fn compile(source: &str) -> Result<Program, String> {
        let whole = |why: &str| format!("ERROR: <input>:1:1: {why}");
        if source.len() > MAX_SOURCE {
            return Err(whole(&format!(
                "Syntax error: expression code point size exceeds limit: size: {}, limit {MAX_SOURCE}",
                source.len()
            )));
        }
        if deepest_bracket(source) > MAX_BRACKETS || longest_chain(source) > MAX_CHAIN {
            return Err(whole("expression recursion limit exceeded: 250"));
        }
        // The parser recurses far deeper than the expression nests, so it gets a stack of its own.
        std::thread::scope(|threads| {
            std::thread::Builder::new()
                .stack_size(LARGE_STACK)
                .spawn_scoped(threads, || Program::parse(source))
                .map_err(|why| whole(&format!("the parser cannot start: {why}")))?
                .join()
                .unwrap_or_else(|_| Err(whole("Syntax error: the expression cannot be read")))
        })
    }

    fn parse(source: &str) -> Result<Program, String> {
        let whole = |why: &str| format!("ERROR: <input>:1:1: {why}");
        let parsed = Parser::new().enable_optional_syntax(true).parse(source);
        let expression = parsed.map_err(|errors| {
            let texts: Vec<String> =
                errors.errors.iter().map(|e| syntax_error(source, e.pos, &e.msg)).collect();
            texts.join("\n")
        })?;
        if rewrite::depth(&expression) > MAX_TREE {
            return Err(whole("expression recursion limit exceeded: 250"));
        }
        let variables = rewrite::variables(&expression);
        let self_chains = rewrite::chains(&expression, "self");
        let expression = rewrite::guard(expression).map_err(|why| whole(&why))?;
        let deep = rewrite::depth(&expression) > DEEP;
        Ok(Program { expression, variables, self_chains, deep })
    }

    /// Whether the expression reads the variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|v| v == variable)
    }

    /// The chains of fields that the expression reads from `self`.
    pub fn self_chains(&self) -> &[Vec<String>] {
        &self.self_chains
    }

    /// The variables that the expression reads.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Runs within the budget and takes what was spent from it. `size` is how large the variables are.
    pub fn run(&self, scope: &Context<'_>, size: usize, budget: &mut i64) -> Result<Value, String> {
        let limit = PER_CALL.min(*budget);
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let (result, left) = if self.deep {
            std::thread::scope(|threads| {
                std::thread::Builder::new()
                    .stack_size(LARGE_STACK)
                    .spawn_scoped(threads, || self.resolve(scope, limit, size))
                    .ok()
                    .and_then(|thread| thread.join().ok())
                    .unwrap_or_else(|| (Err("internal error".to_owned()), limit))
            })
        } else {
            self.resolve(scope, limit, size)
        };
        *budget -= (limit - left.max(0)).max(1);
        result
    }

    /// Runs on the current stack; the second result is what is left of the limit.
    fn resolve(&self, scope: &Context<'_>, limit: i64, size: i64) -> (Result<Value, String>, i64) {
        METER.set((limit, size));
        let result = catch_unwind(AssertUnwindSafe(|| Value::resolve(&self.expression, scope)));
        let (left, _) = METER.get();
        let result = match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if left >= 0 => Err(go_error(&error)),
            Ok(Err(_)) => Err(OUT_OF_BUDGET.to_owned()),
            Err(_) => Err("internal error".to_owned()),
        };
        (result, left)
    }
}

/// A scope for variables.
pub fn scope() -> Context<'static> {
    FUNCTIONS.new_inner_scope()
}

/// Whether a run failed because it spent all it had.
pub fn out_of_budget(error: &str) -> bool {
    error.starts_with(OUT_OF_BUDGET)
}

/// An optional value, as `oldSelf` is under `optionalOldSelf`.
pub fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// The position and the line, as cel-go shows them.
fn syntax_error(source: &str, (line, column): (isize, isize), message: &str) -> String {
    let text = usize::try_from(line - 1).ok().and_then(|l| source.lines().nth(l)).unwrap_or("");
    let dots = ".".repeat(usize::try_from(column - 1).unwrap_or(0));
    let message = if message.starts_with("Syntax error")
        || !message.contains("input") && !message.contains("token")
    {
        message.to_owned()
    } else {
        format!("Syntax error: {message}")
    };
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
}

/// Depth of brackets outside of strings.
fn deepest_bracket(source: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for c in source.chars() {
        match quote {
            Some(q) => {
                if !escaped && c == q {
                    quote = None;
                }
                escaped = !escaped && c == '\\';
            }
            None => match c {
                '"' | '\'' => quote = Some(c),
                '(' | '[' | '{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                // unary chains and conditionals recurse in the parser like brackets
                '?' => deepest = deepest.max(depth + 1),
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
    }
    let unary = source.split(|c| c != '!' && c != '-').map(str::len).max().unwrap_or(0);
    let ternary = source.matches('?').count() / 2;
    deepest.max(unary).max(ternary)
}

/// The most operators that follow each other without one that starts afresh.
fn longest_chain(source: &str) -> usize {
    source
        .split(['&', '|', ',', ':'])
        .map(|part| part.bytes().filter(|b| b"+-*/%<>=.[(".contains(b)).count())
        .max()
        .unwrap_or(0)
}

/// The text that cel-go has for an error of a run.
fn go_error(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(i)) => format!("index out of bounds: {i}"),
        ExecutionError::IndexOutOfBounds(Value::UInt(i)) => format!("index out of bounds: {i}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}

/// One turn of a loop: `reads` variables are copied, `calls` costly functions are called.
fn tick(reads: i64, calls: i64) -> Result<bool, ExecutionError> {
    let (left, size) = METER.get();
    let price = 5i64
        .saturating_add(reads.saturating_mul(size) / 16)
        .saturating_add(calls.saturating_mul(100));
    let left = left.saturating_sub(price);
    METER.set((left, size));
    if left < 0 {
        return Err(ExecutionError::function_error("", OUT_OF_BUDGET));
    }
    Ok(true)
}

fn too_large() -> ExecutionError {
    let (_, size) = METER.get();
    METER.set((-1, size));
    ExecutionError::function_error("", OUT_OF_BUDGET)
}

/// Passes a value on, unless it has become too large.
fn sized(value: Value) -> Result<Value, ExecutionError> {
    let size = match &value {
        Value::String(text) => text.len(),
        Value::List(items) => items.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if size > MAX_SIZE { Err(too_large()) } else { Ok(value) }
}

/// Passes a format string on, unless it asks for an absurd precision.
fn format_string(text: Arc<String>) -> Result<Value, ExecutionError> {
    let absurd = text.split("%.").skip(1).any(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 3
    });
    if absurd { Err(too_large()) } else { Ok(Value::String(text)) }
}

/// Passes a list on, unless joining it makes too long a string.
fn joinable(list: Value, separator: Arc<String>) -> Result<Value, ExecutionError> {
    if let Value::List(items) = &list {
        let texts: usize =
            items.iter().map(|i| if let Value::String(s) = i { s.len() } else { 0 }).sum();
        if texts.saturating_add(items.len().saturating_mul(separator.len())) > MAX_SIZE {
            return Err(too_large());
        }
    }
    Ok(list)
}

fn replace(
    This(text): This<Arc<String>>,
    old: Arc<String>,
    new: Arc<String>,
    kube_cel::cel::extractors::Arguments(all): kube_cel::cel::extractors::Arguments,
) -> Result<Value, ExecutionError> {
    let limit = match all.get(2) {
        None => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return Err(ExecutionError::NoSuchOverload),
    };
    let places = text.matches(old.as_str()).count().min(limit);
    if text.len().saturating_add(places.saturating_mul(new.len())) > MAX_SIZE {
        return Err(too_large());
    }
    Ok(Value::String(Arc::new(text.replacen(old.as_str(), &new, limit))))
}

fn range(count: i64) -> Result<Value, ExecutionError> {
    match usize::try_from(count) {
        Ok(size) if size <= MAX_SIZE / 16 => {
            Ok(Value::List(Arc::new((0..count).map(Value::Int).collect())))
        }
        _ => Err(too_large()),
    }
}

/// Strings are as long as they have characters.
fn size(This(value): This<Value>) -> Result<i64, ExecutionError> {
    let size = match &value {
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(size).unwrap_or(i64::MAX))
}

/// Names of types, which are values too.
pub const TYPES: [&str; 12] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "timestamp",
    "duration",
];

fn type_value(name: &str) -> Value {
    Value::String(Arc::new(format!("type {name}")))
}

fn type_of(value: Value) -> Result<Value, ExecutionError> {
    Ok(type_value(match value {
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::Timestamp(_) => "timestamp",
        Value::Duration(_) => "duration",
        Value::Function(..) | Value::Opaque(_) => "type",
    }))
}

/// A string as a key of a map.
pub fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}
