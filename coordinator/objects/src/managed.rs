//! Managed fields: who owns which field of an object.
//!
//! [`track_update`] runs after every create, update and patch that is not an apply: what changed moves
//! to the writer's entry, what is gone leaves all entries. Applies are in [`crate::apply`].
//!
//! The objects given here should be complete as the server would return them (defaults filled in),
//! before it sets `status`, uid and the like: that is when Kubernetes tracks, too.

use serde_json::{Map, Value};

use crate::fieldset::FieldSet;
use crate::meta;
use crate::shape::Shape;

mod compare;
mod entry;
mod reset;
#[cfg(test)]
mod tests;

pub use compare::{Diff, compare};
pub use entry::{Entry, decode, encode};
pub use reset::Reset;

/// How many entries of updates an object keeps before the oldest are merged.
const MAX_UPDATE_ENTRIES: usize = 10;

/// Identity and bookkeeping that nobody owns.
fn stripped() -> &'static FieldSet {
    static SET: std::sync::LazyLock<FieldSet> = std::sync::LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &SET
}

/// Removes from a set what is never recorded.
pub(crate) fn strip(set: &mut FieldSet) {
    set.subtract(stripped());
}

/// Sets `metadata.managedFields` of `new` after a create (`live` is none), an update or a patch.
///
/// `subresource` is empty on the main endpoint; `now` is RFC 3339 in whole seconds.
#[expect(clippy::too_many_arguments, reason = "the facts of one write")]
pub fn track_update(
    live: Option<&Value>,
    new: &mut Value,
    manager: &str,
    subresource: &str,
    api_version: &str,
    now: &str,
    shape: &Shape,
    reset: &Reset,
) {
    let sent = meta::edit(new).remove("managedFields");
    let mut entries = starting(live, sent, subresource);
    if !entries.is_empty() || live.is_none_or(|l| meta::uid(l).is_empty()) {
        let diff = differences(live, new, shape, reset);
        let who = Entry::update(manager, api_version, subresource);
        absorb(&mut entries, diff, who, now);
        cap(&mut entries);
    }
    store(new, entries);
}

/// Writes the entries into the object; none leave no field behind.
pub(crate) fn store(object: &mut Value, entries: Vec<Entry>) {
    match encode(entries) {
        Some(list) => {
            meta::edit(object).insert("managedFields".to_owned(), list);
        }
        None => {
            meta::edit(object).remove("managedFields");
        }
    }
}

/// The entries to start from: what the client sent on the main endpoint if that is of use, else the
/// live ones. An empty list, or one with one empty entry, starts anew.
fn starting(live: Option<&Value>, sent: Option<Value>, subresource: &str) -> Vec<Entry> {
    let listed = live.and_then(managed_fields);
    if let Some(Value::Array(list)) = sent {
        // Most writes send what is there; that needs no copy.
        if listed == Some(&list) {
            return decode(list).unwrap_or_default();
        }
        if subresource.is_empty() {
            let blank = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
            if list.is_empty() || (list.len() == 1 && list.iter().all(blank)) {
                return Vec::new();
            }
            if let Ok(entries) = decode(list)
                && !entries.is_empty()
            {
                return entries;
            }
        }
    }
    listed.and_then(|list| decode(list.clone()).ok()).unwrap_or_default()
}

