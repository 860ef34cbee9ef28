//! Objects of the built-in kinds as the API server writes them.
//!
//! Its types are Go structs: some fields are written even when unset (`resources: {}`), and unset or
//! empty ones of other kinds never are. Ownership depends on it, so objects are brought to that form.

use serde_json::{Map, Value};

use super::{MapShape, Shape};

// === impl Shape ===

impl Shape {
    /// Writes what is always present and drops nulls, empty lists and empty maps that are not. Does
    /// nothing for custom resources, which keep what they were given.
    pub fn complete(&self, object: &mut Value) {
        match (self.resolve(), object) {
            (Self::Map(map), Value::Object(entries)) => complete(map, entries),
            (Self::List(list), Value::Array(items)) => {
                for item in items {
                    list.item.complete(item);
                }
            }
            _ => {}
        }
    }
}

fn complete(shape: &MapShape, entries: &mut Map<String, Value>) {
    for field in shape.fields.iter().filter(|f| f.zero.is_some()) {
        let there = entries.get(&*field.name).is_some_and(|v| !v.is_null());
        if let Some(zero) = field.zero.as_ref().filter(|_| !there) {
            entries.insert(field.name.to_string(), zero.clone());
        }
    }
    entries.retain(|key, value| {
        let Some(field) = shape.field(key) else {
            if let Some(rest) = &shape.rest {
                rest.complete(value);
            }
            return true;
        };
        field.shape.complete(value);
        let plain_map = || field.shape.as_map().is_some_and(|m| m.fields.is_empty());
        field.zero.is_some()
            || match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(map) => !map.is_empty() || !plain_map(),
                _ => true,
            }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::shape::Shape;

    #[test]
    fn an_empty_struct_that_says_something_stays_and_an_empty_map_goes() {
        let shape = Shape::builtin("apiextensions.k8s.io", "CustomResourceDefinition");
        let mut crd = json!({
            "metadata": {"name": "a", "labels": {}},
            "spec": {"versions": [{
                "name": "v1",
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "default": {}}},
            }]},
        });
        shape.complete(&mut crd);
        assert_eq!(crd["spec"]["versions"][0]["subresources"], json!({"status": {}}));
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(schema["default"], json!({}));
        assert_eq!(crd["metadata"].get("labels"), None);
    }
}
