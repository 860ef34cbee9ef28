//! What a LeaderWorkerSet says of itself: what its ModelServing says.

use muster_kube::Condition;
use serde_json::{Map, Value, json};

use super::{LeaderWorkerSet, NAME_LABEL, WORKER_INDEX_LABEL};
use crate::api::ModelServing;

// === impl LeaderWorkerSet ===

impl LeaderWorkerSet {
    /// The status that follows from the ModelServing; none if it is there already, or if the ModelServing has none yet.
    pub fn status(&self, serving: &ModelServing) -> Option<Value> {
        let said = serving.status.as_ref()?;
        let before = self.raw.get("status").and_then(Value::as_object);
        let mut status = before.cloned().unwrap_or_default();
        let name = self.metadata.name.as_deref().unwrap_or_default();
        // Leaders, as LeaderWorkerSet selects them for autoscalers.
        let selector = format!("{NAME_LABEL}={name},{WORKER_INDEX_LABEL}=0");
        for (key, value) in [
            ("replicas", json!(said.replicas)),
            ("readyReplicas", json!(said.available_replicas)),
            ("updatedReplicas", json!(said.updated_replicas)),
            ("hpaPodSelector", json!(selector)),
        ] {
            status.insert(key.to_owned(), value);
        }
        // Conditions of an older spec would call available what has just been scaled.
        if said.observed_generation >= serving.metadata.generation.unwrap_or_default() {
            self.set_conditions(&mut status, &said.conditions);
        }
        (Some(&status) != before).then_some(Value::Object(status))
    }

    /// Conditions that the ModelServing does not have stay.
    fn set_conditions(&self, status: &mut Map<String, Value>, said: &[Condition]) {
        let generation = self.metadata.generation.unwrap_or_default();
        let mut all: Vec<Value> =
            status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        for condition in said {
            let condition = Condition { observed_generation: generation, ..condition.clone() };
            let kind = condition.kind.clone();
            let Ok(condition) = serde_json::to_value(condition) else { continue };
            match all.iter_mut().find(|known| known["type"] == kind.as_str()) {
                Some(known) => *known = condition,
                None => all.push(condition),
            }
        }
        if !all.is_empty() {
            status.insert("conditions".to_owned(), all.into());
        }
    }
}
