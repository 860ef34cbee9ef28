//! Placeholder until the selectors are merged.
use crate::status::Status;
use serde_json::Value;

/// Label selector.
#[derive(Debug, Clone)]
pub struct LabelSelector(String);
/// Field selector.
#[derive(Debug, Clone)]
pub struct FieldSelector(String);

impl LabelSelector {
    /// Parses.
    pub fn parse(text: &str) -> Result<Self, Status> {
        Ok(Self(text.to_owned()))
    }
    /// Matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.split_once('=').is_none_or(|(k, v)| crate::meta::label(object, k) == Some(v))
    }
}
impl FieldSelector {
    /// Parses.
    pub fn parse(text: &str, _allowed: &[&str]) -> Result<Self, Status> {
        Ok(Self(text.to_owned()))
    }
    /// Matches.
    pub fn matches(&self, object: &Value) -> bool {
        let Some((k, v)) = self.0.split_once('=') else { return true };
        let pointer = format!("/{}", k.replace('.', "/"));
        object.pointer(&pointer).and_then(Value::as_str).unwrap_or("") == v
    }
    /// Equality on one field.
    pub fn equals(&self, field: &str) -> Option<&str> {
        self.0.split_once('=').filter(|(k, _)| *k == field).map(|(_, v)| v)
    }
}
