//! Strategic merge of a TrainJob's patches onto its runtime's template.
//!
//! Objects merge, other values replace. Lists replace, too, but for those that Kubernetes merges by a key: there the items
//! of the patch stand in the order of the patch, the others keep their place as far as that can be, and new items come
//! first. A patch cannot delete: the schema knows no directives.

use serde_json::{Map, Value};

/// Lists that merge, and by which key.
const KEYS: [(&str, &str); 8] = [
    ("replicatedJobs", "name"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("imagePullSecrets", "name"),
    ("schedulingGates", "name"),
];

/// Lists of words that merge.
const SETS: [&str; 1] = ["finalizers"];

/// Merges a patch into an object.
pub fn merge(into: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            continue;
        }
        match (into.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(Value::Array(old)), Value::Array(new)) => merge_list(key, old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn merge_list(field: &str, old: &mut Vec<Value>, new: &[Value]) {
    if SETS.contains(&field) {
        let fresh = new.iter().filter(|item| !old.contains(item)).cloned().collect::<Vec<_>>();
        old.extend(fresh);
        return;
    }
    match KEYS.iter().find(|(list, _)| *list == field) {
        Some((_, key)) => *old = merge_by(key, std::mem::take(old), new),
        None => *old = new.to_vec(),
    }
}

/// Two runs, those that the patch names and those that it does not, each in its order; of their heads the one of the patch
/// goes first if it is new, or stands first in the old list.
fn merge_by(key: &str, old: Vec<Value>, new: &[Value]) -> Vec<Value> {
    let same = |a: &Value, b: &Value| a.get(key) == b.get(key);
    let mut named: Vec<(Option<usize>, Value)> = Vec::with_capacity(new.len());
    for item in new {
        match named.iter_mut().find(|(_, there)| same(there, item)) {
            Some((_, there)) => merge_item(there, item),
            None => {
                let place = old.iter().position(|there| same(there, item));
                let mut merged =
                    place.and_then(|place| old.get(place)).cloned().unwrap_or_default();
                merge_item(&mut merged, item);
                named.push((place, merged));
            }
        }
    }
    let others = old.into_iter().enumerate();
    let others = others.filter(|(_, item)| !new.iter().any(|named| same(named, item)));
    let mut others = others.peekable();
    let mut all = Vec::new();
    for (place, item) in named {
        while let (Some(place), Some((other, _))) = (place, others.peek())
            && *other < place
        {
            all.extend(others.next().map(|(_, item)| item));
        }
        all.push(item);
    }
    all.extend(others.map(|(_, item)| item));
    all
}

fn merge_item(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => merge(into, patch),
        (into, patch) => *into = patch.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(field: &str, old: &[&str], new: &[&str]) -> Vec<String> {
        let list =
            |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        let mut into = Map::from_iter([(field.to_owned(), list(old))]);
        merge(&mut into, &Map::from_iter([(field.to_owned(), list(new))]));
        let items = into[field].as_array().unwrap().clone();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn items_of_the_patch_stand_in_its_order_and_new_ones_come_first() {
        assert_eq!(names("volumes", &["a"], &["b"]), ["b", "a"]);
        assert_eq!(names("containers", &["A", "B", "C"], &["C", "N", "A"]), ["B", "C", "N", "A"]);
        assert_eq!(names("env", &["a", "b"], &["b"]), ["a", "b"]);
    }

    #[test]
    fn other_lists_are_replaced() {
        assert_eq!(names("tolerations", &["a"], &["b"]), ["b"]);
    }

    #[test]
    fn objects_merge_and_nothing_is_deleted() {
        let mut into = json!({"emptyDir": {}, "name": "a", "deep": {"x": 1}});
        let patch = json!({"configMap": {"name": "c"}, "name": null, "deep": {"y": 2}});
        merge(into.as_object_mut().unwrap(), patch.as_object().unwrap());
        assert_eq!(
            into,
            json!({"emptyDir": {}, "name": "a", "configMap": {"name": "c"}, "deep": {"x": 1, "y": 2}})
        );
    }
}
