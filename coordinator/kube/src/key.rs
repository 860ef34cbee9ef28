//! Namespace and name of an object.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::name::{Name, NameError, Namespace};

/// Namespace and name of an object that was seen in the cluster. An object of no namespace has an empty one.
///
/// What comes from outside is validated first: see [`Namespace`] and [`Name`], or parse `"namespace/name"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// The namespace; empty for an object of no namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

// === impl ObjectKey ===

impl ObjectKey {
    /// The key of this namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = NameError;

    /// Reads `namespace/name`, both validated.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| NameError::no_key(text))?;
        let (namespace, name) = (Namespace::parse(namespace)?, Name::parse(name)?);
        Ok(Self::new(namespace, name))
    }
}

impl From<(Namespace, Name)> for ObjectKey {
    fn from((namespace, name): (Namespace, Name)) -> Self {
        Self::new(namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_it_is_read() {
        let key: ObjectKey = "team-a/train.1".parse().unwrap();
        assert_eq!(key, ObjectKey::new("team-a", "train.1"));
        assert_eq!(key.to_string(), "team-a/train.1");
        assert_eq!(ObjectKey::new("", "node-1").to_string(), "node-1");
    }

    #[test]
    fn keys_are_ordered_by_namespace_and_then_by_name() {
        let mut keys = [("b", "a"), ("a", "z"), ("a", "b")].map(|(a, b)| ObjectKey::new(a, b));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/b", "a/z", "b/a"]);
    }

    #[test]
    fn a_text_that_is_no_key_is_refused() {
        for text in ["", "a", "/a", "a/", "a/b/c", "A/b", "a/b?x", "a b/c"] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text}");
        }
    }
}
