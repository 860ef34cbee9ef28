//! TaintNodesByCondition: a new node takes no pods before it has said that it is ready.

use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Value, json};

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct TaintNodesByCondition;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl Plugin for TaintNodesByCondition {
    fn admit(&self, attempt: &mut Attempt<'_>, _: &Store) -> Result<(), Status> {
        if !attempt.is("", "nodes") || attempt.operation != Operation::Create {
            return Ok(());
        }
        let Some(node) = attempt.object.as_mut() else { return Ok(()) };
        let taints = meta::field(node, "spec").entry("taints").or_insert(Value::Null);
        if taints.is_null() {
            *taints = json!([]);
        }
        let Some(taints) = taints.as_array_mut() else { return Ok(()) };
        let there = |t: &Value| t["key"] == NOT_READY && t["effect"] == "NoSchedule";
        if !taints.iter().any(there) {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
        Ok(())
    }
}
