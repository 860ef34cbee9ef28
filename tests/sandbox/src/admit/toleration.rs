//! DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or not reachable.

use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Value, json};

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct DefaultTolerationSeconds;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl Plugin for DefaultTolerationSeconds {
    fn admit(&self, attempt: &mut Attempt<'_>, _: &Store) -> Result<(), Status> {
        let concerned = attempt.is("", "pods")
            && matches!(attempt.operation, Operation::Create | Operation::Update);
        let Some(pod) = attempt.object.as_mut().filter(|_| concerned) else { return Ok(()) };
        let present = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let mut tolerations = present.clone();
        for taint in TAINTS {
            if !present.iter().any(|toleration| tolerates(toleration, taint)) {
                tolerations.push(json!({
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }));
            }
        }
        if tolerations.len() > present.len() {
            meta::field(pod, "spec").insert("tolerations".into(), json!(tolerations));
        }
        Ok(())
    }
}

fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    (text("key") == taint || text("key").is_empty()) && matches!(text("effect"), "NoExecute" | "")
}
