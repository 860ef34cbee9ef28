//! Cuts a template's source into tokens.
//!
//! ```text
//!   text {{- range $i, $x := .list -}} text
//!   ──┬─ ─┬ ──┬──  ─┬ …             ─┬
//!   Text Left Keyword Variable      Right      (the blanks that the marks trim belong to no token)
//! ```
//!
//! It never looks ahead further than one token and never goes back: the whole source is read in linear time.

mod number;

use crate::unicode::is_word;

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    /// A printable ASCII character that means nothing else.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    End,
    Field,
    Identifier,
    Left,
    LeftParen,
    Number,
    Pipe,
    RawString,
    Right,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Dot,
    Keyword(Keyword),
}

/// The reserved words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A piece of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) text: &'s str,
    /// For an error, what is wrong.
    pub(crate) complaint: Complaint,
}

/// What can be wrong with the source at this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    None,
    Plain(&'static str),
    /// A character that cannot stand at the end of a word.
    BadCharacter(Option<char>),
    /// A character that means nothing in an action.
    Unrecognized(char),
    /// The token's text is no number.
    BadNumber,
}

#[derive(Debug)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    start: usize,
    at: usize,
    in_action: bool,
    parens: usize,
}

// === impl Lexer ===

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Self { source, start: 0, at: 0, in_action: false, parens: 0 }
    }

    /// The next token; `Kind::End` again and again at the end. After an error nothing good follows.
    pub(crate) fn next(&mut self) -> Token<'s> {
        if self.in_action { self.action() } else { self.outside() }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn emit(&mut self, kind: Kind) -> Token<'s> {
        let text = self.source.get(self.start..self.at).unwrap_or_default();
        let token = Token { kind, start: self.start, text, complaint: Complaint::None };
        self.start = self.at;
        token
    }

    fn complain(&mut self, complaint: Complaint) -> Token<'s> {
        let token = self.emit(Kind::Error);
        self.start = self.source.len();
        self.at = self.start;
        self.in_action = false;
        Token { complaint, ..token }
    }

    fn outside(&mut self) -> Token<'s> {
        loop {
            let Some(text) = self.rest().find(LEFT) else {
                self.at = self.source.len();
                return self.emit(if self.at > self.start { Kind::Text } else { Kind::End });
            };
            let delimiter = self.at + text;
            let trims = starts_with_left_mark(
                self.source.get(delimiter + LEFT.len()..).unwrap_or_default(),
            );
            let kept = self.rest().get(..text).unwrap_or_default();
            let kept = if trims { kept.trim_end_matches(is_space).len() } else { kept.len() };
            if kept > 0 {
                self.at += kept;
                let token = self.emit(Kind::Text);
                // The trimmed blanks belong to the delimiter's way in; they are skipped on the next call.
                return token;
            }
            self.at = delimiter;
            self.start = delimiter;
            match self.left(trims) {
                Some(token) => return token,
                None => continue,
            }
        }
    }

    /// The left delimiter, or nothing after a comment.
    fn left(&mut self, trims: bool) -> Option<Token<'s>> {
        let mark = if trims { 2 } else { 0 };
        self.at += LEFT.len();
        let after = self.source.get(self.at + mark..).unwrap_or_default();
        if !after.starts_with("/*") {
            let token = self.emit(Kind::Left);
            self.at += mark;
            self.start = self.at;
            self.in_action = true;
            self.parens = 0;
            return Some(token);
        }
        self.at += mark;
        self.start = self.at;
        self.at += 2;
        let Some(end) = self.rest().find("*/") else {
            return Some(self.complain(Complaint::Plain("unclosed comment")));
        };
        self.at += end + 2;
        let Some(trims) = self.right_delimiter() else {
            return Some(self.complain(Complaint::Plain("comment ends before closing delimiter")));
        };
        self.close(trims);
        None
    }

    /// Whether a right delimiter is next, and whether it trims.
    fn right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if rest.starts_with(RIGHT) {
            return Some(false);
        }
        let marked = rest.strip_prefix(is_space)?.strip_prefix('-')?;
        marked.starts_with(RIGHT).then_some(true)
    }

    /// Goes past the right delimiter and the blanks that it trims.
    fn close(&mut self, trims: bool) {
        self.at += RIGHT.len() + if trims { 2 } else { 0 };
        self.start = self.at;
        if trims {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches(is_space).len();
            self.start = self.at;
        }
        self.in_action = false;
    }

    fn right(&mut self, trims: bool) -> Token<'s> {
        self.start = self.at + if trims { 2 } else { 0 };
        let text = self.source.get(self.start..self.start + RIGHT.len()).unwrap_or_default();
        let token =
            Token { kind: Kind::Right, start: self.start, text, complaint: Complaint::None };
        self.close(trims);
        token
    }

    fn action(&mut self) -> Token<'s> {
        if let Some(trims) = self.right_delimiter() {
            if self.parens > 0 {
                return self.complain(Complaint::Plain("unclosed left paren"));
            }
            return self.right(trims);
        }
        let Some(c) = self.take() else {
            return self.complain(Complaint::Plain("unclosed action"));
        };
        match c {
            _ if is_space(c) => self.space(),
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.take() == Some('=') {
                    self.emit(Kind::Declare)
                } else {
                    self.complain(Complaint::Plain("expected :="))
                }
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => match self.rest().find('`') {
                Some(end) => {
                    self.at += end + 1;
                    self.emit(Kind::RawString)
                }
                None => self.complain(Complaint::Plain("unterminated raw quoted string")),
            },
            '$' => self.word(Kind::Variable),
            '.' if self.peek().is_some_and(|next| !next.is_ascii_digit()) => {
                if self.at_terminator() { self.emit(Kind::Dot) } else { self.word(Kind::Field) }
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = self.start;
                self.number()
            }
            _ if is_word(c) => self.word(Kind::Identifier),
            '(' => {
                self.parens += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(left) => {
                    self.parens = left;
                    self.emit(Kind::RightParen)
                }
                None => self.complain(Complaint::Plain("unexpected right paren")),
            },
            '!'..='~' => self.emit(Kind::Char),
            _ => self.complain(Complaint::Unrecognized(c)),
        }
    }

    /// A run of blanks, without the one that belongs to a trimming delimiter.
    fn space(&mut self) -> Token<'s> {
        while self.right_delimiter().is_none() && self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        self.emit(Kind::Space)
    }

    fn quoted(&mut self, quote: char, kind: Kind, complaint: &'static str) -> Token<'s> {
        loop {
            let end = match self.take() {
                Some('\\') => matches!(self.take(), None | Some('\n')),
                None | Some('\n') => true,
                Some(c) if c == quote => return self.emit(kind),
                Some(_) => false,
            };
            if end {
                return self.complain(Complaint::Plain(complaint));
            }
        }
    }

    /// The rest of an identifier, a field or a variable.
    fn word(&mut self, kind: Kind) -> Token<'s> {
        while self.peek().is_some_and(is_word) {
            self.take();
        }
        if !self.at_terminator() {
            return self.complain(Complaint::BadCharacter(self.peek()));
        }
        let token = self.emit(kind);
        let kind = match (kind, token.text) {
            (Kind::Identifier, "true" | "false") => Kind::Bool,
            (Kind::Identifier, word) => keyword(word).map_or(kind, Kind::Keyword),
            _ => kind,
        };
        Token { kind, ..token }
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) => is_space(c) || self.rest().starts_with(RIGHT),
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn starts_with_left_mark(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(is_space))
}

fn keyword(word: &str) -> Option<Keyword> {
    Some(match word {
        "block" => Keyword::Block,
        "break" => Keyword::Break,
        "continue" => Keyword::Continue,
        "define" => Keyword::Define,
        "else" => Keyword::Else,
        "end" => Keyword::End,
        "if" => Keyword::If,
        "nil" => Keyword::Nil,
        "range" => Keyword::Range,
        "template" => Keyword::Template,
        "with" => Keyword::With,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
