//! What expressions are worth.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use super::{SelectorError, Version};
use muster_kube::Quantity;

/// What an expression is worth.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Rc<str>),
    /// Several.
    List(Rc<[Value]>),
    /// Several by name.
    Map(Rc<BTreeMap<String, Value>>),
    /// An amount.
    Quantity(Quantity),
    /// A version.
    Version(Rc<Version>),
    /// One that may be missing.
    Optional(Option<Rc<Value>>),
    /// The device.
    Device,
    /// Everything that is known of the device, or that it has, by domain.
    Domains(Facts),
    /// The same of one domain.
    Domain(Facts, Rc<str>),
}

/// Which facts of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facts {
    /// What is known of it.
    Attributes,
    /// What it has.
    Capacity,
}

// === impl Value ===

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Its kind, in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Uint(_) => "a whole number",
            Self::Double(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) | Self::Device | Self::Domains(_) | Self::Domain(..) => "a map",
            Self::Quantity(_) => "a quantity",
            Self::Version(_) => "a version",
            Self::Optional(_) => "an optional value",
        }
    }

    /// Values of different kinds differ; numbers are compared as numbers.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Version(a), Self::Version(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| a.equals(b)))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (None, None) => true,
                _ => false,
            },
            _ => numbers(self, other) == Some(Some(Ordering::Equal)),
        }
    }

    /// Which is first, where that can be said.
    pub(super) fn order(&self, other: &Self) -> Result<Option<Ordering>, SelectorError> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Ok(Some(a.cmp(b))),
            (Self::Text(a), Self::Text(b)) => Ok(Some(a.cmp(b))),
            _ => numbers(self, other).ok_or_else(|| {
                SelectorError::no(format!(
                    "{} and {} cannot be compared",
                    self.kind(),
                    other.kind()
                ))
            }),
        }
    }
}

/// Two numbers of any kind; none if one is no number.
fn numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        _ => return None,
    })
}
