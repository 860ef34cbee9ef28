//! Quantities as somebody wrote them: `4`, `"500m"`, `2Gi`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A quantity that is not read yet, so that it is passed on as it was written. A number becomes its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct QuantityText(pub String);

/// Quantities by resource, as written.
pub type QuantityTexts = BTreeMap<String, QuantityText>;

// === impl QuantityText ===

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = QuantityText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount: a number, or a text such as 500m or 2Gi")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
        Ok(QuantityText(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
        Ok(QuantityText(number.to_string()))
    }
}
