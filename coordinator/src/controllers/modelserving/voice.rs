//! Events, said in their order by one task, so that nothing else waits for them. What is too much is dropped and
//! counted: an event is for people, and people read the first hundred.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::metrics::Reason;
use crate::events::Events;

/// Events that wait at most.
const MOST: usize = 8192;

/// How long one may take.
const LONGEST: Duration = Duration::from_secs(5);

/// Says what has happened. Copies share it.
#[derive(Clone)]
pub struct Voice {
    events: Events,
    errors: Family<Reason, Counter>,
    waiting: Arc<Mutex<VecDeque<Said>>>,
    news: Arc<Notify>,
}

/// One thing to say.
struct Said {
    about: ObjectReference,
    warning: bool,
    reason: &'static str,
    message: String,
}

// === impl Voice ===

impl Voice {
    /// With nothing to say yet; what is not said is counted.
    pub fn new(events: Events, errors: Family<Reason, Counter>) -> Self {
        Self { events, errors, waiting: Arc::default(), news: Arc::default() }
    }

    /// Something good has happened.
    pub fn normal(&self, about: ObjectReference, reason: &'static str, message: String) {
        self.push(Said { about, warning: false, reason, message });
    }

    /// Something that somebody should look at.
    pub fn warning(&self, about: ObjectReference, reason: &'static str, message: String) {
        self.push(Said { about, warning: true, reason, message });
    }

    fn push(&self, said: Said) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST {
            self.errors.get_or_create(&Reason { reason: "events" }).inc();
            return;
        }
        waiting.push_back(said);
        self.news.notify_one();
    }

    /// Says it all, until told to end.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let next = self.waiting.lock().pop_front();
            let Some(Said { about, warning, reason, message }) = next else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.news.notified() => continue,
                }
            };
            let say = async {
                match warning {
                    true => self.events.warning(&about, reason, message).await,
                    false => self.events.normal(&about, reason, message).await,
                }
            };
            if tokio::time::timeout(LONGEST, say).await.is_err() {
                self.errors.get_or_create(&Reason { reason: "events" }).inc();
            }
        }
    }
}
