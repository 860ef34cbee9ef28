//! Any object, and its fields by path: a field that has another type than it must have is named.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Class, GroupError};

/// An object, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    raw: Value,
}

/// An owner, as a reference names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRef {
    /// The owner's API version, such as `apps/v1`.
    pub api_version: String,
    /// The owner's kind, such as `Deployment`.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's `metadata.uid`.
    pub uid: String,
}

/// A place in an object.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    object: &'a Object,
    value: &'a Value,
    path: String,
}

const TYPE: &str = "write a value of the field's type";

// === impl Object ===

impl Object {
    /// From JSON. What is no object has no fields.
    pub fn new(raw: Value) -> Self {
        Self { raw }
    }

    /// With its kind, where it came out of a list and does not say it.
    pub fn or_of_kind(mut self, api_version: &str, kind: &str) -> Self {
        if let Some(raw) = self.raw.as_object_mut() {
            raw.entry("apiVersion").or_insert_with(|| api_version.into());
            raw.entry("kind").or_insert_with(|| kind.into());
        }
        self
    }

    /// As it came.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// The object's API version, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        text(self.raw.get("apiVersion"))
    }

    /// The object's kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        text(self.raw.get("kind"))
    }

    /// `apps` and `v1`.
    pub fn group_and_version(&self) -> (&str, &str) {
        let version = self.api_version();
        version.split_once('/').unwrap_or(("", version))
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        text(self.metadata("name"))
    }

    /// Its namespace, empty if it has none.
    pub fn namespace(&self) -> &str {
        text(self.metadata("namespace"))
    }

    /// The object's `metadata.uid`.
    pub fn uid(&self) -> &str {
        text(self.metadata("uid"))
    }

    /// Whether it is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.metadata("deletionTimestamp").is_some_and(|time| !time.is_null())
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata("annotations")?.get(key)?.as_str()
    }

    /// The object's labels, those of other types left out.
    pub fn labels(&self) -> BTreeMap<String, String> {
        words(self.metadata("labels"))
    }

    /// The object's annotations, those of other types left out.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        words(self.metadata("annotations"))
    }

    /// Sets a label that is not there yet.
    pub fn add_label(&mut self, key: &str, value: &str) {
        self.add("labels", key, value);
    }

    /// Sets an annotation that is not there yet.
    pub fn add_annotation(&mut self, key: &str, value: &str) {
        self.add("annotations", key, value);
    }

    /// Who owns it, as it says.
    pub fn owners(&self) -> Vec<OwnerRef> {
        let owners = self.metadata("ownerReferences").and_then(Value::as_array);
        let word = |owner: &Value, key: &str| text(owner.get(key)).to_owned();
        let owner = |owner: &Value| OwnerRef {
            api_version: word(owner, "apiVersion"),
            kind: word(owner, "kind"),
            name: word(owner, "name"),
            uid: word(owner, "uid"),
        };
        owners.into_iter().flatten().map(owner).collect()
    }

    /// It as an owner.
    pub fn reference(&self) -> OwnerRef {
        OwnerRef {
            api_version: self.api_version().to_owned(),
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        }
    }

    /// As people call it: `Pod team-a/p`.
    pub fn shown(&self) -> String {
        match self.namespace().is_empty() {
            true => format!("{} {}", self.kind(), self.name()),
            false => format!("{} {}/{}", self.kind(), self.namespace(), self.name()),
        }
    }

    /// All of it.
    pub fn root(&self) -> Field<'_> {
        Field { object: self, value: &self.raw, path: String::new() }
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.raw.get("metadata")?.get(key)
    }

    fn add(&mut self, place: &str, key: &str, value: &str) {
        let Some(raw) = self.raw.as_object_mut() else { return };
        let metadata = raw.entry("metadata").or_insert_with(|| Map::new().into());
        let Some(metadata) = metadata.as_object_mut() else { return };
        let map = metadata.entry(place).or_insert_with(|| Map::new().into());
        if map.is_null() {
            *map = Map::new().into();
        }
        let Some(map) = map.as_object_mut() else { return };
        map.entry(key).or_insert_with(|| value.into());
    }
}

// === impl Field ===

impl<'a> Field<'a> {
    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is there.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The path of something in it.
    pub fn at(&self, path: &[&str]) -> String {
        let mut whole = self.path.clone();
        for part in path {
            if !whole.is_empty() {
                whole.push('.');
            }
            whole.push_str(part);
        }
        whole
    }

    /// Something in it, of any type.
    pub fn get(&self, path: &[&str]) -> Result<Option<&'a Value>, GroupError> {
        let mut value = self.value;
        for (depth, part) in path.iter().enumerate() {
            if value.is_null() {
                return Ok(None);
            }
            let Some(map) = value.as_object() else {
                let above = path.get(..depth).unwrap_or_default();
                return Err(self.wrong_type(above, value, "an object"));
            };
            let Some(next) = map.get(*part) else { return Ok(None) };
            value = next;
        }
        Ok(Some(value))
    }

    /// A whole number.
    pub fn int(&self, path: &[&str]) -> Result<Option<i64>, GroupError> {
        self.typed(path, "a whole number", Value::as_i64)
    }

    /// The text at a path, if there is one.
    pub fn text(&self, path: &[&str]) -> Result<Option<&'a str>, GroupError> {
        self.typed(path, "text", Value::as_str)
    }

    /// True or false.
    pub fn boolean(&self, path: &[&str]) -> Result<Option<bool>, GroupError> {
        self.typed(path, "true or false", Value::as_bool)
    }

    /// The fields of an object.
    pub fn map(&self, path: &[&str]) -> Result<Option<&'a Map<String, Value>>, GroupError> {
        self.typed(path, "an object", Value::as_object)
    }

    /// A place in it; nothing is checked but the way there.
    pub fn field(&self, path: &[&str]) -> Result<Option<Field<'a>>, GroupError> {
        let at = self.at(path);
        Ok(self.get(path)?.map(|value| Field { object: self.object, value, path: at }))
    }

    /// The items of a list, each an object.
    pub fn objects(&self, path: &[&str]) -> Result<Option<Vec<Field<'a>>>, GroupError> {
        let Some(items) = self.typed(path, "a list", Value::as_array)? else { return Ok(None) };
        let item = |(index, value): (usize, &'a Value)| {
            let path = format!("{}[{index}]", self.at(path));
            let field = Field { object: self.object, value, path };
            match value.is_object() {
                true => Ok(field),
                false => Err(field.wrong_type(&[], value, "an object")),
            }
        };
        items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Some)
    }

    /// What is wrong here.
    pub fn error(
        &self,
        class: Class,
        path: &[&str],
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> GroupError {
        GroupError::new(class, self.object.shown(), self.at(path), detail, remedy)
    }

    fn typed<T>(
        &self,
        path: &[&str],
        wanted: &str,
        read: fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GroupError> {
        let Some(value) = self.get(path)? else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong_type(path, value, wanted))
    }

    fn wrong_type(&self, path: &[&str], value: &Value, wanted: &str) -> GroupError {
        let is = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "another number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.error(Class::WrongType, path, format!("it is {is} and must be {wanted}"), TYPE)
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn words(map: Option<&Value>) -> BTreeMap<String, String> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
