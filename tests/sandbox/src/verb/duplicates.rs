//! Fields that stand twice in a JSON body. Parsing takes the last one; strict validation refuses it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The duplicate fields of a body, as `duplicate field "spec.x"`, in order. A body that is no JSON has none.
pub fn find(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let seed = Walk { place: &Place::Top, found: &mut found };
    // Syntax errors are reported by the parser proper.
    let _syntax = seed.deserialize(&mut serde_json::Deserializer::from_slice(body));
    found
}

struct Walk<'a> {
    place: &'a Place<'a>,
    found: &'a mut Vec<String>,
}

/// Where the walk is. The text is made only for a duplicate: most bodies have none.
enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(Self::Top, key) => f.write_str(key),
            Self::Field(above, key) => write!(f, "{above}.{key}"),
            Self::Item(above, at) => write!(f, "{above}[{at}]"),
        }
    }
}

/// A field's name, borrowed from the body where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        loop {
            let place = Place::Item(self.place, at);
            let item = Walk { place: &place, found: &mut *self.found };
            if seq.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            let place = Place::Field(self.place, &key);
            if seen.contains(&key) {
                self.found.push(format!("duplicate field {:?}", place.to_string()));
            }
            map.next_value_seed(Walk { place: &place, found: &mut *self.found })?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_by_their_path() {
        let body = br#"{"a": 1, "b": {"c": [{"d": 1, "d": 2}], "c": []}, "a": null}"#;
        let expected =
            ["duplicate field \"b.c[0].d\"", "duplicate field \"b.c\"", "duplicate field \"a\""];
        assert_eq!(find(body), expected);
        assert!(find(b"{\"a\": {").is_empty());
    }
}
