//! The lists of a pod that injection looks at, and how something is added to them.
//!
//! A list that is missing or null is empty, as for the API server; anything else that is no list of objects is refused.

use serde_json::{Value as Json, json};

use super::Problem;

/// No pod has more containers. Each costs an operation, and a patch must not be many times as large as its pod.
pub(super) const MOST_CONTAINERS: usize = 1000;

/// The lists of a pod.
pub(super) struct Frame<'a> {
    pub(super) volumes: List<'a>,
    pub(super) init: List<'a>,
    pub(super) containers: List<'a>,
}

/// A list of objects and where it is, or would be.
pub(super) struct List<'a> {
    pub(super) items: &'a [Json],
    pointer: String,
    there: bool,
}

// === impl Frame ===

impl<'a> Frame<'a> {
    pub(super) fn read(pod: &'a Json) -> Result<Self, Problem> {
        let Some(spec) = pod.get("spec").and_then(Json::as_object) else {
            return Err(Problem::Malformed { field: "spec".into(), should: "an object" });
        };
        let list = |key: &str| List::read(spec.get(key), format!("/spec/{key}"));
        let frame = Self {
            volumes: list("volumes")?,
            init: list("initContainers")?,
            containers: list("containers")?,
        };
        if frame.containers.items.is_empty() {
            let field = "spec.containers".into();
            return Err(Problem::Malformed { field, should: "a list of one container or more" });
        }
        let count = frame.containers.items.len() + frame.init.items.len();
        if count > MOST_CONTAINERS {
            return Err(Problem::TooMany { count });
        }
        Ok(frame)
    }

    /// The containers that run beside or after the table's arrival, and so can use it.
    pub(super) fn users(&self) -> impl Iterator<Item = &'a Json> {
        let sidecars = self.init.items.iter().filter(|container| is_sidecar(container));
        self.containers.items.iter().chain(sidecars)
    }
}

// === impl List ===

impl<'a> List<'a> {
    pub(super) fn read(list: Option<&'a Json>, pointer: String) -> Result<Self, Problem> {
        let (items, there): (&[Json], _) = match list {
            None | Some(Json::Null) => (&[], false),
            Some(Json::Array(items)) => (items, true),
            Some(_) => return Err(malformed(&pointer, "a list")),
        };
        match items.iter().position(|item| !item.is_object()) {
            Some(index) => Err(malformed(&format!("{pointer}/{index}"), "an object")),
            None => Ok(Self { items, pointer, there }),
        }
    }

    /// The operation that adds something to the end. Good for one: the second would not know of the first.
    pub(super) fn append(&self, item: Json) -> Json {
        match self.there {
            true => add(&format!("{}/-", self.pointer), item),
            false => add(&self.pointer, json!([item])),
        }
    }
}

/// The operation that adds a value.
pub(super) fn add(path: &str, value: Json) -> Json {
    json!({"op": "add", "path": path, "value": value})
}

/// A key as part of a JSON pointer.
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The name of an object in a list.
pub(super) fn name(item: &Json) -> &str {
    item["name"].as_str().unwrap_or_default()
}

/// Whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Json) -> bool {
    container["restartPolicy"] == "Always" && name(container) != crate::names::WAITER
}

/// Whether a mount is at the path, however it is written.
pub(super) fn same_path(mount: &Json, path: &str) -> bool {
    fn parts(path: &str) -> impl Iterator<Item = &str> {
        path.split('/').filter(|part| !part.is_empty() && *part != ".")
    }
    mount.as_str().is_some_and(|mount| parts(mount).eq(parts(path)))
}

/// `/spec/containers/0` is `spec.containers[0]` to people.
fn malformed(pointer: &str, should: &'static str) -> Problem {
    let mut field = String::new();
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => field.push_str(&format!("[{part}]")),
            false if field.is_empty() => field.push_str(part),
            false => field.push_str(&format!(".{part}")),
        }
    }
    Problem::Malformed { field, should }
}
