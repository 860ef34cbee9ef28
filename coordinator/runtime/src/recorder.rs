//! Records events without waiting for them: one task writes them in their order. What is too much is dropped and counted: an
//! event is for people, and people read the first hundred.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::events::{EventKind, Events};

/// Events that wait at most, if nothing else is said.
const MOST: usize = 8192;

/// How long writing one may take.
const LONGEST: Duration = Duration::from_secs(5);

/// Records what has happened to objects, for one controller. Copies share what waits to be written.
#[derive(Clone)]
pub struct EventRecorder {
    events: Events,
    dropped: Counter,
    /// Events that wait at most.
    most: usize,
    waiting: Arc<Mutex<VecDeque<Recorded>>>,
    news: Arc<Notify>,
}

/// One event that waits to be written.
struct Recorded {
    about: ObjectReference,
    kind: EventKind,
    reason: Cow<'static, str>,
    note: String,
    annotations: Option<BTreeMap<String, String>>,
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Records in the name that `events` has. Events that are dropped are counted.
    pub fn new(events: Events, dropped: Counter) -> Self {
        Self { events, dropped, most: MOST, waiting: Arc::default(), news: Arc::default() }
    }

    /// The same, of which so many events may wait.
    #[must_use]
    pub fn holding(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Something good has happened.
    pub fn normal(
        &self,
        about: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        note: String,
    ) {
        self.record(EventKind::Normal, about, reason, note);
    }

    /// Something has happened that somebody should look at.
    pub fn warning(
        &self,
        about: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        note: String,
    ) {
        self.record(EventKind::Warning, about, reason, note);
    }

    /// Something of this kind has happened.
    pub fn record(
        &self,
        kind: EventKind,
        about: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        note: String,
    ) {
        self.push(Recorded { about, kind, reason: reason.into(), note, annotations: None });
    }

    /// Something good has happened, and programs read the details in annotations of the event.
    pub fn annotated(
        &self,
        about: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        note: String,
        annotations: BTreeMap<String, String>,
    ) {
        let (kind, reason, annotations) = (EventKind::Normal, reason.into(), Some(annotations));
        self.push(Recorded { about, kind, reason, note, annotations });
    }

    fn push(&self, recorded: Recorded) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= self.most {
            self.dropped.inc();
            return;
        }
        waiting.push_back(recorded);
        self.news.notify_one();
    }

    /// Writes them until it is stopped. [`crate::controller::run`] does it for its controller. Where several tasks do, the order is
    /// not kept.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let next = self.waiting.lock().pop_front();
            let Some(Recorded { about, kind, reason, note, annotations }) = next else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.news.notified() => continue,
                }
            };
            let write = self.events.write(kind, &about, &reason, note, annotations);
            if tokio::time::timeout(LONGEST, write).await.is_err() {
                self.dropped.inc();
            }
        }
    }
}

impl std::fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRecorder").finish_non_exhaustive()
    }
}
