//! Events: what has happened to an object, said once, when it happens.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::names::FIELD_MANAGER;

/// What happens to rank groups, in one word. The first four are the seed's. `docs/ranktables.md` explains each; a test
/// compares.
pub mod reason {
    /// The record was created.
    pub const CONFIG_MAP_CREATED: &str = "RanktableConfigMapCreated";
    /// A table was made and recorded.
    pub const GENERATED: &str = "RanktableGenerated";
    /// There is no table, and somebody must do something.
    pub const GENERATION_FAILED: &str = "RanktableGenerationFailed";
    /// It is not known what some pods hold.
    pub const ANNOTATION_MISSING: &str = "PodRanktableAnnotationMissing";
    /// Every pod has the table.
    pub const DELIVERED: &str = "RanktableDelivered";
    /// Some pod should have had the table by now.
    pub const LATE: &str = "RanktableLate";
    /// The table is larger than a ConfigMap.
    pub const TOO_LARGE: &str = "RanktableTooLarge";
    /// The table's reader may refuse it.
    pub const DOUBTFUL: &str = "RanktableDoubtful";

    /// All of them.
    pub const ALL: [&str; 8] = [
        CONFIG_MAP_CREATED,
        GENERATED,
        GENERATION_FAILED,
        ANNOTATION_MISSING,
        DELIVERED,
        LATE,
        TOO_LARGE,
        DOUBTFUL,
    ];
}

/// Says what has happened. Copies share it. Each event is one of its own: those of two generations of a table must not
/// be taken for one that came twice, which would show the text of the first.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    controller: &'static str,
    action: &'static str,
}

// === impl Events ===

impl Events {
    /// Events in the name of this coordinator.
    pub fn new(client: Client, instance: &str) -> Self {
        // What the API allows.
        let instance = instance.chars().take(128).collect();
        Self { client, instance, controller: FIELD_MANAGER, action: "Reconcile" }
    }

    /// The same in the name of a controller that others know, and what it does then.
    #[must_use]
    pub fn of(self, controller: &'static str, action: &'static str) -> Self {
        Self { controller, action, ..self }
    }

    /// Something good has happened. An event that cannot be written is logged.
    pub async fn normal(&self, about: &ObjectReference, reason: &str, note: String) {
        self.publish("Normal", about, reason, note, None).await;
    }

    /// Something that somebody should look at.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, note: String) {
        self.publish("Warning", about, reason, note, None).await;
    }

    /// Something good has happened, and programs read the details in annotations of the event.
    pub async fn annotated(
        &self,
        about: &ObjectReference,
        reason: &str,
        note: String,
        annotations: BTreeMap<String, String>,
    ) {
        self.publish("Normal", about, reason, note, Some(annotations)).await;
    }

    async fn publish(
        &self,
        kind: &str,
        about: &ObjectReference,
        reason: &str,
        note: String,
        annotations: Option<BTreeMap<String, String>>,
    ) {
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let subject = about.name.as_deref().unwrap_or_default();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let prefix: String = subject.chars().take(200).collect();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{prefix}.{}", unique.get(..16).unwrap_or(&unique))),
                namespace: Some(namespace.clone()),
                annotations,
                ..ObjectMeta::default()
            },
            action: Some(self.action.to_owned()),
            message: Some(note.chars().take(1000).collect()),
            reason: Some(reason.to_owned()),
            involved_object: about.clone(),
            reporting_component: Some(self.controller.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(kind.to_owned()),
            ..seen(jiff::Timestamp::now(), self.controller)
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            let kind = about.kind.as_deref();
            tracing::warn!(kind, subject, reason, "an event cannot be written: {error}");
        }
    }
}

/// When, how often and by whom, also in the older fields: clients pass over events without them, as the Kubeflow SDK does, and
/// only `core/v1` takes both.
fn seen(now: jiff::Timestamp, controller: &str) -> Event {
    Event {
        event_time: Some(MicroTime(now)),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(EventSource { component: Some(controller.to_owned()), host: None }),
        ..Event::default()
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
