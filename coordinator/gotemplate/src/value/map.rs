//! Maps with text keys: views of the data, or made by functions.

use std::rc::Rc;

use super::data::holds_any;
use super::{Mapping, Text, Value};

/// A map of no more keys is searched from one end to the other.
const FEW: usize = 12;

/// A map from text to values.
#[derive(Clone)]
pub enum Map<'a> {
    /// A view of the data.
    Borrowed(&'a (dyn Mapping + 'a)),
    /// Made by a function.
    Shared(Rc<Entries<'a>>),
}

/// The entries of a map that a function made, ordered by key.
pub struct Entries<'a> {
    entries: Vec<(Text<'a>, Value<'a>)>,
    depth: u32,
}

// === impl Map ===

impl<'a> Map<'a> {
    /// A map to anything; of equal keys the last one counts.
    pub fn of_any(mut entries: Vec<(Text<'a>, Value<'a>)>) -> Self {
        // Stable, so that equal keys keep their order.
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        // Of equal keys the last one stays.
        entries.dedup_by(|next, kept| {
            let same = *next.0 == *kept.0;
            if same {
                std::mem::swap(next, kept);
            }
            same
        });
        let depth = 1 + entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0);
        Self::Shared(Rc::new(Entries { entries, depth }))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Borrowed(map) => map.len(),
            Self::Shared(map) => map.entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value<'a>> {
        match self {
            Self::Borrowed(map) => map.get(std::str::from_utf8(key).ok()?),
            // In a few keys most differ by their length alone.
            Self::Shared(map) if map.entries.len() <= FEW => {
                let found = map.entries.iter().find(|(name, _)| **name == *key)?;
                Some(found.1.clone())
            }
            Self::Shared(map) => {
                let found = map.entries.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
                map.entries.get(found).map(|(_, value)| value.clone())
            }
        }
    }

    /// All entries, ordered by the bytes of their keys.
    pub fn entries(&self) -> Vec<(Text<'a>, Value<'a>)> {
        match self {
            Self::Borrowed(map) => {
                map.entries().into_iter().map(|(key, value)| (key.into(), value)).collect()
            }
            Self::Shared(map) => map.entries.clone(),
        }
    }

    /// The name of the type, as Go prints it.
    pub fn type_name(&self) -> &'a str {
        match self {
            Self::Borrowed(map) => map.type_name(),
            Self::Shared(_) => "map[string]interface {}",
        }
    }

    /// What a key that is not there stands for: nothing, or the zero of a typed map.
    pub(crate) fn zero(&self) -> Value<'a> {
        match self.type_name().strip_prefix("map[string]") {
            Some("string") => Value::from(""),
            Some("bool") => Value::Bool(false),
            Some("int") => Value::Int(0),
            Some("uint64") => Value::Uint(0),
            Some("float64") => Value::Float(0.0),
            _ => Value::Nil,
        }
    }

    /// Whether the values are held as anything, and not as one type.
    pub(crate) fn holds_any(&self) -> bool {
        holds_any(self.type_name())
    }

    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::Borrowed(_) => 1,
            Self::Shared(map) => map.depth,
        }
    }
}
