//! Bindings: one write gives a pod its node, and the marks of its group with it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::ObjectMeta;
use muster_scheduler_state::{Bind, Outcome};
use serde_json::json;

use super::reserve;
use muster_runtime::writer::{WriteError, Writer};

/// Binds a pod; one that shares devices is told first which. `marks` are annotations that go along: those of the group that the pod does not name yet.
pub async fn bind(writer: &Writer, bind: &Bind, marks: BTreeMap<String, String>) -> Outcome {
    if let Some(share) = &bind.share
        && let Err(outcome) = reserve::prepare(writer, bind, share).await
    {
        return outcome;
    }
    let (namespace, name) = (&*bind.pod.0, &*bind.pod.1);
    let mut annotations = bind.annotations.clone();
    annotations.extend(marks);
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            // Another pod of this name is refused.
            uid: Some(bind.uid.clone()),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(bind.node.clone()),
            ..ObjectReference::default()
        },
    };
    let api = writer.namespaced::<Pod>(namespace);
    outcome(writer.bind(&api, name, &json!(binding)).await)
}

/// What an answer means for an order.
pub(super) fn outcome(answer: Result<(), WriteError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Done,
        Err(
            error @ (WriteError::Gone { .. }
            | WriteError::Conflict { .. }
            | WriteError::Exists { .. }),
        ) => Outcome::Lost(error.to_string()),
        Err(error @ WriteError::NotLeader(_)) => Outcome::Failed(error.to_string()),
        Err(WriteError::Refused { what, error }) => match &*error {
            // It was judged, and refused.
            kube::Error::Api(refused) if refused.code < 500 => {
                Outcome::Failed(format!("{what}: {error}"))
            }
            _ => Outcome::Unsure(format!("{what}: {error}")),
        },
        Err(error) => Outcome::Unsure(error.to_string()),
    }
}
