//! A text that lies where it is used, as long as it is short.
//!
//! A table of a hundred thousand ranks has two hundred thousand ids and addresses. As strings each would lie
//! elsewhere in memory, and getting and giving back those places takes longer than all that is done with them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use gotemplate::{Data, Text, Value};
use serde::{Serialize, Serializer};

/// How many bytes lie in the text itself.
const ROOM: usize = 22;

/// A text, usually of a few bytes: the id or the address of a device.
#[derive(Clone)]
pub struct Short(Place);

#[derive(Clone)]
enum Place {
    Here { length: u8, bytes: [u8; ROOM] },
    There(Box<str>),
}

// === impl Short ===

impl Short {
    /// The empty text.
    pub const EMPTY: Self = Self(Place::Here { length: 0, bytes: [0; ROOM] });

    /// The text as a slice.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // What is here was a text when it came, so this never fails.
            Place::Here { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Place::There(text) => text,
        }
    }

    /// The bytes of the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Here { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Place::There(text) => text.as_bytes(),
        }
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl Default for Short {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<&str> for Short {
    #[inline]
    fn from(text: &str) -> Self {
        let mut bytes = [0; ROOM];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text.as_bytes());
                Self(Place::Here { length, bytes })
            }
            _ => Self(Place::There(text.into())),
        }
    }
}

impl Deref for Short {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Short {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Short {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Short {}

impl PartialEq<str> for Short {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Short {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialOrd for Short {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Short {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Short {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl Data for Short {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Text(Text::Borrowed(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_needs_no_more_room_than_a_string() {
        assert_eq!(size_of::<Short>(), size_of::<String>());
    }

    proptest! {
        #[test]
        fn a_text_of_any_length_is_what_it_was_made_of(one in ".{0,30}", other in ".{0,30}") {
            let (short, second) = (Short::from(one.as_str()), Short::from(other.as_str()));
            prop_assert_eq!(short.as_str(), &one);
            prop_assert_eq!(short.cmp(&second), one.cmp(&other));
            prop_assert_eq!(short == second, one == other);
            prop_assert_eq!(short.is_empty(), one.is_empty());
            prop_assert_eq!(format!("{short}{short:?}"), format!("{one}{one:?}"));
        }
    }
}
