//! What a kubelet writes about its pods: their status, and their end.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, Preconditions};
use kube::{Client, Error};
use muster_objects::meta;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::node::patch_params;

#[cfg(test)]
mod tests;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostOutcome {
    Done,
    /// The pod, or this pod of that name, is gone.
    Gone,
}

const REFUSED: &str = "the API refused a write";

fn api(client: &Client, pod: &Value) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Pod>(&());
    Api::namespaced_with(client.clone(), meta::namespace(pod), &resource)
}

/// Writes the status of exactly this pod; tries again until the API takes it or the pod is gone.
pub(super) async fn status(
    client: Client,
    requests: &Semaphore,
    pod: &Value,
    status: &Value,
) -> PostOutcome {
    let api = api(&client, pod);
    let patch = json!({ "metadata": { "uid": meta::uid(pod) }, "status": status });
    persist(&api, requests, pod, || async {
        api.patch_status(meta::name(pod), &patch_params(), &Patch::Strategic(&patch))
            .await
            .map(drop)
    })
    .await
}

/// Removes exactly this pod for good.
pub(super) async fn delete(client: Client, requests: &Semaphore, pod: &Value) -> PostOutcome {
    let api = api(&client, pod);
    let uid = Some(meta::uid(pod).to_owned());
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid, resource_version: None }),
        ..Default::default()
    };
    persist(&api, requests, pod, || async { api.delete(meta::name(pod), &params).await.map(drop) })
        .await
}

/// Tries again on faults of the server, of the network and of races; never on refusals.
async fn persist<F: Future<Output = Result<(), Error>>>(
    api: &Api<DynamicObject>,
    requests: &Semaphore,
    pod: &Value,
    mut write: impl FnMut() -> F,
) -> PostOutcome {
    let name = meta::name(pod);
    let mut wait = Duration::from_millis(50);
    loop {
        // Held for the request, not for the pause after it. Nobody closes the semaphore.
        let turn = requests.acquire().await;
        match write().await {
            Ok(()) => return PostOutcome::Done,
            Err(Error::Api(refused)) if refused.code == 404 => return PostOutcome::Gone,
            // Of another pod of that name a patch is invalid and a delete a conflict, but both can have
            // other reasons: only the pod itself can tell.
            Err(Error::Api(refused)) if matches!(refused.code, 409 | 422) => {
                match api.get_opt(name).await {
                    Ok(Some(now)) if now.metadata.uid.as_deref() == Some(meta::uid(pod)) => {
                        if is_final(refused.code) {
                            tracing::warn!(pod = name, error = %refused.message, "{REFUSED}");
                            return PostOutcome::Done;
                        }
                    }
                    Ok(_) => return PostOutcome::Gone,
                    Err(error) => tracing::debug!(pod = name, %error, "read is tried again"),
                }
            }
            Err(Error::Api(refused)) if is_final(refused.code) => {
                tracing::warn!(pod = name, error = %refused.message, "{REFUSED}");
                return PostOutcome::Done;
            }
            Err(error) => tracing::debug!(pod = name, %error, "write is tried again"),
        }
        drop(turn);
        // The network's time, not the sandbox's: a clock that stands still must not stop this.
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

pub(super) fn is_final(code: u16) -> bool {
    matches!(code, 400 | 403 | 405 | 415 | 422)
}
