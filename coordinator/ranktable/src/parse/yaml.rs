//! YAML (or JSON, which is YAML) into nodes. Anchors, aliases and tags of one's own are refused: a parser needs none,
//! and a small text could become a large value.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::node::Node;

pub(super) fn read(text: &str) -> Result<Node, String> {
    // No document at all is an empty one.
    if text.trim().is_empty() {
        return Ok(Node::Null);
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_depth: 32,
            flow_nesting_limit: 32,
            max_documents: 1,
        },
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Owned>(text, options)
        .map(|node| node.0)
        .map_err(|error| error.to_string())
}

struct Owned(Node);

struct Nodes;

// === impl Owned ===

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Nodes).map(Self)
    }
}

// === impl Nodes ===

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Self::Value, E> {
        Ok(Node::Int(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Self::Value, E> {
        Ok(i128::try_from(value).map_or_else(|_| Node::Text(value.to_string()), Node::Int))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
        Ok(Node::Text(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Owned(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = Vec::new();
        while let Some((Owned(key), Owned(value))) = entries.next_entry()? {
            let key = key.into_text("a key").map_err(A::Error::custom)?;
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }
}
