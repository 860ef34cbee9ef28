//! One entry of `metadata.managedFields`, read, written and ordered as Kubernetes does.

use serde_json::{Map, Value};

use crate::fieldset::FieldSet;

/// What one manager owns by one way of writing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// The manager's name.
    pub manager: String,
    /// By apply, not by update.
    pub is_apply: bool,
    /// The version in which it wrote.
    pub api_version: String,
    /// Through which subresource; empty for the main endpoint.
    pub subresource: String,
    /// When it last took a field.
    pub time: Option<String>,
    /// What it owns.
    pub fields: FieldSet,
}

/// Reads all entries. An error when one is malformed, as then none counts.
pub fn decode(list: Vec<Value>) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len());
    for (at, value) in list.into_iter().enumerate() {
        let entry = Entry::read(at, value)?;
        // A later entry of the same identity stands for the earlier one.
        entries.retain(|e| !e.is_same(&entry));
        entries.push(entry);
    }
    Ok(entries)
}

/// Writes the entries in Kubernetes' order. None when there are none.
pub fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| {
        // "Apply" sorts before "Update".
        b.is_apply
            .cmp(&a.is_apply)
            .then_with(|| a.seconds().cmp(b.seconds()))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a.api_version.cmp(&b.api_version))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
    Some(Value::Array(entries.into_iter().map(Entry::write).collect()))
}

// === impl Entry ===

impl Entry {
    /// An entry for an update, owning nothing yet.
    pub fn update(manager: &str, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            is_apply: false,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
            time: None,
            fields: FieldSet::new(),
        }
    }

    /// An entry for an apply, owning nothing yet.
    pub fn apply(manager: &str, api_version: &str, subresource: &str) -> Self {
        Self { is_apply: true, ..Self::update(manager, api_version, subresource) }
    }

    /// Whether both stand for the same writer. The version of an applier does not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.is_apply == other.is_apply
            && self.subresource == other.subresource
            && (self.is_apply || self.api_version == other.api_version)
    }

    /// The text by which Kubernetes sorts managers.
    pub fn id(&self) -> String {
        let mut id = format!(
            "{{\"manager\":{},\"operation\":\"{}\"",
            Value::from(self.manager.as_str()),
            self.operation()
        );
        if !self.is_apply {
            id.push_str(&format!(",\"apiVersion\":\"{}\"", self.api_version));
        }
        if !self.subresource.is_empty() {
            id.push_str(&format!(",\"subresource\":\"{}\"", self.subresource));
        }
        id.push('}');
        id
    }

    /// How conflicts name this entry: `"a" with subresource "status" using v1`.
    pub fn describe(&self) -> String {
        let mut text = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource \"{}\"", self.subresource));
        }
        if !self.is_apply {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    fn operation(&self) -> &'static str {
        if self.is_apply { "Apply" } else { "Update" }
    }

    /// The time cut to the second; RFC 3339 in UTC sorts as text. Absent is oldest.
    pub(super) fn seconds(&self) -> &str {
        let time = self.time.as_deref().unwrap_or("");
        time.get(..19).unwrap_or(time)
    }

    fn read(at: usize, value: Value) -> Result<Self, String> {
        let mut entry = Self::default();
        let (mut operation, mut fields_type) = (String::new(), String::new());
        let mut fields = Value::Null;
        let map = if let Value::Object(map) = value { map } else { Map::new() };
        for (key, value) in map {
            let place = match key.as_str() {
                "operation" => &mut operation,
                "apiVersion" => &mut entry.api_version,
                "fieldsType" => &mut fields_type,
                "manager" => &mut entry.manager,
                "subresource" => &mut entry.subresource,
                "time" => entry.time.insert(String::new()),
                "fieldsV1" => {
                    fields = value;
                    continue;
                }
                _ => continue,
            };
            if let Value::String(text) = value {
                *place = text;
            }
        }
        entry.is_apply = match operation.as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if entry.api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match fields_type.as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => {
                return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}"));
            }
        }
        entry.time = entry.time.filter(|time| !time.is_empty());
        entry.fields = FieldSet::take_fields_v1(fields)?;
        Ok(entry)
    }

    fn write(self) -> Value {
        let mut map = Map::new();
        let operation = self.operation();
        map.insert("apiVersion".to_owned(), Value::String(self.api_version));
        map.insert("fieldsType".to_owned(), Value::from("FieldsV1"));
        map.insert("fieldsV1".to_owned(), self.fields.into_fields_v1());
        if !self.manager.is_empty() {
            map.insert("manager".to_owned(), Value::String(self.manager));
        }
        map.insert("operation".to_owned(), Value::from(operation));
        if !self.subresource.is_empty() {
            map.insert("subresource".to_owned(), Value::String(self.subresource));
        }
        if let Some(time) = self.time {
            map.insert("time".to_owned(), Value::String(time));
        }
        Value::Object(map)
    }
}
