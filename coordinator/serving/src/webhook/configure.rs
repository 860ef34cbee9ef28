//! Tells the API server whom to trust when it calls webhooks, and about whose pods to ask: the leader puts the
//! authorities and the scheduler names into each of the coordinator's own configurations that asks for them by annotation, and
//! again whenever somebody else writes it or the authorities change.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use kube::api::Api;
use kube::core::ClusterResourceScope;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::names::{CONFIGURATIONS, INJECT_CA, INJECT_SCHEDULER_NAMES};
use muster_runtime::reflector::watch;
use muster_runtime::writer::{WriteError, Writer};

/// After an error it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Name of the match condition that says whose pods a webhook is asked about.
pub const OURS: &str = "ours";

/// The authorities that clients are to trust, in PEM, see [`crate::certs::Certificates::authorities`].
type Authorities = tokio::sync::watch::Receiver<Option<Arc<str>>>;

/// Whether containers are kept from choosing devices, which the scheduler's live configuration says.
type Blocking = tokio::sync::watch::Receiver<bool>;

/// Name of the match condition that says whether containers are kept from choosing devices: if not, no pod waits for a
/// webhook that would change nothing.
pub const BLOCKING: &str = "blocking";

/// What the match conditions say that the coordinator writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    ours: String,
    blocking: bool,
}

/// Keeps the coordinator's configurations right, until stopped or deposed. `schedulers` are the names whose pods are ours, `blocking`
/// is whether containers are kept from choosing devices.
pub async fn configure(
    writer: Writer,
    authorities: Authorities,
    schedulers: Vec<String>,
    blocking: Blocking,
    stop: CancellationToken,
) {
    let ours = ours(&schedulers);
    let other = (authorities.clone(), blocking.clone());
    tokio::join!(
        keep::<MutatingWebhookConfiguration>(&writer, (authorities, blocking), &ours, &stop),
        keep::<ValidatingWebhookConfiguration>(&writer, other, &ours, &stop),
    );
}

// === impl Conditions ===

impl Conditions {
    /// What the condition of this name has to say; nothing if it is not the coordinator's.
    fn expression(&self, name: &str) -> Option<&str> {
        match name {
            OURS => Some(&self.ours),
            BLOCKING => Some(if self.blocking { "true" } else { "false" }),
            _ => None,
        }
    }
}

/// The CEL expression that holds for pods of these schedulers.
pub fn ours(schedulers: &[String]) -> String {
    let quoted = |name: &String| format!("'{}'", name.replace('\\', r"\\").replace('\'', r"\'"));
    let names: Vec<String> = schedulers.iter().map(quoted).collect();
    let names = names.join(", ");
    format!("has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]")
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

    /// Which requests each of its webhooks is asked about.
    fn conditions(&self) -> Vec<&[MatchCondition]>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }

    fn conditions(&self) -> Vec<&[MatchCondition]> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| webhook.match_conditions.as_deref().unwrap_or_default()).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }

    fn conditions(&self) -> Vec<&[MatchCondition]> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.map(|webhook| webhook.match_conditions.as_deref().unwrap_or_default()).collect()
    }
}

/// What must change in a configuration so that all of its webhooks trust these authorities and are asked about what
/// the conditions say; none if nothing must, or if it does not ask for it. Refused by the API server if somebody else
/// has changed it in the meantime.
pub fn change<K: Configuration>(
    configuration: &K,
    authorities: &str,
    conditions: &Conditions,
) -> Option<Patch> {
    let asks = |annotation: &str| {
        configuration.annotations().get(annotation).is_some_and(|value| value == "true")
    };
    let mut operations = Vec::new();
    if asks(INJECT_CA) {
        operations.extend(trust(configuration, authorities));
    }
    if asks(INJECT_SCHEDULER_NAMES) {
        operations.extend(filter(configuration, conditions));
    }
    if operations.is_empty() {
        return None;
    }
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    let value = configuration.resource_version().unwrap_or_default().into();
    operations.push(PatchOperation::Replace(ReplaceOperation { path, value }));
    Some(Patch(operations))
}

/// Authorities for webhooks that have others.
fn trust<K: Configuration>(configuration: &K, authorities: &str) -> Vec<PatchOperation> {
    let other = |client: &WebhookClientConfig| {
        client.ca_bundle.as_ref().is_none_or(|bundle| bundle.0 != authorities.as_bytes())
    };
    let encoded = STANDARD.encode(authorities);
    let clients = configuration.clients().into_iter().enumerate();
    clients
        .filter(|(_, client)| other(client))
        .map(|(at, _)| {
            let at = at.to_string();
            let path = PointerBuf::from_tokens(["webhooks", &at, "clientConfig", "caBundle"]);
            PatchOperation::Add(AddOperation { path, value: encoded.clone().into() })
        })
        .collect()
}

/// The coordinator's conditions, for webhooks where they say something else.
fn filter<K: Configuration>(configuration: &K, wanted: &Conditions) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    for (at, conditions) in configuration.conditions().into_iter().enumerate() {
        for (place, condition) in conditions.iter().enumerate() {
            let expression = wanted.expression(&condition.name);
            let Some(value) = expression.filter(|wanted| condition.expression != *wanted) else {
                continue;
            };
            let (at, place) = (at.to_string(), place.to_string());
            let tokens = ["webhooks", &at, "matchConditions", &place, "expression"];
            let path = PointerBuf::from_tokens(tokens);
            operations
                .push(PatchOperation::Replace(ReplaceOperation { path, value: value.into() }));
        }
    }
    operations
}

