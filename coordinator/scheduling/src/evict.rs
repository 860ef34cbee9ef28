//! Pods go: evicted, so that disruption budgets count, or deleted. The pod says for whom and why in its condition
//! `DisruptionTarget`, so that a Job's podFailurePolicy can tell it from a failure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use muster_scheduler_state::{Evict, Outcome};
use serde_json::json;

use super::{Eviction, bind::outcome};
use muster_runtime::writer::{Fenced, WriteError, Writer};

/// The condition of a pod that must go.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Its reason: a scheduler needs the room.
pub const PREEMPTION: &str = "PreemptionByScheduler";

/// Makes a pod go, if it is still this one, and writes on it why. Also the pod as it was last seen.
///
/// The condition comes before a deletion, as kube-scheduler does it. An eviction may be refused by a budget, and a pod
/// that stays must not look like one that goes; the API server itself gives a pod that it evicts the condition, and what
/// is written after that says more.
pub async fn evict(
    writer: &Writer,
    evict: &Evict,
    how: Eviction,
    message: &str,
) -> (Outcome, Option<Pod>) {
    let (namespace, name) = (&*evict.pod.0, &*evict.pod.1);
    let api = writer.namespaced::<Pod>(namespace);
    let preconditions = Preconditions { uid: Some(evict.uid.clone()), ..Preconditions::default() };
    let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match how {
        Eviction::Delete => {
            let seen = target(writer, &api, evict, message).await;
            (outcome(writer.delete(&api, name, &delete).await), seen)
        }
        Eviction::Evict => {
            let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
            let outcome = outcome(writer.evict(&api, name, &params).await);
            let seen = match outcome {
                Outcome::Done => target(writer, &api, evict, message).await,
                _ => None,
            };
            (outcome, seen)
        }
    }
}

/// Writes the condition. A pod goes whether it can be written or not.
async fn target(writer: &Writer, api: &Fenced<Pod>, evict: &Evict, message: &str) -> Option<Pod> {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let message: String = message.chars().take(1024).collect();
    let patch = json!({"metadata": {"uid": evict.uid}, "status": {"conditions": [{
        "type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTION, "message": message,
        "lastTransitionTime": now}]}});
    match writer.strategic_status(api, &evict.pod.1, &patch).await {
        Ok(pod) => Some(pod),
        // It has gone at once.
        Err(WriteError::Gone { .. } | WriteError::Conflict { .. }) => None,
        Err(error) => {
            tracing::debug!(reason = error.reason(), "{error}");
            None
        }
    }
}
