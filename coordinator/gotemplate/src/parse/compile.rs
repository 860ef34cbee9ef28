//! Expressions into instructions.
//!
//! Much is decided here once: which slot a variable has, how many arguments a function gets, what a literal is to
//! a parameter. What is wrong with these becomes an instruction that fails, because Go reports it only when the
//! expression is reached.

use super::Parser;
use crate::code::{Address, Constant, Names, Op, SAME, Slot, Source};
use crate::funcs::{Function, Param, Work};
use crate::number::{Ideal, Number};
use crate::tree::{NodeId, NodeKind};

impl Parser<'_> {
    /// Commands, and the slots of the variables that take the result. The result stays on the stack.
    pub(super) fn emit_pipe(&mut self, pipe: NodeId) -> Vec<Slot> {
        self.body().empty = false;
        let Some(parts) = self.program.tree.pipe(pipe) else { return Vec::new() };
        let (assign, variables, commands) =
            (parts.assign, parts.variables.clone(), parts.commands.clone());
        for (index, command) in commands.into_iter().enumerate() {
            self.emit_command(pipe, command, index > 0);
            self.emit_unbox();
        }
        let mut slots = Vec::new();
        for variable in variables {
            let found =
                if assign { self.slot(&variable) } else { Some(self.new_slot(variable.clone())) };
            match found {
                Some(slot) => {
                    self.emit(Op::Store { slot });
                    slots.push(slot);
                }
                None => self.emit_fail(SAME, format!("undefined variable: {variable}")),
            }
        }
        slots
    }

    fn slot(&mut self, name: &str) -> Option<Slot> {
        let index = self.body().live.iter().rposition(|live| live == name)?;
        Slot::try_from(index).ok()
    }

    fn new_slot(&mut self, name: String) -> Slot {
        let body = self.body();
        body.live.push(name);
        body.slots = body.slots.max(body.live.len());
        Slot::try_from(body.live.len() - 1).unwrap_or(Slot::MAX)
    }

    /// One command; the piped value, if any, is on the stack.
    fn emit_command(&mut self, pipe: NodeId, command: NodeId, piped: bool) {
        let words = self.program.tree.words(command).to_vec();
        let Some((&first, arguments)) = words.split_first() else { return };
        let called = piped || !arguments.is_empty();
        let identifier = matches!(self.program.tree.kind(first), Some(NodeKind::Identifier(_)));
        if identifier {
            return self.emit_function(first, command, arguments, piped);
        }
        if piped {
            // Only a function takes it.
            self.emit(Op::Drop);
        }
        match self.program.tree.kind(first) {
            Some(NodeKind::Field(_) | NodeKind::Chain { .. }) => self.emit_value(first, called),
            Some(NodeKind::Variable { name, fields }) => {
                let (name, plain) = (name.clone(), fields.is_empty());
                if plain && called && self.slot(&name).is_some() {
                    return self.emit_not_a_function(first, first);
                }
                self.emit_value(first, called);
            }
            Some(NodeKind::Pipe(_)) if called => {
                self.emit_not_a_function(if piped { SAME } else { pipe }, first)
            }
            _ if called => self.emit_not_a_function(first, first),
            Some(NodeKind::Nil) => self.emit_fail(first, "nil is not a command".to_owned()),
            Some(NodeKind::Pipe(_) | NodeKind::Dot) => self.emit_value(first, false),
            _ => self.emit_literal(first, Param::Any),
        }
    }

    fn emit_not_a_function(&mut self, at: NodeId, word: NodeId) {
        let message =
            format!("can't give argument to non-function {}", self.program.tree.show(word));
        self.emit_fail(at, message);
    }

    /// A word that is no literal.
    fn emit_value(&mut self, node: NodeId, called: bool) {
        match self.program.tree.kind(node) {
            Some(NodeKind::Dot) => {
                let names = self.names(Vec::new(), false);
                self.emit(Op::Load { at: node, from: Source::Dot, names });
            }
            Some(NodeKind::Field(fields)) => {
                let fields = fields.clone();
                let names = self.names(fields, called);
                self.emit(Op::Load { at: node, from: Source::Dot, names });
            }
            Some(NodeKind::Variable { name, fields }) => {
                let (name, fields) = (name.clone(), fields.clone());
                match self.slot(&name) {
                    Some(slot) => {
                        let names = self.names(fields, called);
                        self.emit(Op::Load { at: node, from: Source::Slot(slot), names });
                    }
                    None => self.emit_fail(node, format!("undefined variable: {name}")),
                }
            }
            Some(NodeKind::Chain { base, fields }) => {
                let (base, fields) = (*base, fields.clone());
                self.emit_value(base, false);
                let names = self.names(fields, called);
                self.emit(Op::Load { at: SAME, from: Source::Top, names });
            }
            Some(NodeKind::Identifier(_)) => self.emit_function(node, node, &[], false),
            Some(NodeKind::Pipe(_)) => {
                self.emit_pipe(node);
            }
            _ => {}
        }
    }

    /// A word as the argument of a parameter.
    fn emit_argument(&mut self, node: NodeId, param: Param) {
        match self.program.tree.kind(node) {
            Some(NodeKind::Nil) if param == Param::Any => self.emit(Op::Nil { at: node }),
            Some(NodeKind::Nil) => {
                self.emit_fail(node, format!("cannot assign nil to {}", param.type_name()))
            }
            Some(NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text { .. }) => {
                self.emit_literal(node, param)
            }
            _ => {
                self.emit_value(node, false);
                self.emit_check(SAME, param);
            }
        }
    }

    fn emit_check(&mut self, at: NodeId, param: Param) {
        if param != Param::Any {
            self.emit(Op::Check { at, param });
        }
    }

    fn emit_literal(&mut self, node: NodeId, param: Param) {
        let constant = match (self.program.tree.kind(node), param) {
            (Some(NodeKind::Bool(value)), Param::Any | Param::Bool) => Ok(Constant::Bool(*value)),
            (Some(NodeKind::Text { value, .. }), Param::Any | Param::Text) => {
                Ok(Constant::Text(value.clone()))
            }
            (Some(NodeKind::Number(number)), Param::Any) => ideal(number),
            (Some(NodeKind::Number(number)), Param::Int) => {
                number.int.map(Constant::Int).ok_or("integer".to_owned())
            }
            (Some(NodeKind::Number(number)), Param::Float) => {
                number.float.map(Constant::Float).ok_or("float".to_owned())
            }
            (_, Param::Int) => Err("integer".to_owned()),
            (_, param) => Err(param.type_name().replace("float64", "float")),
        };
        match constant {
            Ok(constant) => {
                let index = u32::try_from(self.program.constants.len()).unwrap_or(u32::MAX);
                self.program.constants.push(constant);
                self.emit(Op::Constant { at: node, index });
            }
            Err(message) if param == Param::Any => self.emit_fail(node, message),
            Err(expected) => {
                let message =
                    format!("expected {expected}; found {}", self.program.tree.show(node));
                self.emit_fail(node, message);
            }
        }
    }

    /// A call. `command` is what an error of the function names.
    fn emit_function(
        &mut self,
        identifier: NodeId,
        command: NodeId,
        arguments: &[NodeId],
        piped: bool,
    ) {
        let Some(NodeKind::Identifier(name)) = self.program.tree.kind(identifier) else { return };
        let name = name.clone();
        let Some((index, function)) = self.function(&name) else {
            return self.emit_fail(identifier, format!("{name:?} is not a defined function"));
        };
        let given = arguments.len();
        let count = given + usize::from(piped);
        let fixed = function.params.len();
        if function.rest.is_some() && count < fixed {
            let message =
                format!("wrong number of args for {name}: want at least {fixed} got {given}");
            return self.emit_fail(identifier, message);
        }
        if function.rest.is_none() && count != fixed {
            let message = format!("wrong number of args for {name}: want {fixed} got {count}");
            return self.emit_fail(identifier, message);
        }
        if let Work::Logic { or } = function.work {
            return self.emit_logic(identifier, or, arguments, piped);
        }
        for (position, argument) in arguments.iter().enumerate() {
            self.emit_argument(*argument, function.param(position));
            let bare = matches!(
                self.program.tree.kind(*argument),
                Some(
                    NodeKind::Field(_)
                        | NodeKind::Variable { .. }
                        | NodeKind::Dot
                        | NodeKind::Chain { .. }
                )
            );
            if matches!(function.work, Work::Slice(_)) && position > 0 && bare {
                self.emit(Op::Unheld);
            }
        }
        if piped {
            if given > 0 {
                self.emit(Op::Rotate { count: u32::try_from(count).unwrap_or(u32::MAX) });
            }
            self.emit_check(if given > 0 { SAME } else { identifier }, function.param(given));
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let after = if given > 0 { SAME } else { identifier };
        self.emit(Op::Call { at: command, after, function: index, count });
    }

    /// `and` and `or`, which stop at the argument that decides.
    fn emit_logic(&mut self, identifier: NodeId, or: bool, arguments: &[NodeId], piped: bool) {
        if arguments.is_empty() {
            self.emit(Op::Mark { at: identifier });
        }
        let mut decisions = Vec::new();
        for (position, argument) in arguments.iter().enumerate() {
            self.emit_argument(*argument, Param::Any);
            let last = position + 1 == arguments.len();
            decisions.push(self.emit_at(Op::Decide { or, piped, last, end: 0 }));
        }
        let end = self.here();
        for decision in decisions {
            self.patch(decision, end);
        }
    }

    fn function(&mut self, name: &str) -> Option<(u32, Function)> {
        let function = self.functions.get(name)?.clone();
        if let Some(index) = self.used.get(name) {
            return Some((*index, function));
        }
        let index = u32::try_from(self.program.functions.len()).ok()?;
        self.program.functions.push(function.clone());
        self.used.insert(name.to_owned(), index);
        Some((index, function))
    }

    fn names(&mut self, fields: Vec<String>, called: bool) -> Names {
        let start = u32::try_from(self.program.names.len()).unwrap_or(u32::MAX);
        let count = u32::try_from(fields.len()).unwrap_or(0);
        self.program.names.extend(fields.into_iter().map(String::into_boxed_str));
        Names { start, count, called, unbox: false }
    }

    // Instructions.

    pub(super) fn emit(&mut self, op: Op) {
        self.body().ops.push(op);
    }

    pub(super) fn emit_at(&mut self, op: Op) -> usize {
        self.emit(op);
        self.body().ops.len() - 1
    }

    pub(super) fn here(&mut self) -> Address {
        Address::try_from(self.body().ops.len()).unwrap_or(Address::MAX)
    }

    /// Says where a jump goes.
    pub(super) fn patch(&mut self, at: usize, address: Address) {
        match self.body().ops.get_mut(at) {
            Some(Op::Jump { to } | Op::Unless { to } | Op::With { to } | Op::Break { to }) => {
                *to = address
            }
            Some(Op::Range { empty, .. }) => *empty = address,
            Some(Op::Decide { end, .. }) => *end = address,
            _ => {}
        }
    }

    fn emit_fail(&mut self, at: NodeId, message: String) {
        let index = u32::try_from(self.program.messages.len()).unwrap_or(u32::MAX);
        self.program.messages.push(message);
        self.emit(Op::Fail { at, message: index });
    }

    /// Ends a command. Nothing goes to the place behind a load, so the load can do it itself.
    fn emit_unbox(&mut self) {
        match self.body().ops.last_mut() {
            Some(Op::Load { names, .. }) => names.unbox = true,
            Some(Op::Constant { .. } | Op::Fail { .. }) => {}
            _ => self.emit(Op::Unbox),
        }
    }

    /// Writes the value. A text function that was called last writes it without making a value first.
    pub(super) fn emit_print(&mut self) {
        let called = match self.body().ops.as_slice() {
            [.., Op::Call { at, function, count, .. }, Op::Unbox] => Some((*at, *function, *count)),
            _ => None,
        };
        let text = |function: u32| {
            self.program.functions.get(function as usize).map(|function| &function.work)
        };
        match called {
            Some((at, function, count)) if matches!(text(function), Some(Work::Text(_))) => {
                let ops = &mut self.body().ops;
                ops.truncate(ops.len() - 2);
                ops.push(Op::Write { at, function, count });
            }
            _ => self.emit(Op::Print),
        }
    }
}

fn ideal(number: &Number) -> Result<Constant, String> {
    match number.ideal() {
        Ideal::Int(value) => Ok(Constant::Int(value)),
        Ideal::Float(value) => Ok(Constant::Float(value)),
        Ideal::Complex(real, imaginary) => Ok(Constant::Complex(real, imaginary)),
        Ideal::Overflow => Err(format!("{} overflows int", number.text)),
    }
}
