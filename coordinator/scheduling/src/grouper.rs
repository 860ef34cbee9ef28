//! Puts pods into PodGroups: reads owners, writes groups, marks pods.
//!
//! ```text
//!   pod ──▶ draft (podgrouper, pure) ──▶ as written before? ──▶ member
//!             │ unread: read it, once       │ no: one lock per group, draft anew, create or replace
//!             ▼                             ▼
//!           reader (cache, shared GETs)   writer
//! ```
//!
//! [`controller`] reconciles the pods that the scheduler's loop puts into [`waiting`]. Thousands of pods of one owner cost a few reads and one write. A pod is patched only if it needs a label: the
//! annotation can ride on its Binding. Nothing is kept that matters: after a crash the next one reads it all again.

mod bounded;
pub mod cache;
pub mod controller;
mod failure;
mod groups;
mod known;
pub mod metrics;
pub mod reader;
mod reported;
mod view;
pub mod waiting;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use muster_podgrouper::draft::Draft;
use muster_podgrouper::group::{Asked, ask, marks};
use muster_podgrouper::{Class, Config, Key, Object};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use cache::{Limits, Want};
use failure::Failure;
use known::Known;
pub use metrics::Metrics;
use muster_runtime::events::Events;
use muster_runtime::locks::Locks;
use muster_runtime::recorder::EventRecorder;
use muster_runtime::writer::{WriteError, Writer};
use reader::Reader;
use reported::Reported;
use view::{Pins, View};
use waiting::Waiting;

/// The reason of events on pods that get no group.
pub const WARNING: &str = "PodGrouperWarning";
/// Things that one pass reads: owners, classes, groups of an owner.
const MOST_READS: usize = 512;
/// Tries to write what others write at the same time.
const TRIES: usize = 8;
/// What failed by something that was read before is tried with something newer, but not more often.
const STALE: Duration = Duration::from_secs(1);

/// What came of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouped {
    /// It belongs to a group, which is there.
    Member {
        /// The group, of the pod's namespace.
        group: String,
        /// Its part of it.
        sub_group: Option<String>,
        /// Whether the pod itself says so. If not, the annotation is for its Binding; the label it never lacks.
        written: bool,
    },
    /// It is left alone: it is another scheduler's, asks for it, names its group itself, or goes.
    Skipped,
    /// It has no group.
    Failed {
        /// The word for it.
        class: &'static str,
        /// The object, the field and the remedy.
        message: String,
        /// Whether it may go better later though the pod stays as it is.
        retry: bool,
    },
}

/// Puts pods into PodGroups. Copies share it.
#[derive(Clone)]
pub struct Grouper(Arc<Inner>);

struct Inner {
    writer: Writer,
    events: EventRecorder,
    /// Changes while pods are grouped.
    config: Mutex<Arc<Config>>,
    metrics: Metrics,
    reader: Reader,
    locks: Locks<(String, String)>,
    known: Mutex<Known>,
    reported: Mutex<Reported>,
    waiting: Waiting,
}

// === impl Grouper ===

impl Grouper {
    /// Writes in the leader's name. [`controller::run`] records its events.
    pub fn new(writer: Writer, events: Events, settings: Config, metrics: Metrics) -> Self {
        Self::limited(writer, events, settings, metrics, Limits::default())
    }

    /// With other limits of what is kept.
    pub fn limited(
        writer: Writer,
        events: Events,
        settings: Config,
        metrics: Metrics,
        limits: Limits,
    ) -> Self {
        let events = EventRecorder::new(events.of("pod-grouper", "Group"), metrics.dropped.clone());
        let reader = Reader::new(writer.reader(), limits, metrics.clone());
        Self(Arc::new(Inner {
            writer,
            events,
            config: Mutex::new(Arc::new(settings)),
            metrics,
            reader,
            locks: Locks::default(),
            known: Mutex::default(),
            reported: Mutex::default(),
            waiting: Waiting::default(),
        }))
    }

    /// Groups a pod: its group is there and right when this returns. May be asked again at any time.
    pub async fn group(&self, pod: Value) -> Grouped {
        let pod = Object::new(pod).or_of_kind("v1", "Pod");
        let done = self.0.place(&pod).await;
        let mut reported = self.0.reported.lock();
        match done {
            Ok(grouped) => {
                reported.forget(pod.uid());
                let is_member = matches!(grouped, Grouped::Member { .. });
                self.0.metrics.saw(if is_member { "grouped" } else { "skipped" });
                grouped
            }
            Err(failure) => {
                let Failure { class, message, retry, said: aloud } = failure;
                self.0.metrics.saw(class);
                if aloud && reported.is_news(pod.uid(), &message) {
                    self.0.events.warning(reference(&pod), WARNING, message.clone());
                }
                tracing::debug!(pod = pod.shown(), class, "no group: {message}");
                Grouped::Failed { class, message, retry }
            }
        }
    }

    /// The pods that have no group yet.
    pub fn waiting(&self) -> &Waiting {
        &self.0.waiting
    }

    /// Counts the pods of a group once more, as one of them asks for it.
    async fn count_again(&self, pod: &Object) {
        if let Err(Failure { class, message, .. }) = self.0.settle(pod).await {
            tracing::debug!(pod = pod.shown(), class, "its group is not counted again: {message}");
        }
    }

