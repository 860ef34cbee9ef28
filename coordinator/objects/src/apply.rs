//! Server-side apply.
//!
//! ```text
//!   config ── fields ──▶ what the applier owns from now on
//!   live + config ── merge ──▶ merged ── prune (owned before, not now, by nobody else) ──▶ new
//!   live vs new ── compare ──▶ conflicts with the other owners, or (forced) taken from them
//! ```
//!
//! The same steps in the same order as Kubernetes, so that the managed fields come out the same.

use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, Path};
use crate::managed::{self, Diff, Entry, Reset};
use crate::meta;
use crate::shape::Shape;
use crate::status::{Cause, Status};

mod fields;
mod merge;
mod remove;
#[cfg(test)]
mod tests;
mod validate;

pub use fields::fields;

/// The annotation in which `kubectl apply` on the client side keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One apply request.
#[derive(Debug, Clone, Copy)]
pub struct Apply<'a> {
    /// The object as it is; none when it is to be created.
    pub live: Option<&'a Value>,
    /// What the applier wants.
    pub config: &'a Value,
    /// The field manager that applies.
    pub manager: &'a str,
    /// Take fields from others instead of failing.
    pub force: bool,
    /// Empty on the main endpoint.
    pub subresource: &'a str,
    /// The version of the endpoint, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the endpoint.
    pub kind: &'a str,
    /// RFC 3339 in whole seconds.
    pub now: &'a str,
    /// How the kind merges.
    pub shape: &'a Shape,
    /// What this endpoint does not write.
    pub reset: &'a Reset,
}

/// A field that another manager owns with another value.
struct Conflict<'e> {
    entry: &'e Entry,
    path: Path,
}

/// What an apply comes to before it is known whether it may.
struct Outcome {
    object: Value,
    owned: FieldSet,
    diff: Diff,
}

/// The object after the apply, managed fields included; not yet defaulted or validated.
pub fn apply(request: Apply<'_>) -> Result<Value, Status> {
    request.check()?;
    let mut entries = request.entries()?;
    let outcome = request.outcome(&entries);
    if !request.force {
        let conflicts = request.conflicts(&entries, &outcome.diff);
        let conflicts = request.without_last_applied(conflicts);
        if !conflicts.is_empty() {
            return Err(refusal(conflicts));
        }
    }
    let mine = Entry::apply(request.manager, request.api_version, request.subresource);
    let mut time = None;
    entries.retain_mut(|entry| {
        if entry.is_same(&mine) {
            time = entry.time.take();
            return false;
        }
        entry.fields.subtract(&outcome.diff.changed);
        entry.fields.subtract(&outcome.diff.removed);
        !entry.fields.is_empty()
    });
    let mut fields = outcome.owned;
    managed::strip(&mut fields);
    if !fields.is_empty() {
        if request.live != Some(&outcome.object) {
            time = Some(request.now.to_owned());
        }
        entries.push(Entry { fields, time, ..mine });
    }
    let mut object = outcome.object;
    if matches!(request.shape, Shape::Named(_)) {
        request.shape.complete(&mut object);
    }
    request.note_last_applied(&mut object);
    managed::store(&mut object, entries);
    Ok(object)
}

// === impl Apply ===

