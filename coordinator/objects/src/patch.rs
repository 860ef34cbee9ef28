//! JSON patch (RFC 6902) and JSON merge patch (RFC 7396), as Kubernetes reads them.
//!
//! Where the API server is laxer than the RFCs, so is this: `test` for null passes where nothing is,
//! `replace` sets what is not there, a missing `value` is null, places count from the end when
//! negative.

use serde_json::{Map, Value};

use crate::status::{Details, Status};

#[cfg(test)]
mod tests;

/// How the body of a PATCH is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// A list of operations, `application/json-patch+json`.
    Json,
    /// An object to merge, `application/merge-patch+json`.
    Merge,
    /// An object to merge by the kind's rules, `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml` (or `+json`)
    Apply,
}

/// More operations than this are refused.
pub const MAX_OPERATIONS: usize = 10_000;
/// No patch nests deeper: every walk over objects is recursive, and clients stop reading at 128.
const MAX_DEPTH: usize = 120;
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

// === impl PatchKind ===

impl PatchKind {
    /// The kind behind a content type, parameters aside.
    pub fn of_content_type(text: &str) -> Option<Self> {
        match text.split(';').next().unwrap_or("").trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// 422 for a patch that is well formed but does not fit the object. Kubernetes does not say why.
pub(crate) fn unprocessable() -> Status {
    let mut status = Status::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    status.details = Some(Box::<Details>::default());
    status
}

/// The object after a JSON patch.
pub fn json_patch(live: &Value, patch: &Value) -> Result<Value, Status> {
    let Value::Array(operations) = patch else {
        return Err(undecodable(patch, "[]handlers.jsonPatchOp"));
    };
    if let Some(odd) = operations.iter().find(|o| !o.is_object()) {
        return Err(undecodable(odd, "handlers.jsonPatchOp"));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    operate(live, operations).map_err(|_| unprocessable())
}

/// The object after some operations, or the index of the first that does not fit. Copies and depth are
/// bounded.
pub fn operate(live: &Value, operations: &[Value]) -> Result<Value, usize> {
    let mut object = live.clone();
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        step(&mut object, operation, &mut copied).ok_or(index)?;
    }
    Ok(object)
}

fn undecodable(value: &Value, wanted: &str) -> Status {
    let found = match value {
        Value::Null | Value::Object(_) => "object",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Status::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
    ))
}

/// One operation; none when it does not fit.
fn step(object: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = text("path")?;
    match text("op")? {
        "add" => add(object, path, value()),
        "remove" => remove(object, path).map(drop),
        "replace" => replace(object, path, value()),
        "move" => {
            let moved = remove(object, text("from")?)?;
            add(object, path, moved)
        }
        "copy" => {
            let found = get(object, text("from")?)?.cloned().unwrap_or(Value::Null);
            *copied += found.to_string().len();
            if *copied > MAX_COPIED_BYTES {
                return None;
            }
            add(object, path, found)
        }
        "test" => {
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            let found = if path.is_empty() { Some(&*object) } else { get(object, path)? };
            (found.unwrap_or(&Value::Null) == wanted).then_some(())
        }
        _ => None,
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The parts of a pointer above its last token, and that token. None for the root.
fn split(path: &str) -> Option<(Vec<String>, String)> {
    let mut tokens: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let last = tokens.pop()?;
    Some((tokens, last))
}

fn place(token: &str, length: usize) -> Option<usize> {
    let at: i64 = token.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at + length } else { at };
    usize::try_from(at).ok().filter(|_| at < length)
}

fn child<'a>(parent: &'a mut Value, token: &str) -> Option<&'a mut Value> {
    match parent {
        Value::Object(map) => map.get_mut(token),
        Value::Array(items) => {
            let at = place(token, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn container<'a>(object: &'a mut Value, tokens: &[String]) -> Option<&'a mut Value> {
    let found = tokens.iter().try_fold(object, |parent, token| child(parent, token))?;
    (found.is_object() || found.is_array()).then_some(found)
}

/// What stands at a path: none when its parent is absent, an inner none when it is.
fn get<'a>(object: &'a Value, path: &str) -> Option<Option<&'a Value>> {
    let (above, last) = split(path)?;
    let mut parent = object;
    for token in &above {
        parent = match parent {
            Value::Object(map) => map.get(token)?,
            Value::Array(items) => items.get(place(token, items.len())?)?,
            _ => return None,
        };
    }
    match parent {
        Value::Object(map) => Some(map.get(&last)),
        Value::Array(items) => Some(Some(items.get(place(&last, items.len())?)?)),
        _ => None,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Where a value goes, unless it would then nest too deep.
fn split_for(path: &str, value: &Value) -> Option<(Vec<String>, String)> {
    split(path).filter(|(above, _)| above.len() + 1 + depth(value) <= MAX_DEPTH)
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    let (above, last) = split_for(path, &value)?;
    match container(object, &above)? {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = place(&last, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (above, last) = split(path)?;
    match container(object, &above)? {
        Value::Object(map) => map.remove(&last),
        Value::Array(items) => {
            let at = place(&last, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return None;
        }
        *object = value;
        return Some(());
    }
    let (above, last) = split_for(path, &value)?;
    match container(object, &above)? {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(items) => {
            let at = place(&last, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

/// The object after a merge patch.
pub fn merge_patch(mut live: Value, patch: &Value) -> Value {
    lay(&mut live, patch);
    live
}

fn lay(target: &mut Value, patch: &Value) {
    let Value::Object(entries) = patch else {
        *target = patch.clone();
        prune(target);
        return;
    };
    let Value::Object(map) = target else {
        *target = patch.clone();
        prune(target);
        return;
    };
    for (key, value) in entries {
        if value.is_null() {
            map.remove(key);
        } else {
            lay(map.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// Drops nulls from objects, those inside lists too.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            drop_nulls(map);
            map.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn drop_nulls(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
}
