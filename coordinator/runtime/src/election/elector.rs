//! The candidate at work: requests, a watch, and what others are told.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::candidate::{Candidate, Step};
use super::{Fence, Leadership, Metrics, Settings};
use crate::names::FIELD_MANAGER;

/// How often a Lease that is given back is written, if others write it too.
const RELEASES: usize = 3;

/// Takes part in the election. Dropped, it leads no more, but others must wait for the lease to run out.
pub struct Elector {
    api: Api<Lease>,
    settings: Settings,
    candidate: Candidate,
    leadership: watch::Sender<Leadership>,
    metrics: Metrics,
    /// What went wrong last, so that it is said once.
    trouble: Option<&'static str>,
}

/// Why a request about the Lease failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no answer after {0:.1?}")]
    Late(Duration),
    #[error("somebody else has changed it in the meantime")]
    Conflict,
    #[error("the API server refuses it: {0}")]
    Refused(Box<kube::Error>),
    #[error("the API server cannot be reached: {}", muster_program::causes(.0))]
    Unreachable(Box<kube::Error>),
}

type Changes<'a> = Pin<&'a mut (dyn Stream<Item = watcher::Result<watcher::Event<Lease>>> + Send)>;

/// Waits for an answer, but not for long.
async fn within<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, LeaseError> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(refused))) if refused.code == 409 => Err(LeaseError::Conflict),
        Ok(Err(error @ kube::Error::Api(_))) => Err(LeaseError::Refused(Box::new(error))),
        Ok(Err(error)) => Err(LeaseError::Unreachable(Box::new(error))),
        Err(_) => Err(LeaseError::Late(limit)),
    }
}

// === impl LeaseError ===

