//! The grammar of label selectors in query parameters.

use super::label::{Operator, Requirement};
use super::name::key_problem;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    Bad(String),
    End,
}

/// Reads the text of a label selector.
pub(super) struct Parser {
    tokens: std::vec::IntoIter<Token>,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

// === impl Parser ===

impl Parser {
    /// Ready to read the text.
    pub(super) fn new(text: &str) -> Self {
        Self { tokens: tokens(text).into_iter() }
    }

    fn peek(&self) -> &Token {
        self.tokens.as_slice().first().unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    /// All conditions, or what is wrong in Kubernetes' words.
    pub(super) fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let one = self.requirement();
                    all.push(one.map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match self.next() {
                        Token::End => return Ok(all),
                        Token::Symbol(",") => {
                            let after = self.peek();
                            if !matches!(after, Token::Word(_) | Token::Symbol("!")) {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    after.text()
                                ));
                            }
                        }
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            ));
                        }
                    }
                }
                Token::End => return Ok(all),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        if let Some(why) = key_problem(&key) {
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        if absent {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new(), false);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(&key, Operator::Exists, Vec::new(), false);
        }
        let operator = self.next();
        let (operator, exact) = match operator.text() {
            "in" => (Operator::In, false),
            "notin" => (Operator::NotIn, false),
            "=" | "==" => (Operator::In, true),
            "!=" => (Operator::NotIn, true),
            ">" => (Operator::GreaterThan, true),
            "<" => (Operator::LessThan, true),
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        let mut values = if exact { self.exact()? } else { self.values()? };
        values.sort();
        values.dedup();
        Requirement::new(&key, operator, values, exact)
    }

    fn exact(&mut self) -> Result<Vec<String>, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(vec![String::new()]);
        }
        match self.next() {
            Token::Word(word) => Ok(vec![word]),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek().clone() {
            Token::Word(_) | Token::Symbol(",") => {
                let values = self.list()?;
                self.next();
                Ok(values)
            }
            Token::Symbol(")") => {
                self.next();
                Ok(vec![String::new()])
            }
            other => Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }

    /// Words between commas, up to (not with) the closing parenthesis. Words may be missing.
    fn list(&mut self) -> Result<Vec<String>, String> {
        let mut values: Vec<String> = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Symbol(",") => {
                            self.next();
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.text()));
                }
            }
        }
    }
}

// === impl Token ===

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Bad(text) => text,
            Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(blank);
        if rest.is_empty() {
            return all;
        }
        if rest.starts_with(special) {
            let found = SYMBOLS.iter().find(|s| rest.starts_with(**s));
            match found {
                Some(symbol) => {
                    all.push(Token::Symbol(symbol));
                    rest = rest.get(symbol.len()..).unwrap_or("");
                }
                None => {
                    all.push(Token::Bad(rest.to_owned()));
                    return all;
                }
            }
            continue;
        }
        let end = rest.find(|c| special(c) || blank(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        all.push(Token::Word(word.to_owned()));
        rest = after;
    }
}