async fn keep<K: Configuration>(
    writer: &Writer,
    (mut authorities, mut blocking): (Authorities, Blocking),
    ours: &str,
    stop: &CancellationToken,
) {
    let objects = writer.all::<K>();
    let all = Api::<K>::all(writer.reader());
    let (found, reflector) = watch(all, watcher::Config::default(), |object: &mut K| {
        object.meta_mut().managed_fields = None;
    });
    let work = async {
        found.ready().await;
        let mut changes = found.subscribe();
        let mut foreign = BTreeSet::new();
        loop {
            let trusted = authorities.borrow_and_update().clone();
            let blocking_now = *blocking.borrow_and_update();
            let wanted = Conditions { ours: ours.to_owned(), blocking: blocking_now };
            let mut failed = false;
            for object in found.all() {
                let trusted = trusted.as_deref();
                let change = trusted.and_then(|trusted| change(&*object, trusted, &wanted));
                let Some(change) = change else { continue };
                let name = object.name_any();
                if !CONFIGURATIONS.contains(&name.as_str()) {
                    if foreign.insert(name.clone()) {
                        let kind = K::kind(&());
                        tracing::warn!(
                            %kind, name, reason = "foreign-webhooks",
                            "it asks for what the coordinator gives its own webhook configurations alone: {}",
                            CONFIGURATIONS.join(", ")
                        );
                    }
                    continue;
                }
                match writer.change(&objects, &name, change).await {
                    Ok(_) => {
                        let kind = K::kind(&());
                        tracing::info!(%kind, name, "its webhooks are configured");
                    }
                    // What is known of it is old: news of it are on their way.
                    Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => failed = true,
                    Err(WriteError::NotLeader(_)) => return,
                    Err(error) => {
                        let reason = error.reason();
                        tracing::warn!(reason, "webhooks cannot be configured: {error}");
                        failed = true;
                    }
                }
            }
            tokio::select! {
                _ = changes.recv() => {}
                Ok(()) = blocking.changed() => {}
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const SHIPPED: &str = include_str!("../../../../deploy/coordinator/webhook-scheduler.yaml");

    fn of(names: &[&str]) -> Conditions {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Conditions { ours: ours(&names), blocking: false }
    }

    fn shipped() -> (MutatingWebhookConfiguration, ValidatingWebhookConfiguration) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        let [mutating, validating] = documents.try_into().unwrap();
        (serde_json::from_value(mutating).unwrap(), serde_json::from_value(validating).unwrap())
    }

    /// The configuration after a change; how many of its webhooks ask about these pods.
    fn changed<K: Configuration + serde::Serialize>(
        configuration: &K,
        wanted: &Conditions,
    ) -> (K, usize) {
        let patch = change(configuration, "authority", wanted).unwrap();
        let mut raw = serde_json::to_value(configuration).unwrap();
        raw["metadata"]["resourceVersion"] = "1".into();
        json_patch::patch(&mut raw, &patch).unwrap();
        let changed: K = serde_json::from_value(raw).unwrap();
        let conditions = changed.conditions();
        let says = |one: &MatchCondition| one.name == OURS && one.expression == wanted.ours;
        let count = conditions.iter().filter(|all| all.iter().any(says)).count();
        (changed, count)
    }

    #[test]
    fn the_api_server_asks_about_pods_of_all_scheduler_names() {
        let (mutating, validating) = shipped();
        let both = of(&["muster-scheduler", "kai-scheduler"]);
        let (mutating, asking) = changed(&mutating, &both);
        assert_eq!(asking, 2);
        let (validating, asking) = changed(&validating, &both);
        assert_eq!(asking, 1, "queues and groups are of no scheduler");
        // Once is enough.
        assert_eq!(change(&mutating, "authority", &both), None);
        assert_eq!(change(&validating, "authority", &both), None);
        // The other conditions are as they were.
        let words = mutating.webhooks.as_deref().unwrap()[0].match_conditions.as_deref().unwrap();
        assert!(words[1].expression.contains("gpu-fraction"), "{words:?}");
    }

    #[test]
    fn what_is_shipped_needs_no_other_filter_by_default() {
        let (mutating, _) = shipped();
        let ours = ours(&muster_scheduler_state::Settings::default().scheduler_names);
        let wanted = Conditions { ours, blocking: false };
        let patch = change(&mutating, "authority", &wanted).unwrap();
        let caught = |one: &PatchOperation| one.path().to_string().contains("matchConditions");
        assert!(!patch.0.iter().any(caught), "{patch}");
    }

    #[test]
    fn pods_wait_for_what_keeps_them_from_choosing_devices_only_where_that_is_on() {
        let (mutating, _) = shipped();
        let says = |configuration: &MutatingWebhookConfiguration| -> Vec<String> {
            let all = configuration.conditions().concat();
            let blocking = all.into_iter().filter(|one| one.name == BLOCKING);
            blocking.map(|one| one.expression).collect()
        };
        assert_eq!(says(&mutating), ["false"]);
        let on = Conditions { blocking: true, ..of(&["muster-scheduler"]) };
        let (mutating, _) = changed(&mutating, &on);
        assert_eq!(says(&mutating), ["true"]);
        let (mutating, _) = changed(&mutating, &of(&["muster-scheduler"]));
        assert_eq!(says(&mutating), ["false"]);
    }

    #[test]
    fn a_filter_stays_where_nobody_asks_for_ours() {
        let (mut mutating, _) = shipped();
        mutating.annotations_mut().remove(INJECT_SCHEDULER_NAMES);
        let patch = change(&mutating, "authority", &of(&["kai-scheduler"])).unwrap();
        assert!(!patch.to_string().contains("kai-scheduler"), "{patch}");
    }

    #[test]
    fn a_name_cannot_end_its_text() {
        let text = of(&[r"a' || true || 'a\"]).ours;
        assert!(text.ends_with(r"in ['a\' || true || \'a\\']"), "{text}");
    }
}
