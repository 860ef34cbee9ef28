//! Mutating webhooks: one after the other, each sees what the one before has changed.

use std::collections::BTreeSet;

use muster_objects::status::Status;
use muster_objects::{meta, patch};
use serde_json::Value;

use super::matching::Hook;
use super::validating::Failure;
use super::{Admission, Attempt, Gvk, review};
use crate::builtin;

const CONFIGURATIONS: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

/// Which webhooks have been called, and which are to be called once more.
#[derive(Debug, Default)]
pub(super) struct Round {
    second: bool,
    changed: bool,
    called: BTreeSet<String>,
    due: BTreeSet<String>,
    last: Option<Value>,
}

// === impl Round ===

impl Round {
    /// Whether a second round is needed. Remembers the object as the webhooks left it.
    pub(super) fn again(&mut self, attempt: &Attempt<'_>) -> bool {
        if self.changed {
            self.last.clone_from(&attempt.object);
        }
        self.changed
    }

    /// Begins the second round. If plugins changed the object again, all that asked for it are called.
    pub(super) fn begin_again(&mut self, attempt: &Attempt<'_>) {
        self.second = true;
        if self.last != attempt.object {
            self.due.append(&mut self.called);
        }
    }

    fn note(&mut self, key: String, changed: bool, reinvoke: bool) {
        if changed {
            self.changed = true;
            self.due.append(&mut self.called);
        }
        if reinvoke {
            self.called.insert(key);
        }
    }
}

// === impl Admission ===

impl Admission {
    pub(super) async fn call_mutating(
        &self,
        attempt: &mut Attempt<'_>,
        round: &mut Round,
    ) -> Result<(), Status> {
        for configuration in self.store.list(CONFIGURATIONS, None) {
            let hooks = configuration.value["webhooks"].as_array().into_iter().flatten();
            for (place, webhook) in hooks.enumerate() {
                let uid = meta::uid(&configuration.value);
                let hook = Hook { key: (uid, configuration.revision, place), webhook };
                let Some(version) = self.wanted_version(&hook, attempt)? else { continue };
                let key = format!("{}/{place}", meta::name(&configuration.value));
                if round.second && !round.due.contains(&key) {
                    continue;
                }
                let before = attempt.object.clone();
                match self.change(attempt, webhook, &version).await {
                    Ok(()) => {}
                    Err(failure) => failure.weigh(webhook)?,
                }
                let reinvoke = webhook["reinvocationPolicy"] == "IfNeeded";
                round.note(key, before != attempt.object, reinvoke);
            }
        }
        Ok(())
    }

    async fn change(
        &self,
        attempt: &mut Attempt<'_>,
        webhook: &Value,
        version: &str,
    ) -> Result<(), Failure> {
        let verdict = self.ask(attempt, webhook, version, true).await?;
        attempt.warnings.extend(verdict.warnings);
        let name = webhook["name"].as_str().unwrap_or_default();
        if !verdict.allowed {
            return Err(Failure::Answer(review::denial(name, &verdict.status)));
        }
        if verdict.patch.is_empty() {
            return Ok(());
        }
        // Go writes an empty list that was never made as null.
        let patch: Option<Vec<Value>> =
            serde_json::from_slice(&verdict.patch).map_err(|error| {
                Failure::Call(format!("received undecodable patch in webhook response: {error}"))
            })?;
        let Some(patch) = patch.filter(|patch| !patch.is_empty()) else { return Ok(()) };
        if patch.len() > patch::MAX_OPERATIONS {
            return Err(Failure::Call(format!(
                "the patch in the webhook response has {} operations, at most {} are allowed",
                patch.len(),
                patch::MAX_OPERATIONS
            )));
        }
        let Some(object) = review::stamped(attempt, attempt.object.as_ref(), version) else {
            return Err(Failure::Answer(Status::internal(format!(
                "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
            ))));
        };
        if verdict.patch_type != "JSONPatch" {
            return Err(Failure::Call(format!("unsupported patch type {:?}", verdict.patch_type)));
        }
        let mut object = patch::operate(&object, &patch)
            .map_err(|at| Failure::Answer(Status::internal(patch_words(&patch[at]))))?;
        // What a webhook adds is read like what a client sends: canonical, and with its defaults.
        let Gvk { group, kind, .. } = attempt.kind;
        object = builtin::decode(group, kind, object).map_err(Failure::Answer)?.0;
        builtin::default(group, kind, &mut object);
        let original = attempt.object.as_ref();
        for field in ["apiVersion", "kind"] {
            let before = original.and_then(|object| object.get(field)).cloned();
            let map = meta::as_map(&mut object);
            match before {
                Some(before) => map.insert(field.into(), before),
                None => map.remove(field),
            };
        }
        attempt.object = Some(object);
        Ok(())
    }
}

/// Upstream's words for an operation that does not fit the object.
fn patch_words(operation: &Value) -> String {
    let op = operation["op"].as_str().unwrap_or("patch");
    let path = &operation["path"];
    match op {
        "test" => format!("testing value {path} failed: test failed"),
        _ => format!("{op} operation does not apply: doc is missing path: {path}: missing value"),
    }
}
