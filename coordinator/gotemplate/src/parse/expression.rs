//! Pipelines, commands and their words.

use super::{Parsed, Parser};
use crate::lex::{Keyword, Kind, Token};
use crate::number::Number;
use crate::quote::quoted;
use crate::tree::{NodeId, NodeKind, Pipe};

impl<'s> Parser<'s> {
    /// Declarations, then commands up to a closing token.
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<NodeId> {
        let position = self.peek_solid().start;
        let mut pipe = Pipe::default();
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.next_solid();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Keyword(Keyword::Nil)
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.put_back(token);
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return Err(self.unexpected(token, context)),
            }
        }
        self.check(&pipe, context)?;
        Ok(self.program.tree.add(position, NodeKind::Pipe(pipe)))
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        loop {
            let variable = self.peek_solid();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next_solid();
            // A blank behind the variable matters if this is no declaration.
            let after = self.next();
            let next = if after.kind == Kind::Space { self.next_solid() } else { after };
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assign = next.kind == Kind::Assign;
                    self.declare(pipe, variable);
                    return Ok(());
                }
                Kind::Char if next.text == "," => {
                    self.declare(pipe, variable);
                    if context != "range" || pipe.variables.len() >= 2 {
                        return Err(format!("too many declarations in {context}"));
                    }
                    let follows = self.peek_solid().kind;
                    if !matches!(follows, Kind::Variable | Kind::Right | Kind::RightParen) {
                        return Err("range can only initialize variables".to_owned());
                    }
                }
                _ => {
                    self.put_back(next);
                    if after.kind == Kind::Space {
                        self.put_back(after);
                    }
                    self.put_back(variable);
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: Token<'s>) {
        pipe.variables.push(variable.text.to_owned());
        self.body().declared.push(variable.text.to_owned());
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return Err(format!("missing value for {context}"));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = self
                .program
                .tree
                .words(*command)
                .first()
                .and_then(|word| self.program.tree.kind(*word));
            if let Some(
                NodeKind::Bool(_)
                | NodeKind::Dot
                | NodeKind::Nil
                | NodeKind::Number(_)
                | NodeKind::Text { .. },
            ) = first
            {
                return Err(format!("non executable command in pipeline stage {}", index + 1));
            }
        }
        Ok(())
    }

    /// Words up to a pipe, which is consumed, or a closing token, which is not.
    fn command(&mut self) -> Parsed<NodeId> {
        let position = self.peek_solid().start;
        let mut words = Vec::new();
        loop {
            self.peek_solid();
            words.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::Right | Kind::RightParen => self.put_back(token),
                Kind::Pipe => {}
                _ => return Err(self.unexpected(token, "operand")),
            }
            break;
        }
        if words.is_empty() {
            return Err("empty command".to_owned());
        }
        Ok(self.program.tree.add(position, NodeKind::Command(words)))
    }

    /// A term and the fields that follow it; nothing if no term is next.
    fn operand(&mut self) -> Parsed<Option<NodeId>> {
        let Some((start, term)) = self.term()? else { return Ok(None) };
        let follows = self.peek();
        if follows.kind != Kind::Field {
            return Ok(Some(self.add_term(start, term)));
        }
        let mut names = Vec::new();
        while self.peek().kind == Kind::Field {
            names.push(field_name(self.next()));
        }
        // The position of a chain is that of its second part.
        let (position, kind) = match term {
            Term::Node(NodeKind::Field(mut fields)) => {
                fields.append(&mut names);
                (follows.start, NodeKind::Field(fields))
            }
            Term::Node(NodeKind::Variable { name, .. }) => {
                (follows.start, NodeKind::Variable { name, fields: names })
            }
            Term::Node(NodeKind::Identifier(name)) => {
                let base = self.program.tree.add(start, NodeKind::Identifier(name));
                (follows.start, NodeKind::Chain { base, fields: names })
            }
            Term::Parenthesized(base) => (follows.start, NodeKind::Chain { base, fields: names }),
            Term::Node(kind) => {
                let node = self.program.tree.add(start, kind);
                return Err(format!(
                    "unexpected . after term {}",
                    quoted(&self.program.tree.show(node))
                ));
            }
        };
        Ok(Some(self.program.tree.add(position, kind)))
    }

    fn add_term(&mut self, start: usize, term: Term) -> NodeId {
        match term {
            Term::Node(kind) => self.program.tree.add(start, kind),
            Term::Parenthesized(pipe) => pipe,
        }
    }

    fn term(&mut self) -> Parsed<Option<(usize, Term)>> {
        let token = self.next_solid();
        let kind = match token.kind {
            Kind::Identifier => {
                if !self.functions.contains(token.text) {
                    return Err(format!("function {} not defined", quoted(token.text)));
                }
                NodeKind::Identifier(token.text.to_owned())
            }
            Kind::Dot => NodeKind::Dot,
            Kind::Keyword(Keyword::Nil) => NodeKind::Nil,
            Kind::Variable => {
                if !self.body().declared.iter().any(|name| name == token.text) {
                    return Err(format!("undefined variable {}", quoted(token.text)));
                }
                NodeKind::Variable { name: token.text.to_owned(), fields: Vec::new() }
            }
            Kind::Field => NodeKind::Field(vec![field_name(token)]),
            Kind::Bool => NodeKind::Bool(token.text == "true"),
            Kind::CharConstant => NodeKind::Number(Box::new(Number::character(token.text)?)),
            Kind::Complex => NodeKind::Number(Box::new(Number::complex(token.text)?)),
            Kind::Number => NodeKind::Number(Box::new(Number::plain(token.text)?)),
            Kind::String | Kind::RawString => {
                NodeKind::Text { literal: token.text.to_owned(), value: self.unquoted(token)? }
            }
            Kind::LeftParen => {
                if self.parens >= self.limits.parentheses {
                    return Err("max expression depth exceeded".to_owned());
                }
                self.parens += 1;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen);
                self.parens -= 1;
                return Ok(Some((token.start, Term::Parenthesized(pipe?))));
            }
            _ => {
                self.put_back(token);
                return Ok(None);
            }
        };
        Ok(Some((token.start, Term::Node(kind))))
    }
}

/// A term that was read: a node that is not in the tree yet, or a pipe that is.
enum Term {
    Node(NodeKind),
    Parenthesized(NodeId),
}

fn field_name(token: Token<'_>) -> String {
    token.text.trim_start_matches('.').to_owned()
}
