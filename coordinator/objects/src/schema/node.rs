//! The compiled schema: one [`Node`] per place of the object.

use super::cel::Rule;
use super::format::Format;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// How deep schemas may nest. It bounds every walk, since walks follow the schema.
pub const MAX_DEPTH: usize = 100;

/// One place of a structural schema, with all that is checked there.
#[derive(Debug, Default)]
pub struct Node {
    /// JSON type, empty if none is given.
    pub type_name: String,
    /// Integers and strings alike.
    pub int_or_string: bool,
    /// Null is allowed.
    pub nullable: bool,
    /// Enforced string format.
    pub format: Option<Format>,
    /// Fields of an object.
    pub properties: BTreeMap<String, Node>,
    /// Values of a map.
    pub additional: Option<Additional>,
    /// Items of a list.
    pub items: Option<Box<Node>>,
    /// Unknown fields stay.
    pub preserve: bool,
    /// The object is a resource of its own, with apiVersion, kind and metadata.
    pub embedded: bool,
    /// `atomic`, `set` or `map`.
    pub list_type: Option<String>,
    /// Keys of a list of type `map`.
    pub list_map_keys: Vec<String>,
    /// Value of an absent field.
    pub default: Option<Value>,
    /// Limits on the value.
    pub limits: Limits,
    /// Rules in CEL that the value must obey.
    pub rules: Vec<Rule>,
    /// Whether rules exist here or below.
    pub has_rules: bool,
}

/// What `additionalProperties` says.
#[derive(Debug)]
pub enum Additional {
    /// `true` or `false`.
    Any(bool),
    /// A schema for each value.
    Schema(Box<Node>),
}

/// The checks of a value that are not about its structure.
#[derive(Debug, Default)]
pub struct Limits {
    /// Upper bound and whether it is excluded.
    pub maximum: Option<(f64, bool)>,
    /// Lower bound and whether it is excluded.
    pub minimum: Option<(f64, bool)>,
    /// The number that divides the value.
    pub multiple_of: Option<f64>,
    /// The longest text, in characters.
    pub max_length: Option<i64>,
    /// The shortest text, in characters.
    pub min_length: Option<i64>,
    /// Source and program; a source without program does not compile.
    pub pattern: Option<(String, Result<Regex, String>)>,
    /// How many items a list may have.
    pub max_items: Option<i64>,
    /// How many items a list must have.
    pub min_items: Option<i64>,
    /// No two items alike.
    pub unique_items: bool,
    /// How many fields an object may have.
    pub max_properties: Option<i64>,
    /// How many fields an object must have.
    pub min_properties: Option<i64>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The only values that are allowed.
    pub allowed: Vec<Value>,
    /// Every branch must hold.
    pub all_of: Vec<Node>,
    /// At least one branch must hold.
    pub any_of: Vec<Node>,
    /// Exactly one branch must hold.
    pub one_of: Vec<Node>,
    /// Must not hold.
    pub not: Option<Box<Node>>,
}

// === impl Node ===

impl Node {
    /// The schema of a field of an object or of a value of a map.
    pub fn field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            _ => None,
        }
    }

    /// The schema of a map's values.
    pub fn values(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// Whether the schema accepts a JSON type.
    pub fn accepts(&self, name: &str) -> bool {
        if self.int_or_string {
            name == "integer" || name == "string"
        } else {
            self.type_name == name
        }
    }

    /// Whether any type is asked for.
    pub fn typed(&self) -> bool {
        self.int_or_string || !self.type_name.is_empty()
    }

    /// The types as errors print them.
    pub fn types(&self) -> &str {
        if self.int_or_string { "integer,string" } else { &self.type_name }
    }

    /// The item of `old` that has the same keys as `item`, for lists of type `map`.
    pub fn correlated_item<'a>(&self, item: &Value, old: &'a [Value]) -> Option<&'a Value> {
        if self.list_type.as_deref() != Some("map") || self.list_map_keys.is_empty() {
            return None;
        }
        let keys = self.keys_of(item)?;
        old.iter().find(|candidate| self.keys_of(candidate).is_some_and(|k| k == keys))
    }

    fn keys_of<'a>(&self, item: &'a Value) -> Option<Vec<&'a Value>> {
        self.list_map_keys
            .iter()
            .map(|key| item.get(key).filter(|v| v.is_string() || v.is_number() || v.is_boolean()))
            .collect()
    }
}
