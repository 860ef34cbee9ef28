//! Reads a source into a [`Program`].
//!
//! Blocks are kept on a list of their own, so only parentheses make the parser call itself, and those are bounded.
//! Messages and the lines they name are Go's.

mod block;
mod compile;
mod expression;

use std::collections::BTreeMap;

use crate::code::{Body, Op, Program};
use crate::error::{Class, Error, locate};
use crate::funcs::Functions;
use crate::lex::{Complaint, Keyword, Kind, Lexer, Token};
use crate::limits::Limits;
use crate::quote::{quoted, unquote};
use crate::unicode;
use block::{Block, Control};

/// Parses a source under a name.
pub(crate) fn parse(
    name: &str,
    source: &str,
    functions: &Functions,
    limits: &Limits,
) -> Result<Program, Error> {
    let mut parser = Parser {
        name,
        source,
        functions,
        limits,
        lexer: Lexer::new(source),
        ahead: Vec::with_capacity(3),
        last: 0,
        action: None,
        parens: 0,
        program: Program::default(),
        known: BTreeMap::new(),
        used: BTreeMap::new(),
        bodies: vec![Draft::new(name.to_owned(), "")],
    };
    match parser.run() {
        Ok(()) => Ok(parser.program),
        Err(message) => {
            let (line, column) = locate(source, parser.last);
            let (template, executing, expression) = (name.to_owned(), String::new(), String::new());
            Err(Error {
                class: Class::Parse,
                template,
                line,
                column,
                executing,
                expression,
                message,
            })
        }
    }
}

/// A message; where it came up is known to the parser.
type Parsed<T> = Result<T, String>;

struct Parser<'s> {
    name: &'s str,
    source: &'s str,
    functions: &'s Functions,
    limits: &'s Limits,
    lexer: Lexer<'s>,
    /// Tokens that were put back, the next one last.
    ahead: Vec<Token<'s>>,
    /// Where the token that was read last starts; errors name its line.
    last: usize,
    /// Where the current action starts.
    action: Option<usize>,
    parens: usize,
    program: Program,
    /// Definitions by name.
    known: BTreeMap<String, usize>,
    /// Functions that are used, with their numbers.
    used: BTreeMap<String, u32>,
    /// The definition that is being read and those around it.
    bodies: Vec<Draft>,
}

/// A definition that is being read.
struct Draft {
    name: String,
    /// What errors call it; nothing for the outermost one.
    context: &'static str,
    ops: Vec<Op>,
    empty: bool,
    blocks: Vec<Block>,
    /// Names that may be used from here on, whether or not a value will be there.
    declared: Vec<String>,
    /// Names that have a slot here: the index is the slot.
    live: Vec<String>,
    slots: usize,
}

// === impl Draft ===

impl Draft {
    fn new(name: String, context: &'static str) -> Self {
        let root = vec!["$".to_owned()];
        Self {
            name,
            context,
            ops: Vec::new(),
            empty: true,
            blocks: Vec::new(),
            declared: root.clone(),
            live: root,
            slots: 1,
        }
    }
}

// === impl Parser ===

impl<'s> Parser<'s> {
    fn run(&mut self) -> Parsed<()> {
        if self.source.len() > self.limits.source {
            return Err(format!("source is longer than {} bytes", self.limits.source));
        }
        loop {
            let token = self.next_solid();
            match token.kind {
                Kind::End => break,
                Kind::Text => self.text(token),
                Kind::Left => {
                    self.action = Some(token.start);
                    self.action()?;
                }
                _ => return Err(self.unexpected(token, "input")),
            }
        }
        match self.bodies.pop() {
            Some(main) if self.bodies.is_empty() && main.blocks.is_empty() => {
                self.define(main)?;
                self.link();
                Ok(())
            }
            _ => Err("unexpected EOF".to_owned()),
        }
    }

    fn text(&mut self, token: Token<'s>) {
        let blank = token.text.trim().is_empty();
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let op = Op::Text {
            start: position(token.start),
            end: position(token.start + token.text.len()),
        };
        let body = self.body();
        body.empty &= blank;
        body.ops.push(op);
    }

    /// One action. One that opens a block is the current action until another one in it ends; errors name it.
    fn action(&mut self) -> Parsed<()> {
        let token = self.next_solid();
        let Kind::Keyword(keyword) = token.kind else {
            self.put_back(token);
            return self.command_action();
        };
        let opens = matches!(keyword, Keyword::If | Keyword::With | Keyword::Range);
        match keyword {
            Keyword::If => self.open(Control::If),
            Keyword::With => self.open(Control::With),
            Keyword::Range => self.open(Control::Range),
            Keyword::Else => self.otherwise(),
            Keyword::End => self.end(),
            Keyword::Break => self.leave_range("{{break}}"),
            Keyword::Continue => self.leave_range("{{continue}}"),
            Keyword::Template => self.template(),
            Keyword::Block => self.block(),
            Keyword::Define if self.bodies.len() == 1 && self.body().blocks.is_empty() => {
                self.definition()
            }
            Keyword::Define | Keyword::Nil => {
                self.put_back(token);
                self.command_action()
            }
        }?;
        if !opens {
            self.action = None;
        }
        Ok(())
    }

