//! Names, labels and owners: what every object has.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name of the object.
    pub name: String,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// The object's `metadata.uid`.
    pub uid: String,
    /// When it was made.
    pub creation_timestamp: Option<Timestamp>,
    /// When it is to be gone.
    pub deletion_timestamp: Option<Timestamp>,
    /// Labels of the object.
    pub labels: Labels,
    /// Annotations of the object.
    pub annotations: Labels,
    /// Whose it is.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// A reference to the object's owner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Its group and version.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The object's `metadata.uid`.
    pub uid: String,
    /// Whether it is the one that controls.
    pub controller: Option<bool>,
}

/// Names with values, sorted by name. A copy shares them until one of the two changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Option<Arc<Pairs>>);

type Pairs = Vec<(Box<str>, Box<str>)>;

// === impl Labels ===

impl Labels {
    fn of(pairs: Pairs) -> Self {
        // None has one form only, so that those that are equal are the same.
        Self((!pairs.is_empty()).then(|| Arc::new(pairs)))
    }

    fn pairs(&self) -> &[(Box<str>, Box<str>)] {
        self.0.as_ref().map_or(&[], |pairs| pairs.as_slice())
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let pairs = self.pairs();
        let at = pairs.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        pairs.get(at).map(|(_, value)| value.as_ref())
    }

    /// Sets a name's value.
    pub fn insert(&mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) {
        let (name, value) = (name.into(), value.into());
        let pairs = Arc::make_mut(self.0.get_or_insert_default());
        match pairs.binary_search_by(|(key, _)| key.cmp(&name)) {
            Ok(at) => {
                if let Some(pair) = pairs.get_mut(at) {
                    pair.1 = value;
                }
            }
            Err(at) => pairs.insert(at, (name, value)),
        }
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &str) {
        if self.get(name).is_some() {
            let kept = self.pairs().iter().filter(|(key, _)| key.as_ref() != name);
            *self = Self::of(kept.cloned().collect());
        }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self::of(sorted(pairs.collect()))
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
                Ok(Labels::of(sorted(pairs)))
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
