//! From words to an expression.

use std::rc::Rc;

use regex::Regex;

use super::{
    SelectorError, Value, call,
    lexer::{Token, lex},
    text,
};

/// How deep an expression may be.
const DEEPEST: usize = 48;

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Literal(Value),
    /// A name, by how many names were given before it.
    Name(usize),
    Device,
    /// `a.b`, `a.?b`.
    Field {
        of: Box<Expr>,
        name: Rc<str>,
        optional: bool,
    },
    /// `has(a.b)`.
    Has(Box<Expr>, Rc<str>),
    /// `a[b]`, `a[?b]`.
    Index {
        of: Box<Expr>,
        key: Box<Expr>,
        optional: bool,
    },
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<[Expr; 3]>),
    /// `f(…)`, `a.f(…)`: what it is called on comes first.
    Call(&'static call::Function, Vec<Expr>),
    /// `a.matches("…")` with a pattern that is known.
    Matches(Box<Expr>, Regex),
    /// `list.all(x, …)` and the like.
    Each {
        how: Each,
        list: Box<Expr>,
        bodies: Vec<Expr>,
    },
    /// `cel.bind(x, value, body)`.
    Bind(Box<Expr>, Box<Expr>),
}

/// What is done with each of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Each {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

struct Parser {
    words: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    end: usize,
    /// Names that were given, the innermost last.
    names: Vec<String>,
}

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expr, SelectorError> {
    let words = lex(text)?;
    let mut parser = Parser { words, at: 0, depth: 0, end: text.len(), names: Vec::new() };
    let root = parser.expression()?;
    if parser.at < parser.words.len() {
        return parser.wrong("an operator or the end is expected here");
    }
    Ok(root)
}

// === impl Parser ===

impl Parser {
    fn wrong<T>(&self, problem: impl Into<String>) -> Result<T, SelectorError> {
        let at = self.words.get(self.at).map_or(self.end, |(at, _)| *at);
        Err(SelectorError::Syntax { at, problem: problem.into() })
    }

    fn eat(&mut self, sign: &str) -> bool {
        let there =
            matches!(self.words.get(self.at), Some((_, Token::Sign(found))) if *found == sign);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &str) -> Result<(), SelectorError> {
        if self.eat(sign) { Ok(()) } else { self.wrong(format!("`{sign}` is expected here")) }
    }

    fn any(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        signs.iter().copied().find(|sign| self.eat(sign))
    }

    fn identifier(&mut self) -> Result<String, SelectorError> {
        match self.words.get(self.at) {
            Some((_, Token::Ident(name))) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.wrong("a name is expected here"),
        }
    }

