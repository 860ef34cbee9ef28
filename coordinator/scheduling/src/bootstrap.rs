//! The queues of a cluster that has none: `default-queue` below `default-parent-queue`, both without limits, so that
//! pods that name no queue are placed from the start.
//!
//! Whoever makes queues, or deletes these while others are there, is left alone. The parent says in an annotation that
//! its child is still to come: who dies in between is completed by the next leader.

use std::time::Duration;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, RemoveOperation, TestOperation};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_podgrouper::names::DEFAULT_QUEUE;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::names::BOOTSTRAP;
use muster_runtime::reflector::Watch;
use muster_runtime::writer::{WriteError, Writer};

/// The definition of queues.
pub const DEFINITION: &str = "queues.scheduling.run.ai";
/// The version that is understood.
pub const VERSION: &str = "v2";
/// The queue above the default one.
pub const PARENT: &str = "default-parent-queue";
/// After an error it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Makes the default queues once the cluster knows queues and has none, and is done.
pub async fn bootstrap(definition: Watch<Definition>, writer: Writer, stop: CancellationToken) {
    let work = async {
        served(&definition).await;
        loop {
            match make(&writer).await {
                Ok(true) => {
                    tracing::info!(
                        parent = PARENT,
                        queue = DEFAULT_QUEUE,
                        "the cluster has queues now"
                    );
                    return;
                }
                Ok(false) | Err(WriteError::NotLeader(_)) => return,
                Err(error) => {
                    let reason = error.reason();
                    tracing::warn!(reason, "the default queues cannot be made yet: {error}");
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Queues, of the whole cluster.
pub fn queues(client: &kube::Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &kind())
}

fn kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("scheduling.run.ai", VERSION, "Queue");
    ApiResource::from_gvk_with_plural(&kind, "queues")
}

/// Returns when the cluster knows queues.
async fn served(definition: &Watch<Definition>) {
    let mut changes = definition.subscribe();
    definition.ready().await;
    let serves = |known: &Definition| {
        known.spec.versions.iter().any(|version| version.name == VERSION && version.served)
    };
    while !definition.all().iter().any(|known| serves(known)) {
        // Whatever was missed, the next look sees it.
        let _heard = changes.recv().await;
    }
}

/// Makes what is missing; whether anything was.
async fn make(writer: &Writer) -> Result<bool, WriteError> {
    let api = writer.dynamic(&kind(), None);
    let listed = writer.list(&api, &ListParams::default().limit(2)).await?;
    let begun = |queue: &DynamicObject| {
        let marks = queue.metadata.annotations.as_ref();
        marks.is_some_and(|marks| marks.contains_key(BOOTSTRAP))
    };
    let parent = match &listed.items[..] {
        [] => writer.create(&api, &queue(PARENT, None)).await?,
        // Whatever else is there: what was begun is completed.
        _ => match writer.read(&api, PARENT).await? {
            Some(parent) if begun(&parent) => parent,
            _ => return Ok(false),
        },
    };
    match writer.create(&api, &queue(DEFAULT_QUEUE, Some(PARENT))).await {
        Ok(_) | Err(WriteError::Exists { .. }) => {}
        Err(error) => return Err(error),
    }
    let path = |tokens: [&str; 2]| PointerBuf::from_tokens(tokens);
    let uid = parent.metadata.uid.unwrap_or_default();
    let test = TestOperation { path: path(["metadata", "uid"]), value: uid.into() };
    let mark = PointerBuf::from_tokens(["metadata", "annotations", BOOTSTRAP]);
    let done = Patch(vec![
        PatchOperation::Test(test),
        PatchOperation::Remove(RemoveOperation { path: mark }),
    ]);
    writer.change(&api, PARENT, done).await?;
    Ok(true)
}

/// A queue without limits, whose share is as large as any other's.
fn queue(name: &str, parent: Option<&str>) -> DynamicObject {
    let all = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let mut spec = json!({"resources": {"cpu": all, "gpu": all, "memory": all}});
    let mut annotations = json!({});
    match parent {
        Some(parent) => spec["parentQueue"] = parent.into(),
        None => annotations[BOOTSTRAP] = "begun".into(),
    }
    let data: Value = json!({"spec": spec});
    let kind = GroupVersionKind::gvk("scheduling.run.ai", VERSION, "Queue");
    let resource = ApiResource::from_gvk_with_plural(&kind, "queues");
    let mut object = DynamicObject::new(name, &resource).data(data);
    object.metadata.annotations = serde_json::from_value(annotations).ok();
    object
}
