//! Names, labels and owners: what every object has.

use std::fmt;

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Its name.
    pub name: String,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Its identity.
    pub uid: String,
    /// When it was made.
    pub creation_timestamp: Option<Timestamp>,
    /// When it is to be gone.
    pub deletion_timestamp: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Whose it is.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// An owner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// Whether it is the one that controls.
    pub controller: Option<bool>,
}

/// Names with values, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(Box<str>, Box<str>)>);

// === impl Labels ===

impl Labels {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| value.as_ref())
    }

    /// Sets a name's value.
    pub fn insert(&mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) {
        let (name, value) = (name.into(), value.into());
        match self.0.binary_search_by(|(key, _)| key.cmp(&name)) {
            Ok(at) => {
                if let Some(pair) = self.0.get_mut(at) {
                    pair.1 = value;
                }
            }
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key.as_ref() != name);
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(sorted(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with texts as values")
            }
            fn visit_unit<E>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Box<str>, Option<Box<str>>>()? {
                    pairs.push((pair.0, pair.1.unwrap_or_default()));
                }
                Ok(Labels(sorted(pairs)))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Sorted by name; of two with one name the last stays, as in Go.
pub(super) fn sorted<V>(mut pairs: Vec<(Box<str>, V)>) -> Vec<(Box<str>, V)> {
    let in_order = pairs.is_sorted_by(|a, b| a.0 < b.0);
    if !in_order {
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
    }
    pairs.shrink_to_fit();
    pairs
}

/// For `deserialize_with`: Go writes an empty list as null.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
