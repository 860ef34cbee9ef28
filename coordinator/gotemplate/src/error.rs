//! What went wrong, where, in the words that Go uses.

use std::fmt;

/// When an error came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The template is malformed; it was never run.
    Parse,
    /// The template ran into something its data or arguments do not allow.
    Exec,
    /// A bound was reached while the template ran. To Go's users this is an exec error.
    Limit,
}

/// A template that does not parse or does not execute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", Shown(self))]
pub struct Error {
    /// When it came up.
    pub class: Class,
    /// The name that the outermost template was parsed under.
    pub template: String,
    /// The line in the source, from 1.
    pub line: usize,
    /// The byte in the line, from 0.
    pub column: usize,
    /// The definition that was executing; empty for parse errors.
    pub executing: String,
    /// The expression that was being evaluated; empty for parse errors.
    pub expression: String,
    /// What is wrong.
    pub message: String,
}

/// What a function says when it cannot do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// The arguments do not fit: reported as `error calling NAME: …`.
    Call(String),
    /// A bound was reached.
    Limit(String),
}

struct Shown<'a>(&'a Error);

// === impl Class ===

impl Class {
    /// `parse` or `exec`: a limit that is reached while executing is an exec error to the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Exec | Self::Limit => "exec",
        }
    }
}

// === impl Error ===

impl Error {
    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self.class {
            Class::Parse => "template-malformed",
            Class::Exec => "template-failed",
            Class::Limit => "template-limit",
        }
    }
}

// === impl FunctionError ===

impl FunctionError {
    /// The arguments do not fit.
    pub fn call(message: impl Into<String>) -> Self {
        Self::Call(message.into())
    }
}

impl From<String> for FunctionError {
    fn from(message: String) -> Self {
        Self::Call(message)
    }
}

impl From<&str> for FunctionError {
    fn from(message: &str) -> Self {
        Self::Call(message.to_owned())
    }
}

// === impl Shown ===

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { class, template, line, column, executing, expression, message } = self.0;
        match class {
            Class::Parse => write!(f, "template: {template}:{line}: {message}"),
            Class::Exec | Class::Limit => {
                let executing = crate::quote::quoted(executing);
                write!(
                    f,
                    "template: {template}:{line}:{column}: executing {executing} at <{expression}>: {message}"
                )
            }
        }
    }
}

/// The line (from 1) and the column (bytes, from 0) of a position.
pub(crate) fn locate(source: &str, position: usize) -> (usize, usize) {
    let before = source.as_bytes().get(..position).unwrap_or(source.as_bytes());
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = match before.iter().rposition(|byte| *byte == b'\n') {
        Some(newline) => position - newline - 1,
        None => position,
    };
    (line, column)
}
