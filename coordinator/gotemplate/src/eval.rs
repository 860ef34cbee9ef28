//! Runs a program.
//!
//! One loop, explicit stacks: values, variables, dots, loops and called templates all lie on the heap and are
//! bounded. An error leaves what was written so far in the output.

mod call;
mod field;
mod range;

use crate::code::{Constant, Op, Program, SAME, Slot, Source};
use crate::error::{Class, Error, locate};
use crate::limits::{Budget, Limits};
use crate::output::Output;
use crate::print;
use crate::tree::NodeId;
use crate::value::{Text, Value};
use range::Loop;

/// What a field of a map that is not there means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// Nothing: it prints `<no value>`.
    #[default]
    Default,
    /// The zero of the map's type, which for a map to anything is null.
    Zero,
    /// An error.
    Error,
}

/// What a run needs to know.
pub(crate) struct Setting<'a> {
    pub(crate) program: &'a Program,
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) limits: &'a Limits,
    pub(crate) missing_key: MissingKey,
}

/// Runs the main body, or the one at the index, on the data.
pub(crate) fn run<'a>(
    setting: &Setting<'a>,
    body: usize,
    data: Value<'a>,
    out: Output,
) -> (Output, Result<(), Error>) {
    // Data that is not there is missing, whoever says so.
    let data = if data.is_nil() { Value::Missing } else { data };
    let mut machine = Machine {
        setting,
        out,
        stack: Vec::new(),
        variables: Vec::new(),
        base: 0,
        dots: Vec::new(),
        loops: Vec::new(),
        frames: Vec::new(),
        body,
        at: SAME,
        held: false,
        steps: setting.limits.steps,
        budget: Budget::new(setting.limits),
    };
    machine.enter(body, Held { value: data, held: false });
    let result = machine.run().map_err(|stop| machine.error(stop));
    (machine.out, result)
}

/// A value, and whether a list or map of anything holds it. Go forgets that only at the end of a command.
#[derive(Clone)]
struct Held<'a> {
    value: Value<'a>,
    held: bool,
}

/// A called template that waits for another.
struct Frame {
    body: usize,
    next: usize,
    base: usize,
}

/// Why a run stops.
enum Stop {
    Exec(String),
    Limit(String),
}

struct Machine<'a, 's> {
    setting: &'s Setting<'a>,
    out: Output,
    stack: Vec<Value<'a>>,
    variables: Vec<Held<'a>>,
    /// Where the variables of the running body start.
    base: usize,
    dots: Vec<Held<'a>>,
    loops: Vec<Loop<'a>>,
    frames: Vec<Frame>,
    body: usize,
    /// The node that an error names.
    at: NodeId,
    /// Whether the value that was loaded last is held by a list or map of anything.
    held: bool,
    steps: u64,
    budget: Budget,
}

// === impl Setting ===

impl Setting<'_> {
    fn output_limit(&self) -> String {
        format!("exceeded the output limit of {} bytes", self.limits.output)
    }
}

// === impl Stop ===

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Exec(message)
    }
}

// === impl Machine ===

