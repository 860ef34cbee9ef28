//! Selectors of devices: the part of CEL that Kubernetes offers for them.
//!
//! ```text
//!   device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.startsWith("a")
//!   device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0
//!   cel.bind(gpu, device.attributes["gpu.example.com"], has(gpu.index) && gpu.index in [0, 1])
//! ```
//!
//! A selector is read once ([`Selector::parse`]) and asked of many devices ([`Selector::matches`]). Its length, its depth
//! and the work of one answer are bounded, so that nobody's selector can hold up a cycle. What is not there: timestamps,
//! durations, bytes, messages, and the libraries for addresses and authorization.

mod call;
mod eval;
mod lexer;
mod parse;
mod text;
mod value;
mod version;

use std::collections::BTreeMap;

use muster_kube::Quantity;

use crate::input::AttributeValue;

pub use self::{value::Value, version::Version};

/// Bytes of a selector, as the API allows.
const LONGEST: usize = 10 * 1024;
/// Steps of one answer.
const MOST_STEPS: u64 = 100_000;

/// What a selector can see of a device.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its driver, which is also the domain of names without one.
    pub driver: &'a str,
    /// What is known of it.
    pub attributes: &'a BTreeMap<String, AttributeValue>,
    /// What it has.
    pub capacity: &'a BTreeMap<String, Quantity>,
    /// Whether several claims may have it.
    pub shared: bool,
}

/// A selector that was read.
#[derive(Clone, Debug)]
pub struct Selector {
    root: parse::Expr,
}

/// Why a selector cannot be read, or has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It cannot be read.
    #[error("at byte {at}: {problem}")]
    Syntax {
        /// Where.
        at: usize,
        /// What is wrong.
        problem: String,
    },
    /// It has no answer for a device.
    #[error("{0}")]
    NoAnswer(String),
    /// Its answer takes too long.
    #[error("it takes more than {MOST_STEPS} steps: write a shorter selector")]
    TooLong,
}

// === impl Selector ===

impl Selector {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > LONGEST {
            let problem = format!("it has more than {LONGEST} bytes: write a shorter selector");
            return Err(SelectorError::Syntax { at: LONGEST, problem });
        }
        Ok(Self { root: parse::parse(text)? })
    }

    /// Whether a device is one of those that are meant.
    pub fn matches(&self, device: Subject<'_>) -> Result<bool, SelectorError> {
        match eval::Evaluation::new(device, MOST_STEPS).run(&self.root)? {
            Value::Bool(answer) => Ok(answer),
            other => Err(SelectorError::NoAnswer(format!(
                "its answer is {}, not true or false",
                other.kind()
            ))),
        }
    }
}

// === impl SelectorError ===

impl SelectorError {
    fn no(problem: impl Into<String>) -> Self {
        Self::NoAnswer(problem.into())
    }
}

#[cfg(test)]
mod tests;