impl Apply<'_> {
    fn check(&self) -> Result<(), Status> {
        let text = |key: &str| self.config.get(key).and_then(Value::as_str).unwrap_or("");
        if text("apiVersion") != self.api_version || text("kind") != self.kind {
            let gvk = gvk(text("apiVersion"), text("kind"));
            return Err(Status::bad_request(format!("invalid object type: {gvk}")));
        }
        if managed::managed_fields(self.config).is_some() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        validate::validate(self.config, self.shape).map_err(|why| {
            Status::new(
                500,
                "",
                format!(
                    "failed to create typed patch object ({}/{}; {}): {why}",
                    meta::namespace(self.config),
                    meta::name(self.config),
                    gvk(self.api_version, self.kind)
                ),
            )
        })
    }

    /// The entries of the live object. When nobody tracked it so far, its fields get an owner first.
    fn entries(&self) -> Result<Vec<Entry>, Status> {
        let Some(live) = self.live else { return Ok(Vec::new()) };
        let list = managed::managed_fields(live).cloned().unwrap_or_default();
        let mut entries = managed::decode(list).map_err(|why| {
            Status::new(500, "", format!("failed to decode managed fields: {why}"))
        })?;
        if entries.is_empty() {
            let who = Entry::update("before-first-apply", self.api_version, self.subresource);
            let diff = managed::differences(None, live, self.shape, self.reset);
            managed::absorb(&mut entries, diff, who, self.now);
        }
        Ok(entries)
    }

    fn outcome(&self, entries: &[Entry]) -> Outcome {
        let empty = Value::Object(Map::new());
        let live = self.live.unwrap_or(&empty);
        let mut object = merge::merge(live, self.config, self.shape);
        let mut owned = fields(self.config, self.shape);
        self.reset.filter(&mut owned);
        self.prune(&mut object, entries, &owned);
        let diff = managed::differences(Some(live), &object, self.shape, self.reset);
        Outcome { object, owned, diff }
    }

    /// Removes what this manager applied before, does not now, and nobody else owns.
    fn prune(&self, object: &mut Value, entries: &[Entry], owned: &FieldSet) {
        let mine = Entry::apply(self.manager, self.api_version, self.subresource);
        let Some(last) = entries.iter().find(|e| e.is_same(&mine)).map(|e| &e.fields) else {
            return;
        };
        let last = fields::with_named(last, self.shape);
        let mut given_up = last.clone();
        given_up.subtract(&fields::with_named(owned, self.shape));
        if given_up.is_empty() {
            return;
        }
        let mut managed = owned.clone();
        for entry in entries.iter().filter(|e| !e.is_same(&mine)) {
            managed.union(&entry.fields);
        }
        let managed = fields::with_named(&managed, self.shape);
        let merged = fields::with_named(&fields(object, self.shape), self.shape);

        // Without all that was applied before; then what anyone owns comes back.
        let mut pruned = object.clone();
        remove::remove(&mut pruned, last.view(), self.shape);
        let mut keep = fields::with_named(&fields(&pruned, self.shape), self.shape);
        keep.union(&managed);
        let mut gone = merged.clone();
        gone.subtract(&keep);
        let mut pruned = object.clone();
        remove::remove(&mut pruned, gone.view(), self.shape);

        // Only what was applied before goes, not what hung below it.
        let mut gone = merged;
        gone.subtract(&fields::with_named(&fields(&pruned, self.shape), self.shape));
        let gone = gone.intersection(&last);
        remove::remove(object, gone.view(), self.shape);
    }

    fn conflicts<'e>(&self, entries: &'e [Entry], diff: &Diff) -> Vec<Conflict<'e>> {
        let mine = Entry::apply(self.manager, self.api_version, self.subresource);
        let mut others: Vec<&Entry> = entries.iter().filter(|e| !e.is_same(&mine)).collect();
        others.sort_by_key(|e| e.id());
        others
            .into_iter()
            .flat_map(|entry| {
                let paths = entry.fields.intersection(&diff.changed).paths();
                paths.into_iter().map(move |path| Conflict { entry, path })
            })
            .collect()
    }

    /// `kubectl` may take what it applied on the client side before, as long as it is still so.
    fn without_last_applied<'e>(&self, conflicts: Vec<Conflict<'e>>) -> Vec<Conflict<'e>> {
        if self.manager != "kubectl" || conflicts.is_empty() {
            return conflicts;
        }
        let allowed = self.live.and_then(|live| {
            let last: Value = serde_json::from_str(meta::annotation(live, LAST_APPLIED)?).ok()?;
            if last.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
                return None;
            }
            validate::validate(&last, self.shape).ok()?;
            let diff = managed::compare(Some(&last), Some(live), self.shape);
            let mut set = fields(&last, self.shape);
            set.subtract(&diff.changed);
            set.subtract(&diff.removed);
            Some(set.paths())
        });
        let allowed = allowed.unwrap_or_default();
        conflicts.into_iter().filter(|c| !allowed.contains(&c.path)).collect()
    }

    /// Keeps the client-side annotation of `kubectl` in step, where there is one.
    fn note_last_applied(&self, object: &mut Value) {
        let noted = meta::annotation(object, LAST_APPLIED).is_some_and(|t| !t.is_empty());
        if self.manager != "kubectl" || !noted {
            return;
        }
        let mut config = self.config.clone();
        if let Some(annotations) =
            config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        let text = format!("{config}\n");
        let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        if let Some(annotations) =
            object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
        }
    }
}

/// Group, version and kind as Go prints them: `apps/v1, Kind=Deployment`.
fn gvk(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn refusal(conflicts: Vec<Conflict<'_>>) -> Status {
    let message = match conflicts.as_slice() {
        [one] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.entry.describe(),
            one.path
        ),
        many => {
            let mut lines: Vec<String> = Vec::new();
            let mut last: Option<&Entry> = None;
            for conflict in many {
                if last.is_none_or(|l| !std::ptr::eq(l, conflict.entry)) {
                    lines.push(format!("conflicts with {}:", conflict.entry.describe()));
                    last = Some(conflict.entry);
                }
                lines.push(format!("- {}", conflict.path));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes = conflicts
        .iter()
        .map(|c| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", c.entry.describe()),
            field: c.path.to_string(),
        })
        .collect();
    Status::apply_conflict(message, causes)
}