impl<'a> Machine<'a, '_> {
    /// Makes room for the variables of a body and sets its dot.
    fn enter(&mut self, body: usize, dot: Held<'a>) {
        let slots = self.setting.program.bodies.get(body).map_or(1, |body| body.slots);
        self.body = body;
        self.base = self.variables.len();
        self.variables.push(dot.clone());
        let empty = Held { value: Value::Missing, held: false };
        self.variables.resize(self.base + slots, empty);
        self.dots.push(dot);
    }

    fn run(&mut self) -> Result<(), Stop> {
        let program = self.setting.program;
        let mut ops = self.ops();
        let mut next = 0;
        while let Some(op) = ops.get(next) {
            next += 1;
            self.steps = match self.steps.checked_sub(1) {
                Some(steps) => steps,
                None => {
                    return Err(Stop::Limit(format!(
                        "exceeded {} steps",
                        self.setting.limits.steps
                    )));
                }
            };
            match *op {
                Op::Decide { or, piped, last, end } => {
                    if self.decides(or, piped, last) {
                        next = end as usize;
                    }
                }
                Op::Jump { to } => next = to as usize,
                Op::Unless { to } => {
                    if !self.pop().is_true() {
                        next = to as usize;
                    }
                }
                Op::With { to } => {
                    let value = self.pop();
                    if value.is_true() {
                        self.dots.push(Held { value, held: false });
                    } else {
                        next = to as usize;
                    }
                }
                Op::Range { first, second, empty } => {
                    if !self.start_loop(first, second)? {
                        next = empty as usize;
                    }
                }
                Op::Next { body } => {
                    if self.advance() {
                        next = body as usize;
                    }
                }
                Op::Break { to } => {
                    self.end_loop();
                    next = to as usize;
                }
                Op::Template { call } => {
                    let Some(body) = program.calls.get(call as usize).and_then(|call| call.body)
                    else {
                        continue;
                    };
                    self.frames.push(Frame { body: self.body, next, base: self.base });
                    let value = self.pop();
                    self.enter(body, Held { value, held: false });
                    ops = self.ops();
                    next = 0;
                }
                Op::Return => {
                    self.variables.truncate(self.base);
                    self.dots.pop();
                    let Some(frame) = self.frames.pop() else { return Ok(()) };
                    (self.body, self.base, next) = (frame.body, frame.base, frame.next);
                    ops = self.ops();
                }
                op => self.step(op)?,
            }
        }
        Ok(())
    }

    /// Whether `and` or `or` is decided by its argument, which is then the result.
    fn decides(&mut self, or: bool, piped: bool, last: bool) -> bool {
        let decided = self.stack.last().is_some_and(Value::is_true) == or;
        if decided {
            let value = self.pop();
            if piped {
                self.pop();
            }
            self.stack.push(value);
        } else if piped || !last {
            self.pop();
        }
        decided
    }

    /// Does what the next operation always follows.
    #[inline]
    fn step(&mut self, op: Op) -> Result<(), Stop> {
        let program = self.setting.program;
        match op {
            Op::Text { start, end } => {
                let text = self.setting.source.as_bytes().get(start as usize..end as usize);
                self.out.push(text.unwrap_or_default());
                self.check_output()?;
            }
            Op::Load { at, from, names } => self.load(at, from, names)?,
            Op::Write { at, function, count } => self.write(at, function, count)?,
            Op::Print => {
                let value = self.pop();
                print::action(&mut self.out, &value);
                self.check_output()?;
            }
            Op::Constant { at, index } => {
                self.at = at;
                self.held = false;
                let constant = program.constants.get(index as usize);
                self.stack.push(constant.map_or(Value::Missing, Constant::value));
            }
            Op::Nil { at } => {
                self.mark(at);
                self.stack.push(Value::Missing);
            }
            Op::Unbox => {
                self.held = false;
                if let Some(top @ Value::Nil) = self.stack.last_mut() {
                    *top = Value::Missing;
                }
            }
            Op::Store { slot } => {
                let value = self.stack.last().cloned().unwrap_or(Value::Missing);
                self.store(slot, value, false);
            }
            Op::Check { at, param } => {
                self.mark(at);
                if let Some(value) = self.stack.last()
                    && !param.takes(value)
                {
                    return Err(call::mismatch(param, value));
                }
            }
            Op::Unheld => {
                if let Some(top) = self.stack.last_mut()
                    && self.held
                {
                    *top = call::hidden();
                }
            }
            Op::Rotate { count } => {
                let start = self.stack.len().saturating_sub(count as usize);
                let arguments = self.stack.get_mut(start..);
                if let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) {
                    arguments.rotate_left(1);
                }
            }
            Op::Call { at, after, function, count } => {
                self.call(at, function, count)?;
                self.mark(after);
            }
            Op::Mark { at } => self.mark(at),
            Op::Drop => drop(self.pop()),
            Op::Leave => drop(self.dots.pop()),
            Op::Enter { at, call } => self.check_call(at, call)?,
            Op::Fail { at, message } => {
                self.mark(at);
                let message = program.messages.get(message as usize);
                return Err(Stop::Exec(message.cloned().unwrap_or_default()));
            }
            // The run follows these itself.
            Op::Decide { .. }
            | Op::Jump { .. }
            | Op::Unless { .. }
            | Op::With { .. }
            | Op::Range { .. }
            | Op::Next { .. }
            | Op::Break { .. }
            | Op::Template { .. }
            | Op::Return => {}
        }
        Ok(())
    }

    fn ops(&self) -> &'a [Op] {
        self.setting.program.bodies.get(self.body).map_or(&[], |body| &body.ops)
    }

    fn mark(&mut self, at: NodeId) {
        if at != SAME {
            self.at = at;
        }
    }

    fn pop(&mut self) -> Value<'a> {
        self.stack.pop().unwrap_or(Value::Missing)
    }

    fn store(&mut self, slot: Slot, value: Value<'a>, held: bool) {
        if let Some(variable) = self.variables.get_mut(self.base + slot as usize) {
            *variable = Held { value, held };
        }
    }

    fn check_output(&self) -> Result<(), Stop> {
        if self.out.is_over() {
            return Err(Stop::Limit(self.setting.output_limit()));
        }
        Ok(())
    }

    fn check_call(&mut self, at: NodeId, call: u32) -> Result<(), Stop> {
        self.mark(at);
        let call = self.setting.program.calls.get(call as usize);
        if call.is_none_or(|call| call.body.is_none()) {
            let name = call.map_or("", |call| &call.name);
            return Err(Stop::Exec(format!("template {} not defined", crate::quote::quoted(name))));
        }
        let depth = self.setting.limits.depth;
        if self.frames.len() >= depth {
            return Err(Stop::Limit(format!("exceeded maximum template depth ({depth})")));
        }
        Ok(())
    }

    fn error(&self, stop: Stop) -> Error {
        let (class, message) = match stop {
            Stop::Exec(message) => (Class::Exec, message),
            Stop::Limit(message) => (Class::Limit, message),
        };
        let program = self.setting.program;
        let position = program.tree.get(self.at).map_or(0, |node| node.position);
        let (line, column) = locate(self.setting.source, position);
        Error {
            class,
            template: self.setting.name.to_owned(),
            line,
            column,
            executing: program
                .bodies
                .get(self.body)
                .map(|body| body.name.clone())
                .unwrap_or_default(),
            expression: program.tree.show(self.at),
            message,
        }
    }
}

// === impl Constant ===

impl Constant {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Complex(real, imaginary) => Value::Complex(*real, *imaginary),
            Self::Text(bytes) => Value::Text(Text::Borrowed(bytes)),
        }
    }
}

#[cfg(test)]
mod tests;
