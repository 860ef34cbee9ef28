//! Node taints that follow from the node's condition: not ready, unreachable, cordoned.
//!
//! The API taints a new node as not ready; without this controller nothing would ever run on it.

use std::sync::Arc;

use muster_objects::meta;
use serde_json::{Value, json};

use super::cache::Cache;
use super::json;
use super::kind::NODES;
use super::queue::Queue;
use super::rest::{Rest, ignore_missing};

/// Keeps the taints.
pub(crate) struct NodeController {
    rest: Rest,
    nodes: Arc<Cache>,
    queue: Arc<Queue<String>>,
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The taints that the node should have, if they differ from those it has.
fn taints(node: &Value) -> Option<Vec<Value>> {
    let ready = json::condition(node, "Ready").map(|c| json::text(c, "/status"));
    let wanted = [
        (NOT_READY, matches!(ready, None | Some("False"))),
        (UNREACHABLE, ready == Some("Unknown")),
        (CORDONED, json::flag(node, "/spec/unschedulable")),
    ];
    let have = json::list(node, "/spec/taints");
    let is = |taint: &Value, key: &str| {
        json::text(taint, "/key") == key && json::text(taint, "/effect") == "NoSchedule"
    };
    let mut taints = have.to_vec();
    for (key, wanted) in wanted {
        match (wanted, taints.iter().position(|taint| is(taint, key))) {
            (true, None) => taints.push(json!({"key": key, "effect": "NoSchedule"})),
            (false, Some(at)) => {
                taints.remove(at);
            }
            _ => {}
        }
    }
    (taints != have).then_some(taints)
}

// === impl NodeController ===

impl NodeController {
    /// Registers with the cache and starts the worker.
    pub fn start(rest: &Rest) {
        let controller = Arc::new(Self {
            rest: rest.clone(),
            nodes: rest.cache(&NODES),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let to = controller.clone();
        controller.nodes.on_change(move |_, after| {
            if let Some(node) = after.filter(|node| taints(node).is_some()) {
                to.queue.add(meta::name(node).to_owned());
            }
        });
        let queue = controller.queue.clone();
        queue.serve(4, "nodes", move |name| {
            let controller = controller.clone();
            async move { controller.reconcile(&name).await }
        });
    }

    async fn reconcile(&self, name: &str) -> Result<(), kube::Error> {
        let Some(node) = self.nodes.get("", name) else { return Ok(()) };
        let Some(taints) = taints(&node) else { return Ok(()) };
        let patch = json!({
            "metadata": {"resourceVersion": meta::text(&node, "resourceVersion")},
            "spec": {"taints": if taints.is_empty() { Value::Null } else { taints.into() }},
        });
        ignore_missing(self.rest.patch_merge(&NODES, "", name, "", &patch).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_the_condition_and_leave_those_of_others() {
        let other = json!({"key": "mine", "effect": "NoSchedule"});
        let of = |key: &str| json!({"key": key, "effect": "NoSchedule"});
        for (ready, cordoned, have, wanted) in [
            (Some("True"), false, vec![of(NOT_READY), other.clone()], Some(vec![other.clone()])),
            (Some("True"), false, vec![other.clone()], None),
            (Some("True"), true, vec![], Some(vec![of(CORDONED)])),
            (Some("False"), false, vec![], Some(vec![of(NOT_READY)])),
            (Some("Unknown"), false, vec![of(NOT_READY)], Some(vec![of(UNREACHABLE)])),
            (None, false, vec![of(NOT_READY)], None),
        ] {
            let mut node = json!({"spec": {"taints": have, "unschedulable": cordoned}});
            if let Some(ready) = ready {
                node["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
            }
            assert_eq!(taints(&node), wanted, "{node}");
        }
    }
}
