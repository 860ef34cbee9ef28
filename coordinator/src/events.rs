//! Events: what has happened to an object, said once, when it happens.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

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