    /// Reads the queue of pods from this label from now on. Groups that are there keep theirs.
    pub fn read_queue_from(&self, label: &str) {
        let mut config = self.0.config.lock();
        if config.queue_label != label {
            Arc::make_mut(&mut config).queue_label = label.to_owned();
        }
    }

    /// From now on new pods of a Knative revision are one group, or each is one. Pods that have a group keep it.
    pub fn gang_knative(&self, on: bool) {
        let mut config = self.0.config.lock();
        if config.knative_gang != on {
            Arc::make_mut(&mut config).knative_gang = on;
        }
    }

    /// A PodGroup has changed or is gone: what is remembered of it is not believed any more.
    pub fn forget(&self, namespace: &str, name: &str) {
        let want = Want::Object(Key::pod_group(namespace, name));
        self.0.reader.cache().lock().forget(&want);
    }
}

// === impl Inner ===

impl Inner {
    async fn place(&self, pod: &Object) -> Result<Grouped, Failure> {
        let Some((draft, listed)) = self.settle(pod).await? else { return Ok(Grouped::Skipped) };
        if listed {
            self.waiting
                .count_again((draft.namespace.as_str().into(), draft.name.as_str().into()), pod);
        }
        let marks = marks(pod, &draft);
        let Draft { name: group, member: sub_group, .. } = draft;
        let written = match &marks {
            None => true,
            Some(marks) if marks.labels.is_empty() => false,
            Some(marks) => {
                let change = json!({"metadata": {"uid": pod.uid(), "labels": marks.labels,
                    "annotations": marks.annotations}});
                if !self.mark(pod, &change).await? {
                    return Ok(Grouped::Skipped);
                }
                true
            }
        };
        Ok(Grouped::Member { group, sub_group, written })
    }

    /// Makes the group what the pod asks for; nothing if the pod is left alone. Also whether pods were counted.
    async fn settle(&self, pod: &Object) -> Result<Option<(Draft, bool)>, Failure> {
        let (mut reason, mut group) = ("conflict", String::new());
        for _ in 0..TRIES {
            let Some((draft, listed)) = self.draft(pod).await? else { return Ok(None) };
            if self.is_known(&draft) {
                return Ok(Some((draft, listed)));
            }
            let at = (draft.namespace.clone(), draft.name.clone());
            let _locked = self.locks.lock(at.clone()).await;
            // Somebody may have written it in the meantime, or counted more pods.
            let Some((draft, listed)) = self.draft(pod).await? else { return Ok(None) };
            if self.is_known(&draft) {
                return Ok(Some((draft, listed)));
            }
            if (&draft.namespace, &draft.name) != (&at.0, &at.1) {
                continue;
            }
            match self.write(&draft).await? {
                Ok(version) => {
                    self.known.lock().put(&draft, version);
                    return Ok(Some((draft, listed)));
                }
                Err(why) => (reason, group) = (why, draft.name),
            }
        }
        let message =
            format!("PodGroup {group}: it was written by others {TRIES} times; it is tried again");
        Err(Failure { class: reason, message, retry: true, said: false })
    }

    /// What the pod asks for. What has to be known for it is read.
    async fn draft(&self, pod: &Object) -> Result<Option<(Draft, bool)>, Failure> {
        let (cache, began) = (self.reader.cache(), Instant::now());
        let config = self.config();
        let mut pins = Pins::new();
        for _ in 0..MOST_READS {
            let view = View::new(pod, &pins, cache, Instant::now());
            let error = match ask(pod, &view, &config) {
                Ok(Asked::Nothing(_)) => return Ok(None),
                Ok(Asked::Group(draft)) => return Ok(Some((*draft, view.has_listed()))),
                Err(error) => error,
            };
            if error.class == Class::Unread
                && let Some(want) = view.wanted()
            {
                // Somebody may have read it since this pass looked.
                let held = self.reader.known(want.clone()).await?;
                pins.insert(want, held);
                continue;
            }
            // It may be well by now, if something that was read before has changed since.
            let old = |read: &Instant| began.saturating_duration_since(*read) >= STALE;
            let stale: Vec<Want> = view
                .used()
                .into_iter()
                .filter_map(|(want, read)| old(&read).then_some(want))
                .collect();
            if stale.is_empty() {
                return Err(error.into());
            }
            let mut cache = cache.lock();
            stale.iter().for_each(|want| cache.forget(want));
        }
        let message =
            format!("{}: more than {MOST_READS} objects say what its group is", pod.shown());
        Err(Failure { class: "too-many-reads", message, retry: true, said: true })
    }

    fn config(&self) -> Arc<Config> {
        self.config.lock().clone()
    }

    /// Marks a pod; whether it is there.
    async fn mark(&self, pod: &Object, change: &Value) -> Result<bool, Failure> {
        let api = self.writer.namespaced::<Pod>(pod.namespace());
        let mut tries = 0;
        loop {
            tries += 1;
            match self.writer.merge_metadata(&api, pod.name(), change).await {
                Ok(()) => {
                    self.metrics.wrote("patch", "Pod");
                    return Ok(true);
                }
                Err(WriteError::Gone { .. }) => return Ok(false),
                Err(WriteError::Conflict { .. }) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn reference(pod: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_owned()),
        ..ObjectReference::default()
    }
}
