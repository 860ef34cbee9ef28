//! What a kubelet writes about its pods: their status, and their end.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, Preconditions};
use kube::{Client, Error};
use muster_objects::meta;
use serde_json::{Value, json};

use super::node::patch_params;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The pod, or this pod of that name, is gone.
    Gone,
}

fn api(client: &Client, pod: &Value) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Pod>(&());
    Api::namespaced_with(client.clone(), meta::namespace(pod), &resource)
}

/// Writes the status of exactly this pod; tries again until the API takes it or the pod is gone.
pub(super) async fn status(client: Client, pod: &Value, status: &Value) -> Outcome {
    let api = api(&client, pod);
    let patch = json!({ "metadata": { "uid": meta::uid(pod) }, "status": status });
    persist(meta::name(pod), || async {
        api.patch_status(meta::name(pod), &patch_params(), &Patch::Strategic(&patch))
            .await
            .map(drop)
    })
    .await
}

/// Removes exactly this pod for good.
pub(super) async fn delete(client: Client, pod: &Value) -> Outcome {
    let api = api(&client, pod);
    let uid = Some(meta::uid(pod).to_owned());
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid, resource_version: None }),
        ..Default::default()
    };
    persist(meta::name(pod), || async { api.delete(meta::name(pod), &params).await.map(drop) })
        .await
}

/// Tries again on faults of the server, of the network and of races; never on refusals.
async fn persist<F: Future<Output = Result<(), Error>>>(
    name: &str,
    mut write: impl FnMut() -> F,
) -> Outcome {
    let mut wait = Duration::from_millis(50);
    loop {
        match write().await {
            Ok(()) => return Outcome::Done,
            Err(Error::Api(refused)) if refused.code == 404 => return Outcome::Gone,
            Err(Error::Api(refused)) if refused.code == 409 && is_other_uid(&refused.message) => {
                return Outcome::Gone;
            }
            Err(Error::Api(refused)) if is_final(refused.code) => {
                tracing::warn!(pod = name, error = %refused.message, "the API refused a write");
                return Outcome::Done;
            }
            Err(error) => tracing::debug!(pod = name, %error, "write is tried again"),
        }
        // The network's time, not the sandbox's: a clock that stands still must not stop this.
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

fn is_other_uid(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("uid") || message.contains("precondition")
}

fn is_final(code: u16) -> bool {
    matches!(code, 400 | 403 | 405 | 415 | 422)
}
