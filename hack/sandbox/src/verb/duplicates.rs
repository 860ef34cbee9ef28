//! Fields that stand twice in a JSON body. Parsing takes the last one; strict validation refuses it.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The duplicate fields of a body, as `duplicate field "spec.x"`, in order. A body that is no JSON has none.
pub fn find(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let seed = Walk { path: String::new(), found: &mut found };
    // Syntax errors are reported by the parser proper.
    let _syntax = seed.deserialize(&mut serde_json::Deserializer::from_slice(body));
    found
}

struct Walk<'a> {
    path: String,
    found: &'a mut Vec<String>,
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
        let path = self.path;
        while seq
            .next_element_seed(Walk { path: format!("{path}[{at}]"), found: &mut *self.found })?
            .is_some()
        {
            at += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path =
                if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if !seen.insert(key) {
                self.found.push(format!("duplicate field {path:?}"));
            }
            map.next_value_seed(Walk { path, found: &mut *self.found })?;
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