/// `metadata.managedFields` of an object.
pub(crate) fn managed_fields(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// What differs, less what this endpoint does not write.
pub(crate) fn differences(live: Option<&Value>, new: &Value, shape: &Shape, reset: &Reset) -> Diff {
    let mut diff = compare(live, Some(new), shape);
    reset.filter(&mut diff.changed);
    reset.filter(&mut diff.removed);
    diff
}

/// Moves what changed to `who` and takes what is gone from everyone.
pub(crate) fn absorb(entries: &mut Vec<Entry>, diff: Diff, who: Entry, now: &str) {
    for entry in entries.iter_mut() {
        entry.fields.subtract(&diff.changed);
        entry.fields.subtract(&diff.removed);
    }
    let mut taken = diff.changed;
    strip(&mut taken);
    if !taken.is_empty() {
        let entry = match entries.iter_mut().position(|e| e.is_same(&who)) {
            Some(at) => entries.get_mut(at),
            None => {
                entries.push(who);
                entries.last_mut()
            }
        };
        if let Some(entry) = entry {
            entry.fields.union(&taken);
            entry.time = Some(now.to_owned());
        }
    }
    entries.retain(|e| !e.fields.is_empty());
}

/// Merges the oldest updates into one entry per version while there are too many.
fn cap(entries: &mut Vec<Entry>) {
    let mut updates: Vec<Entry> = Vec::new();
    if entries.iter().filter(|e| !e.is_apply).count() <= MAX_UPDATE_ENTRIES {
        return;
    }
    entries.retain_mut(|entry| {
        if entry.is_apply {
            return true;
        }
        updates.push(std::mem::take(entry));
        false
    });
    updates.sort_by(|a, b| a.seconds().cmp(b.seconds()).then_with(|| a.id().cmp(&b.id())));
    let mut excess = updates.len() - MAX_UPDATE_ENTRIES;
    let mut kept: Vec<Entry> = Vec::new();
    // Per version: where the first of the old entries is kept, and whether it is a bucket by now.
    let mut firsts: Vec<(String, usize)> = Vec::new();
    for entry in updates {
        if excess == 0 {
            merge_bucket(&mut kept, entry);
            continue;
        }
        let first = firsts.iter().find(|(version, _)| *version == entry.api_version);
        match first.and_then(|(_, at)| kept.get_mut(*at)) {
            Some(bucket) => {
                bucket.manager = "ancient-changes".to_owned();
                bucket.subresource.clear();
                bucket.fields.union(&entry.fields);
                bucket.time = entry.time;
                excess -= 1;
            }
            None => {
                firsts.push((entry.api_version.clone(), kept.len()));
                kept.push(entry);
            }
        }
    }
    entries.append(&mut kept);
}

/// Keeps an entry, or unites it with the bucket it names.
fn merge_bucket(kept: &mut Vec<Entry>, entry: Entry) {
    match kept.iter_mut().find(|e| e.is_same(&entry)) {
        Some(bucket) => bucket.fields.union(&entry.fields),
        None => kept.push(entry),
    }
}

/// Puts the old times back when nothing but times changed, so that such a write is none.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(old), Some(fresh)) = (managed_fields(live), managed_fields(new)) else { return };
    let timeless = |a: &Value, b: &Value| match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => {
            let key = |m: &Map<String, Value>| m.len() - usize::from(m.contains_key("time"));
            key(a) == key(b) && a.iter().all(|(k, v)| k == "time" || b.get(k) == Some(v))
        }
        _ => a == b,
    };
    if old == fresh || old.len() != fresh.len() {
        return;
    }
    let same = old.iter().zip(fresh).all(|(a, b)| timeless(a, b)) && equal_but_managed(live, new);
    if same {
        let old = Value::Array(old.clone());
        meta::edit(new).insert("managedFields".to_owned(), old);
    }
}

/// Whether two objects are equal but for `metadata.managedFields`.
pub fn equal_but_managed(a: &Value, b: &Value) -> bool {
    fn equal(a: &Map<String, Value>, b: &Map<String, Value>, skip: &str) -> bool {
        let size = |m: &Map<String, Value>| m.len() - usize::from(m.contains_key(skip));
        size(a) == size(b) && a.iter().all(|(k, v)| k == skip || b.get(k) == Some(v))
    }
    match (a.as_object(), b.as_object()) {
        (Some(left), Some(right)) => {
            let metas = (left.get("metadata"), right.get("metadata"));
            equal(left, right, "metadata")
                && match (metas.0.and_then(Value::as_object), metas.1.and_then(Value::as_object)) {
                    (Some(a), Some(b)) => equal(a, b, "managedFields"),
                    _ => metas.0 == metas.1,
                }
        }
        _ => a == b,
    }
}
