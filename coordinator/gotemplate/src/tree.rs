//! The expressions of a template, as they were written.
//!
//! The machine runs compiled code (`code`); the tree stays for what the code was made from and for error messages,
//! which show the expression in a normal form. Nodes lie in one vector and name each other by index, so a deep
//! tree needs no deep stack to drop.

use std::fmt::{self, Write};

use crate::number::Number;
use crate::quote::quoted;

/// The index of a node.
pub(crate) type NodeId = u32;

/// All nodes of a source.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// A node and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) position: usize,
    pub(crate) kind: NodeKind,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum NodeKind {
    Field(Vec<String>),
    Variable { name: String, fields: Vec<String> },
    Chain { base: NodeId, fields: Vec<String> },
    Identifier(String),
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    Text { literal: String, value: Vec<u8> },
    Pipe(Pipe),
    Command(Vec<NodeId>),
    Template { name: String, pipe: Option<NodeId> },
}

/// Commands, each fed to the next, and the variables that take the result.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) assign: bool,
    pub(crate) variables: Vec<String>,
    pub(crate) commands: Vec<NodeId>,
}

// === impl Tree ===

impl Tree {
    pub(crate) fn add(&mut self, position: usize, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { position, kind });
        // The source is bounded, so the index fits.
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    pub(crate) fn kind(&self, id: NodeId) -> Option<&NodeKind> {
        self.get(id).map(|node| &node.kind)
    }

    /// The commands of a pipe and its variables.
    pub(crate) fn pipe(&self, id: NodeId) -> Option<&Pipe> {
        match self.kind(id) {
            Some(NodeKind::Pipe(pipe)) => Some(pipe),
            _ => None,
        }
    }

    /// The words of a command.
    pub(crate) fn words(&self, id: NodeId) -> &[NodeId] {
        match self.kind(id) {
            Some(NodeKind::Command(words)) => words,
            _ => &[],
        }
    }

    /// The node in its normal form.
    pub(crate) fn show(&self, id: NodeId) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(id, &mut text);
        text
    }

    fn write(&self, id: NodeId, out: &mut String) -> fmt::Result {
        let Some(node) = self.get(id) else { return Ok(()) };
        match &node.kind {
            NodeKind::Field(names) => dotted(names, out),
            NodeKind::Variable { name, fields } => {
                out.push_str(name);
                dotted(fields, out)
            }
            NodeKind::Chain { base, fields } => {
                self.write_operand(*base, out)?;
                dotted(fields, out)
            }
            NodeKind::Identifier(name) => out.write_str(name),
            NodeKind::Dot => out.write_str("."),
            NodeKind::Nil => out.write_str("nil"),
            NodeKind::Bool(value) => write!(out, "{value}"),
            NodeKind::Number(number) => out.write_str(&number.text),
            NodeKind::Text { literal, .. } => out.write_str(literal),
            NodeKind::Pipe(pipe) => {
                if !pipe.variables.is_empty() {
                    write!(
                        out,
                        "{} {} ",
                        pipe.variables.join(", "),
                        if pipe.assign { "=" } else { ":=" }
                    )?;
                }
                for (index, command) in pipe.commands.iter().enumerate() {
                    out.push_str(if index > 0 { " | " } else { "" });
                    self.write(*command, out)?;
                }
                Ok(())
            }
            NodeKind::Command(words) => {
                for (index, word) in words.iter().enumerate() {
                    out.push_str(if index > 0 { " " } else { "" });
                    self.write_operand(*word, out)?;
                }
                Ok(())
            }
            NodeKind::Template { name, pipe } => {
                write!(out, "{{{{template {}", quoted(name))?;
                if let Some(pipe) = pipe {
                    out.push(' ');
                    self.write(*pipe, out)?;
                }
                out.write_str("}}")
            }
        }
    }

    /// A word: a pipe stands in parentheses.
    fn write_operand(&self, id: NodeId, out: &mut String) -> fmt::Result {
        if self.pipe(id).is_none() {
            return self.write(id, out);
        }
        out.push('(');
        self.write(id, out)?;
        out.write_str(")")
    }
}

fn dotted(names: &[String], out: &mut String) -> fmt::Result {
    names.iter().try_for_each(|name| write!(out, ".{name}"))
}
