//! Events: what has happened to an object, written once, when it happens. Who must not wait for the API server uses an
//! [`crate::recorder::EventRecorder`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::names::FIELD_MANAGER;

/// Writes events. Each is one of its own: those of two generations of a table must not be taken for one that came twice, which
/// would show the text of the first.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    controller: &'static str,
    action: &'static str,
}

/// Whether somebody should look at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Somebody should look at it.
    Warning,
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
        self.write(EventKind::Normal, about, reason, note, None).await;
    }

    /// Something that somebody should look at.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, note: String) {
        self.write(EventKind::Warning, about, reason, note, None).await;
    }

    /// Something good has happened, and programs read the details in annotations of the event.
    pub async fn annotated(
        &self,
        about: &ObjectReference,
        reason: &str,
        note: String,
        annotations: BTreeMap<String, String>,
    ) {
        self.write(EventKind::Normal, about, reason, note, Some(annotations)).await;
    }

    /// Something of this kind has happened.
    pub async fn write(
        &self,
        kind: EventKind,
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
            type_: Some(kind.name().to_owned()),
            ..seen(jiff::Timestamp::now(), self.controller)
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            let kind = about.kind.as_deref();
            tracing::warn!(kind, subject, reason, "an event cannot be written: {error}");
        }
    }
}

// === impl EventKind ===

impl EventKind {
    /// A warning, or not.
    pub fn of(warning: bool) -> Self {
        if warning { Self::Warning } else { Self::Normal }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
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
