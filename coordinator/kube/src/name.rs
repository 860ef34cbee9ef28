//! Names of objects and namespaces, validated as Kubernetes validates them.
//!
//! A text from outside (a query parameter, an annotation, a flag, a path) becomes part of a request's path only as one of
//! these. So it holds no slash, no question mark and no dots alone, and it is bounded.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The most bytes of a name that an error shows.
const SHOWN: usize = 64;
/// The most bytes of an RFC 1123 label.
const LABEL_MAX: usize = 63;
/// The most bytes of an RFC 1123 subdomain.
const SUBDOMAIN_MAX: usize = 253;

/// The name of a namespace: an RFC 1123 label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Namespace(String);

/// The name of an object: an RFC 1123 subdomain, which is what most kinds take. Kinds that take only a label, such as
/// Jobs' pods and Services, check with [`Name::label`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown:?} is not valid: {rule}")]
pub struct NameError {
    what: &'static str,
    shown: String,
    rule: &'static str,
}

/// What a name must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Label,
    Subdomain,
}

// === impl Namespace ===

impl Namespace {
    /// Checks the name of a namespace.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Rule::Label.check("namespace", text).map(Self)
    }
}

// === impl Name ===

impl Name {
    /// Checks the name of an object whose kind takes a subdomain.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Rule::Subdomain.check("name", text).map(Self)
    }

    /// Checks the name of an object whose kind takes only a label.
    pub fn label(text: &str) -> Result<Self, NameError> {
        Rule::Label.check("name", text).map(Self)
    }
}

// === impl Rule ===

impl Rule {
    fn check(self, what: &'static str, text: &str) -> Result<String, NameError> {
        let refused = |rule| Err(NameError { what, shown: shown(text), rule });
        match self {
            _ if text.is_empty() => refused("it is empty"),
            Self::Label if text.len() > LABEL_MAX => refused("must be no more than 63 characters"),
            Self::Subdomain if text.len() > SUBDOMAIN_MAX => {
                refused("must be no more than 253 characters")
            }
            Self::Label if !is_label_text(text) => refused(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                 and must start and end with an alphanumeric character",
            ),
            Self::Subdomain if !text.split('.').all(is_label_text) => refused(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                 and must start and end with an alphanumeric character",
            ),
            _ => Ok(text.to_owned()),
        }
    }
}

/// Whether the text is an RFC 1123 label, such as the name of a namespace.
pub fn is_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_label_text(text)
}

/// Whether the text is an RFC 1123 subdomain, such as the name of a pod.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_label_text)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label_text(text: &str) -> bool {
    let known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(known)
        && bytes.last().is_some_and(known)
        && bytes.iter().all(|byte| known(byte) || *byte == b'-')
}

/// The text, cut so that an error stays readable.
fn shown(text: &str) -> String {
    let mut end = text.len().min(SHOWN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let rest = if end < text.len() { "…" } else { "" };
    format!("{}{rest}", text.get(..end).unwrap_or_default())
}

// === impl NameError ===

impl NameError {
    /// Says what the name is of, such as `query parameter namespace`.
    #[must_use]
    pub fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    pub(crate) fn no_key(text: &str) -> Self {
        Self { what: "key", shown: shown(text), rule: "write namespace/name" }
    }
}

macro_rules! validated {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    };
}

validated!(Namespace);
validated!(Name);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_kubernetes_takes_is_taken() {
        for text in ["a", "0", "team-a", "x--y", &"a".repeat(63)] {
            assert!(Namespace::parse(text).is_ok() && Name::label(text).is_ok(), "{text}");
        }
        for text in ["a", "a.b", "train-0.1", &"a".repeat(253)] {
            assert!(Name::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_name_that_kubernetes_refuses_is_refused_and_named() {
        let long = "a".repeat(300);
        for text in
            ["", "A", "a/b", "a?b", "-a", "a-", ".", "..", "a..b", "a b", "a%2fb", "é", &long]
        {
            let error = Name::parse(text).unwrap_err().to_string();
            let start: String = text.chars().take(SHOWN).collect();
            assert!(error.starts_with(&format!("name \"{start}")), "{error}");
            assert!(Namespace::parse(text).is_err() && Name::label(text).is_err(), "{text}");
            assert!(error.len() < 300, "{error}");
        }
        assert!(Namespace::parse("a.b").is_err(), "a namespace is a label");
        assert!(Namespace::parse(&"a".repeat(64)).is_err());
        assert_eq!(
            Namespace::parse("a/b").unwrap_err().of("query parameter namespace").to_string(),
            "query parameter namespace \"a/b\" is not valid: a lowercase RFC 1123 label must consist of lower case \
             alphanumeric characters or '-', and must start and end with an alphanumeric character"
        );
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_segment_of_a_path(text in "[a-z0-9./?#%A-Z_é -]{0,8}|\\PC{0,40}|[a-z.-]{0,300}") {
            if let Ok(name) = Name::parse(&text) {
                prop_assert!(!name.contains(['/', '?', '#', '%', '\\', ' ']));
                prop_assert!(name.as_str() != "." && name.as_str() != "..");
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
                prop_assert!((1..=253).contains(&name.len()));
            }
            if let Ok(namespace) = Namespace::parse(&text) {
                prop_assert!(Name::parse(&namespace).is_ok(), "every label is a subdomain");
                prop_assert!(namespace.len() <= 63 && !namespace.contains('.'));
            }
        }
    }
}
