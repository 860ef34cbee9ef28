//! Amounts by name.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use super::meta::{or_default, sorted};
use muster_kube::Quantity;

/// Amounts by resource name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(Vec<(Box<str>, Quantity)>);

/// What a container asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What it is sure to get.
    pub requests: ResourceList,
    /// What it cannot go above.
    pub limits: ResourceList,
    /// Which of the pod's claims it uses.
    #[serde(deserialize_with = "or_default")]
    pub claims: Vec<super::Named>,
}

// === impl ResourceList ===

impl ResourceList {
    /// The amount of a resource.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        let at = self.0.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        self.0.get(at).map(|(_, amount)| *amount)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_ref(), *amount))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Box<str>>> FromIterator<(K, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (K, Quantity)>>(pairs: I) -> Self {
        Self(sorted(pairs.into_iter().map(|(name, amount)| (name.into(), amount)).collect()))
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = ResourceList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with quantities")
            }
            fn visit_unit<E>(self) -> Result<ResourceList, E> {
                Ok(ResourceList::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(ResourceList(sorted(pairs)))
            }
        }
        deserializer.deserialize_any(Read)
    }
}