    /// A pipeline whose value is written, unless variables take it.
    fn command_action(&mut self) -> Parsed<()> {
        let pipe = self.pipeline("command", Kind::Right)?;
        let declares = self.program.tree.pipe(pipe).is_some_and(|pipe| !pipe.variables.is_empty());
        self.emit_pipe(pipe);
        if declares {
            self.emit(Op::Drop)
        } else {
            self.emit_print()
        }
        self.action = None;
        Ok(())
    }

    fn body(&mut self) -> &mut Draft {
        if self.bodies.is_empty() {
            self.bodies.push(Draft::new(String::new(), ""));
        }
        let last = self.bodies.len() - 1;
        &mut self.bodies[last]
    }

    /// Installs a definition. Of two with one name, one may be blank.
    fn define(&mut self, mut draft: Draft) -> Parsed<()> {
        draft.ops.push(Op::Return);
        let body =
            Body { name: draft.name, ops: draft.ops, slots: draft.slots, empty: draft.empty };
        let index = self.program.bodies.len();
        match self.known.get(&body.name).and_then(|known| self.program.bodies.get(*known)) {
            Some(known) if !known.empty && !body.empty => {
                return Err(format!(
                    "template: multiple definition of template {}",
                    quoted(&body.name)
                ));
            }
            Some(known) if !known.empty => return Ok(()),
            _ => {}
        }
        self.known.insert(body.name.clone(), index);
        self.program.bodies.push(body);
        Ok(())
    }

    /// Finds the bodies that templates name.
    fn link(&mut self) {
        self.program.main = self.known.get(self.name).copied().unwrap_or(0);
        for call in &mut self.program.calls {
            call.body = self.known.get(&call.name).copied();
        }
    }

    // Tokens.

    fn next(&mut self) -> Token<'s> {
        self.ahead.pop().unwrap_or_else(|| {
            let token = self.lexer.next();
            self.last = token.start;
            token
        })
    }

    fn put_back(&mut self, token: Token<'s>) {
        self.ahead.push(token);
    }

    fn peek(&mut self) -> Token<'s> {
        let token = self.next();
        self.put_back(token);
        token
    }

    /// The next token that is no blank.
    fn next_solid(&mut self) -> Token<'s> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_solid(&mut self) -> Token<'s> {
        let token = self.next_solid();
        self.put_back(token);
        token
    }

    fn expect_right(&mut self, context: &str) -> Parsed<()> {
        let token = self.next_solid();
        if token.kind == Kind::Right { Ok(()) } else { Err(self.unexpected(token, context)) }
    }

    fn unquoted(&self, token: Token<'s>) -> Parsed<Vec<u8>> {
        unquote(token.text).ok_or_else(|| "invalid syntax".to_owned())
    }

    /// A name in quotes.
    fn quoted_name(&mut self, context: &str) -> Parsed<(usize, String)> {
        let token = self.next_solid();
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.unexpected(token, context));
        }
        Ok((token.start, unicode::to_text(self.unquoted(token)?)))
    }

    /// Says that a token does not belong here.
    fn unexpected(&self, token: Token<'s>, context: &str) -> String {
        let shown = match token.kind {
            Kind::Error => return self.complaint(token),
            Kind::End => "EOF".to_owned(),
            Kind::Keyword(_) | Kind::Dot => format!("<{}>", token.text),
            _ if token.text.len() > 10 => {
                let head: String = token.text.chars().take(10).collect();
                format!("{}...", quoted(&head))
            }
            _ => quoted(token.text),
        };
        format!("unexpected {shown} in {context}")
    }

    fn complaint(&self, token: Token<'s>) -> String {
        let message = match token.complaint {
            Complaint::None => String::new(),
            Complaint::Plain(message) => message.to_owned(),
            Complaint::BadNumber => format!("bad number syntax: {}", quoted(token.text)),
            Complaint::Unrecognized(c) => {
                format!("unrecognized character in action: {}", code_point(Some(c)))
            }
            Complaint::BadCharacter(c) => format!("bad character {}", code_point(c)),
        };
        let line = |at: usize| locate(self.source, at).0;
        match self.action.map(line).filter(|started| *started != line(token.start)) {
            Some(started) => {
                let link = if message.ends_with(" action") { "" } else { " in action" };
                format!("{message}{link} started at {}:{started}", self.name)
            }
            None => message,
        }
    }
}

/// A character and its code, such as `U+002D '-'`.
fn code_point(c: Option<char>) -> String {
    match c {
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
        Some(c) if unicode::is_print(c.into()) => format!("U+{:04X} '{c}'", u32::from(c)),
        Some(c) => format!("U+{:04X}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests;
