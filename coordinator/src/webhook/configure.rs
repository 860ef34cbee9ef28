//! Tells the API server whom to trust when it calls webhooks: the leader puts the authorities into every configuration
//! that asks for it by annotation, and again whenever somebody else writes it or the authorities change.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::Api;
use kube::core::ClusterResourceScope;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::names::INJECT_CA;
use crate::watch::watch;
use crate::write::{WriteError, Writer};

/// After an error it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The authorities that clients are to trust, in PEM, see [`crate::certs::Certificates::authorities`].
type Authorities = tokio::sync::watch::Receiver<Option<Arc<str>>>;

/// Keeps all configurations right, until stopped or deposed.
pub async fn configure(writer: Writer, authorities: Authorities, stop: CancellationToken) {
    tokio::join!(
        keep::<MutatingWebhookConfiguration>(&writer, authorities.clone(), &stop),
        keep::<ValidatingWebhookConfiguration>(&writer, authorities, &stop),
    );
}

/// The two kinds that configure webhooks.
pub trait Configuration:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// How each of its webhooks is called.
    fn clients(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

/// What must change in a configuration so that all of its webhooks trust these authorities; none if nothing must, or
/// if it does not ask for it. Refused by the API server if somebody else has changed it in the meantime.
pub fn change<K: Configuration>(configuration: &K, authorities: &str) -> Option<Patch> {
    if configuration.annotations().get(INJECT_CA).is_none_or(|value| value != "true") {
        return None;
    }
    let clients = configuration.clients();
    let other = |client: &WebhookClientConfig| {
        client.ca_bundle.as_ref().is_none_or(|bundle| bundle.0 != authorities.as_bytes())
    };
    let encoded = STANDARD.encode(authorities);
    let mut operations: Vec<_> = (0..clients.len())
        .filter(|at| clients.get(*at).is_some_and(|client| other(client)))
        .map(|at| {
            let at = at.to_string();
            let path = PointerBuf::from_tokens(["webhooks", &at, "clientConfig", "caBundle"]);
            PatchOperation::Add(AddOperation { path, value: encoded.clone().into() })
        })
        .collect();
    if operations.is_empty() {
        return None;
    }
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    let value = configuration.resource_version().unwrap_or_default().into();
    operations.push(PatchOperation::Replace(ReplaceOperation { path, value }));
    Some(Patch(operations))
}

async fn keep<K: Configuration>(
    writer: &Writer,
    mut authorities: Authorities,
    stop: &CancellationToken,
) {
    let api = Api::<K>::all(writer.client().clone());
    let (found, reflector) = watch(api.clone(), watcher::Config::default(), |object: &mut K| {
        object.meta_mut().managed_fields = None;
    });
    let work = async {
        found.ready().await;
        let mut changes = found.subscribe();
        loop {
            let trusted = authorities.borrow_and_update().clone();
            let mut failed = false;
            for object in found.all() {
                let change = trusted.as_deref().and_then(|trusted| change(&*object, trusted));
                let Some(change) = change else { continue };
                match writer.change(&api, &object.name_any(), change).await {
                    Ok(_) => {
                        let (kind, name) = (K::kind(&()), object.name_any());
                        tracing::info!(%kind, name, "its webhooks trust our authorities");
                    }
                    // What is known of it is old: news of it are on their way.
                    Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => failed = true,
                    Err(WriteError::Deposed(_)) => return,
                    Err(error) => {
                        let reason = error.reason();
                        tracing::warn!(reason, "webhooks cannot be configured: {error}");
                        failed = true;
                    }
                }
            }
            tokio::select! {
                _ = changes.recv() => {}
                Ok(()) = authorities.changed() => {}
                () = tokio::time::sleep(AGAIN), if failed => {}
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = reflector.run(stop.clone()) => {}
        () = work => {}
    }
}
