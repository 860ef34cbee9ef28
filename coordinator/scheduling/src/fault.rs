//! Restarts because of faults: written on their groups before any pod goes, so that whoever leads next knows of them.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::{ApiResource, GroupVersionKind};
use muster_scheduler::input::Dialect;
use muster_scheduler_state::Outcome;
use muster_scheduler_state::fault::{Note, Policy};
use serde_json::json;

use super::{Context, bind};

/// Event of a group: pods of it are replaced.
pub const PODS_REPLACED: &str = "PodsReplaced";
/// Event of a group: all pods of it are replaced.
pub const GANG_RESTARTED: &str = "GangRestarted";

/// What becomes of pods that stand on a faulty device or a bad node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FaultPolicy {
    /// It is said, and nothing is done
    #[default]
    None,
    /// They are evicted, so that others take their place
    Evict,
    /// All pods of their group are evicted
    Gang,
}

impl From<FaultPolicy> for Policy {
    fn from(policy: FaultPolicy) -> Self {
        match policy {
            FaultPolicy::None => Self::None,
            FaultPolicy::Evict => Self::Evict,
            FaultPolicy::Gang => Self::Gang,
        }
    }
}

/// Writes a restart on its group, and says so.
pub async fn note(context: &Context, note: &Note) -> Outcome {
    let (dialect, name) = &note.group;
    let (group, version) = match dialect {
        Dialect::Kai => ("scheduling.run.ai", "v2alpha2"),
        Dialect::Coscheduling => ("scheduling.x-k8s.io", "v1alpha1"),
        Dialect::Volcano => ("scheduling.volcano.sh", "v1beta1"),
    };
    let kind = GroupVersionKind::gvk(group, version, "PodGroup");
    let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    let api = context.writer.dynamic(&resource, Some(&name.0));
    let annotations: serde_json::Map<String, serde_json::Value> =
        note.annotations().into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect();
    // Another group of this name is refused.
    let change = json!({"metadata": {"uid": note.uid, "annotations": annotations}});
    let outcome = bind::outcome(context.writer.merge(&api, &name.1, &change).await.map(drop));
    if outcome == Outcome::Done {
        let about = ObjectReference {
            api_version: Some(format!("{group}/{version}")),
            kind: Some("PodGroup".to_owned()),
            namespace: Some(name.0.to_string()),
            name: Some(name.1.to_string()),
            uid: Some(note.uid.clone()),
            ..ObjectReference::default()
        };
        let reason = if note.policy == Policy::Gang { GANG_RESTARTED } else { PODS_REPLACED };
        context.events.warning(&about, reason, note.why.message.clone()).await;
    }
    outcome
}