impl LeaseError {
    /// Why, for metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Late(_) => "late",
            Self::Conflict => "conflict",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

// === impl Elector ===

impl Elector {
    /// One that stands by, and where to read whether it still does.
    pub fn new(client: Client, settings: Settings) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, seen) = watch::channel(Leadership::Standby { leader: None });
        let elector = Self {
            api: Api::namespaced(client, &settings.namespace),
            candidate: Candidate::new(&settings),
            settings,
            leadership,
            metrics: Metrics::default(),
            trouble: None,
        };
        (elector, seen)
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Takes part until it is stopped. Then it gives the Lease back, so that another leads at once: whatever writes
    /// as the leader should have ended by then.
    pub async fn run(mut self, stop: CancellationToken) {
        let only = format!("metadata.name={}", self.settings.name);
        let config = watcher::Config::default().fields(&only);
        let changes = watcher(self.api.clone(), config).default_backoff();
        let mut changes = std::pin::pin!(changes);
        loop {
            let step = self.candidate.step(Instant::now());
            self.tell();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.act(step, changes.as_mut()) => {}
            }
            self.tell();
        }
        self.give_back().await;
    }

    async fn act(&mut self, step: Step, changes: Changes<'_>) {
        match step {
            Step::Wait { until } => tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                event = next(changes) => self.heard(event),
            },
            Step::Look => self.look().await,
            Step::Create | Step::Take | Step::Renew => self.write(step).await,
        }
    }

    fn heard(&mut self, event: watcher::Result<watcher::Event<Lease>>) {
        match event {
            Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => {
                self.candidate.nudge(lease.metadata.resource_version.as_deref());
            }
            Ok(watcher::Event::Delete(_)) => self.candidate.nudge(None),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            // It is tried again, and the Lease is read now and then in any case.
            Err(error) => {
                self.metrics.fail("watch");
                tracing::debug!("the Lease cannot be watched: {error}");
            }
        }
    }

    async fn look(&mut self) {
        let sent = Instant::now();
        match within(self.candidate.limit(sent), self.api.get_opt(&self.settings.name)).await {
            Ok(lease) => {
                self.candidate.found(lease, Instant::now());
                self.trouble = None;
            }
            Err(error) => self.fail("read", &error, sent),
        }
    }

    async fn write(&mut self, step: Step) {
        let sent = Instant::now();
        let Some((lease, epoch)) = self.candidate.draft(step, Timestamp::now()) else {
            return;
        };
        let limit = self.candidate.limit(sent);
        let answer = match step {
            Step::Create => within(limit, self.api.create(&params(), &lease)).await,
            _ => within(limit, self.replace(&lease)).await,
        };
        match answer {
            Ok(lease) => {
                self.candidate.wrote(lease, epoch, sent, Instant::now());
                self.trouble = None;
                if step == Step::Renew {
                    self.metrics.renewals.inc();
                }
            }
            Err(error) => self.fail("written", &error, sent),
        }
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        self.api.replace(&self.settings.name, &params(), lease).await
    }

    fn fail(&mut self, what: &str, error: &LeaseError, sent: Instant) {
        let reason = error.reason();
        self.metrics.fail(reason);
        self.candidate.failed(matches!(error, LeaseError::Conflict), sent);
        let Settings { namespace, name, .. } = &self.settings;
        if self.trouble.replace(reason) != Some(reason) && reason != "conflict" {
            tracing::warn!(reason, "Lease {namespace}/{name} cannot be {what}: {error}");
        }
    }

    /// Tells everybody when something has changed. A fence that has ended is never given out again.
    fn tell(&mut self) {
        let term = self.candidate.term();
        let known = self.leadership.borrow().clone();
        if let (Some(term), Leadership::Leading(fence)) = (term, &known)
            && fence.epoch() == term.epoch
        {
            fence.extend(term.until);
            if fence.left().is_ok() {
                return;
            }
            self.candidate.depose();
        }
        let next = match self.candidate.term() {
            Some(term) => Leadership::Leading(Fence::new(term.epoch, term.until)),
            None => Leadership::Standby { leader: self.candidate.leader().map(str::to_owned) },
        };
        self.turn(&known, next);
    }

    fn turn(&self, known: &Leadership, next: Leadership) {
        let identity = &self.settings.identity;
        if let Leadership::Leading(fence) = known {
            fence.end();
            self.metrics.leader.set(0);
            self.metrics.transitions.inc();
            tracing::info!(identity, epoch = fence.epoch(), "lost leadership");
        }
        match (known, &next) {
            (Leadership::Standby { leader: old }, Leadership::Standby { leader })
                if old == leader =>
            {
                return;
            }
            (_, Leadership::Standby { leader }) => {
                tracing::info!(identity, leader, "standing by");
            }
            (_, Leadership::Leading(fence)) => {
                self.metrics.leader.set(1);
                self.metrics.transitions.inc();
                tracing::info!(identity, epoch = fence.epoch(), "became leader");
            }
        }
        self.leadership.send_replace(next);
    }

    /// The fence goes down first, then the Lease is given back.
    async fn give_back(&mut self) {
        self.retire();
        self.candidate.depose();
        if !self.candidate.has_tried() {
            return;
        }
        let limit = 2 * self.candidate.limit(Instant::now());
        let all = async {
            for _ in 0..RELEASES {
                if self.candidate.is_stale() {
                    self.look().await;
                }
                let Some(lease) = self.candidate.release() else { return };
                let sent = Instant::now();
                match within(self.candidate.limit(sent), self.replace(&lease)).await {
                    Ok(_) => return,
                    Err(error) => self.fail("given back", &error, sent),
                }
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!(
                reason = "late",
                "the Lease was not given back within {limit:.1?}: others wait"
            );
        }
    }

    fn retire(&mut self) {
        let known = self.leadership.borrow().clone();
        self.turn(&known, Leadership::Standby { leader: None });
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        self.retire();
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// The next event. A watch that has ended says nothing more.
async fn next(mut changes: Changes<'_>) -> watcher::Result<watcher::Event<Lease>> {
    match changes.next().await {
        Some(event) => event,
        None => std::future::pending().await,
    }
}
