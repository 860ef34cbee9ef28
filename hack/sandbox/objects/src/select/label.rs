//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),!g,h`, and the `LabelSelector` object.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::status::Status;

/// A conjunction of conditions on labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Present with one of the values (`=` is this with one value).
    In,
    /// Absent, or with none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above the value.
    GreaterThan,
    /// An integer below the value.
    LessThan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    Bad(String),
    End,
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

// === impl LabelSelector ===

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads the text of a query parameter.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { tokens: tokens(text).into_iter() };
        let mut requirements = parser.selector().map_err(Status::bad_request)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a `LabelSelector` object. Absent selects nothing, empty everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, Status> {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in
            selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten()
        {
            let values = vec![value.as_str().unwrap_or("").to_owned()];
            requirements.push(requirement(key, Operator::In, values, true)?);
        }
        for rule in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten()
        {
            let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or("");
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Status::bad_request(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            let values = rule.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            requirements.push(requirement(text("key"), operator, values.collect(), false)?);
        }
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a plain map of labels, as in a Service's `spec.selector`.
    pub fn from_map(labels: &Value) -> Self {
        let pairs = labels.as_object().into_iter().flatten();
        let requirements = pairs.map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or("").to_owned()],
        });
        Self { requirements: requirements.collect(), nothing: false }
    }

    /// Whether the object's labels meet all conditions.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|m| m.get("labels")).unwrap_or(&Value::Null);
        self.matches_labels(labels)
    }

    /// Whether a map of labels meets all conditions.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Whether there is no condition.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The conditions.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

fn requirement(
    key: &str,
    operator: Operator,
    values: Vec<String>,
    exact: bool,
) -> Result<Requirement, Status> {
    Requirement::new(key, operator, values, exact).map_err(Status::bad_request)
}

// === impl Requirement ===

impl Requirement {
    /// A checked condition; what is wrong in Kubernetes' words.
    fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        exact: bool,
    ) -> Result<Self, String> {
        let mut wrong = Vec::new();
        if let Some(why) = key_problem(key) {
            wrong.push(format!("key: Invalid value: {key:?}: {why}"));
        }
        let listed = Value::from(values.clone());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() && !exact => wrong.push(format!(
                "values: Invalid value: {listed}: for 'in', 'notin' operators, values set can't be empty"
            )),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => wrong.push(format!(
                "values: Invalid value: {listed}: values set must be empty for exists and does not exist"
            )),
            Operator::GreaterThan | Operator::LessThan => {
                for (at, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        wrong.push(format!(
                            "values[{at}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                        ));
                    }
                }
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            if let Some(why) = value_problem(value) {
                wrong.push(format!("values[{at}][{key}]: Invalid value: {value:?}: {why}"));
            }
        }
        match wrong.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn matches(&self, labels: &Value) -> bool {
        let label = labels.get(&self.key).and_then(Value::as_str);
        let listed = |label: &str| self.values.iter().any(|v| v == label);
        let compare = |want: std::cmp::Ordering| {
            let number = label.and_then(|l| l.parse::<i64>().ok());
            let bound = self.values.first().and_then(|v| v.parse::<i64>().ok());
            number.zip(bound).is_some_and(|(n, b)| n.cmp(&b) == want)
        };
        match self.operator {
            Operator::In => label.is_some_and(listed),
            Operator::NotIn => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => compare(std::cmp::Ordering::Greater),
            Operator::LessThan => compare(std::cmp::Ordering::Less),
        }
    }
}

// === impl Parser ===

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.as_slice().first().unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
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

fn whole(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).ok()
}

fn fits(regex: &Option<Regex>, text: &str) -> bool {
    regex.as_ref().is_none_or(|r| r.is_match(text))
}

fn name_rule() -> String {
    format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
    )
}

/// What is wrong with a label key.
fn key_problem(key: &str) -> Option<String> {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(NAME));
    static PREFIXES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(SUBDOMAIN));
    let parts: Vec<&str> = key.split('/').collect();
    let mut wrong: Vec<String> = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".into());
            } else {
                if prefix.len() > 253 {
                    wrong.push("prefix part must be no more than 253 characters".into());
                }
                if !fits(&PREFIXES, prefix) {
                    wrong.push(format!("prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"));
                }
            }
            *name
        }
        _ => {
            return Some(format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                name_rule()
            ));
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 characters".into());
    }
    if !fits(&NAMES, name) {
        wrong.push(format!("name part {}", name_rule()));
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// What is wrong with a label value.
fn value_problem(value: &str) -> Option<String> {
    static VALUES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(&format!("({NAME})?")));
    let mut wrong: Vec<String> = Vec::new();
    if value.len() > 63 {
        wrong.push("must be no more than 63 characters".into());
    }
    if !fits(&VALUES, value) {
        wrong.push(format!("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({NAME})?')"));
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}
