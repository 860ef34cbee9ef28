//! Events: what has happened to an object, said once, when it happens.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::names::FIELD_MANAGER;

/// Says what has happened. Copies share it.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

// === impl Events ===

impl Events {
    /// Events in the name of this coordinator.
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter =
            Reporter { controller: FIELD_MANAGER.into(), instance: Some(instance.into()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Something good has happened. An event that cannot be written is logged.
    pub async fn normal(&self, about: &ObjectReference, reason: &str, note: String) {
        self.publish(EventType::Normal, about, reason, note).await;
    }

    /// Something that somebody should look at.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, note: String) {
        self.publish(EventType::Warning, about, reason, note).await;
    }

    async fn publish(&self, type_: EventType, about: &ObjectReference, reason: &str, note: String) {
        let note: String = note.chars().take(1000).collect();
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            let (kind, name) = (about.kind.as_deref(), about.name.as_deref());
            tracing::warn!(kind, name, reason, "an event cannot be written: {error}");
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