    fn expression(&mut self) -> Result<Expr, SelectorError> {
        if self.depth >= DEEPEST {
            return self.wrong(format!("more than {DEEPEST} levels: write a flatter selector"));
        }
        self.depth += 1;
        let condition = self.or()?;
        let result = if self.eat("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            Expr::If(Box::new([condition, yes, no]))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(result)
    }

    fn or(&mut self) -> Result<Expr, SelectorError> {
        let mut terms = vec![self.and()?];
        while self.eat("||") {
            terms.push(self.and()?);
        }
        Ok(balanced(terms, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, SelectorError> {
        let mut terms = vec![self.relation()?];
        while self.eat("&&") {
            terms.push(self.relation()?);
        }
        Ok(balanced(terms, Expr::And))
    }

    fn relation(&mut self) -> Result<Expr, SelectorError> {
        let mut left = self.sum()?;
        let mut links = 0;
        loop {
            let sign = match self.any(&["==", "!=", "<=", ">=", "<", ">"]) {
                Some(sign) => sign,
                None if matches!(self.words.get(self.at), Some((_, Token::Ident(word))) if word == "in") =>
                {
                    self.at += 1;
                    "in"
                }
                None => return Ok(left),
            };
            self.link(&mut links)?;
            left = Expr::Binary(sign, Box::new(left), Box::new(self.sum()?));
        }
    }

    fn sum(&mut self) -> Result<Expr, SelectorError> {
        let mut left = self.product()?;
        let mut links = 0;
        while let Some(sign) = self.any(&["+", "-"]) {
            self.link(&mut links)?;
            left = Expr::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, SelectorError> {
        let mut left = self.unary()?;
        let mut links = 0;
        while let Some(sign) = self.any(&["*", "/", "%"]) {
            self.link(&mut links)?;
            left = Expr::Binary(sign, Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    /// A chain of operators is as deep as it is long.
    fn link(&self, links: &mut usize) -> Result<(), SelectorError> {
        *links += 1;
        if *links > DEEPEST {
            self.wrong("too many operators in a row: use brackets")
        } else {
            Ok(())
        }
    }

    fn unary(&mut self) -> Result<Expr, SelectorError> {
        let mut signs = Vec::new();
        while let Some(sign) = self.any(&["!", "-"]) {
            signs.push(sign);
            if signs.len() > DEEPEST {
                return self.wrong("too many signs");
            }
        }
        let mut inner = self.member()?;
        for sign in signs.into_iter().rev() {
            inner = if sign == "!" {
                Expr::Not(Box::new(inner))
            } else {
                Expr::Negative(Box::new(inner))
            };
        }
        Ok(inner)
    }

    fn member(&mut self) -> Result<Expr, SelectorError> {
        let mut expr = self.primary()?;
        let mut links = 0;
        loop {
            let (dot, optional) = (self.eat("."), self.eat(".?"));
            if dot || optional {
                self.link(&mut links)?;
                let name = self.identifier()?;
                expr = if dot && self.eat("(") {
                    self.method(expr, &name)?
                } else {
                    Expr::Field { of: Box::new(expr), name: name.into(), optional }
                };
                continue;
            }
            let (index, optional) = (self.eat("["), self.eat("[?"));
            if !index && !optional {
                return Ok(expr);
            }
            self.link(&mut links)?;
            let key = Box::new(self.expression()?);
            self.expect("]")?;
            expr = Expr::Index { of: Box::new(expr), key, optional };
        }
    }

    fn method(&mut self, of: Expr, name: &str) -> Result<Expr, SelectorError> {
        let how = match name {
            "all" => Each::All,
            "exists" => Each::Exists,
            "exists_one" | "existsOne" => Each::ExistsOne,
            "filter" => Each::Filter,
            "map" => Each::Map,
            _ => {
                let mut arguments = vec![of];
                arguments.extend(self.arguments()?);
                return self.call(name, true, arguments);
            }
        };
        let name = self.identifier()?;
        self.expect(",")?;
        self.names.push(name);
        let mut bodies = vec![self.expression()?];
        if how == Each::Map && self.eat(",") {
            bodies.push(self.expression()?);
        }
        self.names.pop();
        self.expect(")")?;
        Ok(Expr::Each { how, list: Box::new(of), bodies })
    }

    fn call(
        &self,
        name: &str,
        method: bool,
        mut arguments: Vec<Expr>,
    ) -> Result<Expr, SelectorError> {
        if let ("matches", [_, Expr::Literal(Value::Text(pattern))]) = (name, arguments.as_slice())
        {
            let Ok(pattern) = text::pattern(pattern) else {
                return self.wrong(format!("`{pattern}` is no pattern"));
            };
            arguments.truncate(1);
            if let Some(of) = arguments.pop() {
                return Ok(Expr::Matches(Box::new(of), pattern));
            }
        }
        match call::find(name, method, arguments.len()) {
            Some(function) => Ok(Expr::Call(function, arguments)),
            None => self.wrong(format!("there is no function {name} for such arguments")),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, SelectorError> {
        let mut arguments = Vec::new();
        while !self.eat(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.expression()?);
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expr, SelectorError> {
        let Some((_, word)) = self.words.get(self.at).cloned() else {
            return self.wrong("a value is expected here");
        };
        self.at += 1;
        Ok(match word {
            Token::Int(value) => Expr::Literal(Value::Int(value)),
            Token::Uint(value) => Expr::Literal(Value::Uint(value)),
            Token::Double(value) => Expr::Literal(Value::Double(value)),
            Token::Text(text) => Expr::Literal(Value::text(&text)),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                inner
            }
            Token::Sign("[") => {
                let mut list = Vec::new();
                while !self.eat("]") {
                    list.push(self.expression()?);
                    if !self.eat(",") {
                        self.expect("]")?;
                        break;
                    }
                }
                Expr::List(list)
            }
            Token::Sign("{") => self.map()?,
            Token::Ident(name) => self.name(&name)?,
            Token::Sign(_) => {
                self.at -= 1;
                return self.wrong("a value is expected here");
            }
        })
    }

    fn map(&mut self) -> Result<Expr, SelectorError> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expr::Map(entries))
    }

    fn name(&mut self, name: &str) -> Result<Expr, SelectorError> {
        let given = self.names.iter().rposition(|known| known == name);
        match name {
            "true" => return Ok(Expr::Literal(Value::Bool(true))),
            "false" => return Ok(Expr::Literal(Value::Bool(false))),
            "null" => return Ok(Expr::Literal(Value::Null)),
            "has" if self.eat("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return match inner {
                    Expr::Field { of, name, optional: false } => Ok(Expr::Has(of, name)),
                    _ => self.wrong("has() takes a field, as in has(a.b)"),
                };
            }
            "cel" | "optional" if given.is_none() => return self.library(name),
            _ => {}
        }
        if self.eat("(") {
            let arguments = self.arguments()?;
            return self.call(name, false, arguments);
        }
        match given {
            Some(at) => Ok(Expr::Name(at)),
            None if name == "device" => Ok(Expr::Device),
            None => {
                self.at -= 1;
                self.wrong(format!("{name} is not known: a selector sees `device`"))
            }
        }
    }

    /// `cel.bind(name, value, body)`, `optional.of(value)`, `optional.none()`.
    fn library(&mut self, library: &str) -> Result<Expr, SelectorError> {
        self.expect(".")?;
        let function = self.identifier()?;
        self.expect("(")?;
        match (library, function.as_str()) {
            ("cel", "bind") => {
                let name = self.identifier()?;
                self.expect(",")?;
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                self.names.push(name);
                let body = Box::new(self.expression()?);
                self.names.pop();
                self.expect(")")?;
                Ok(Expr::Bind(value, body))
            }
            _ => {
                let arguments = self.arguments()?;
                self.call(&format!("{library}.{function}"), false, arguments)
            }
        }
    }
}

/// A tree of one operator that is as flat as can be: long lists of conditions are common.
fn balanced(mut terms: Vec<Expr>, join: fn(Box<Expr>, Box<Expr>) -> Expr) -> Expr {
    let half = terms.len() / 2;
    match (half, terms.pop()) {
        (0, Some(only)) => only,
        (_, Some(last)) => {
            terms.push(last);
            let right = terms.split_off(half);
            join(Box::new(balanced(terms, join)), Box::new(balanced(right, join)))
        }
        (_, None) => Expr::Literal(Value::Null),
    }
}
