//! What queues have used of late, asked of Prometheus again and again. Nobody waits for it but the first cycle: while there is no
//! answer the last one counts, and when that is too old none does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Limited};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use muster_scheduler::config::UsageDb;
use muster_scheduler::input::Usage;
use muster_scheduler_state::usage::{self, AnswerError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Metrics;
use super::live::Following;

mod client;

pub use client::Secrets;
use client::{Credentials, client};

/// A larger answer is not read.
const LARGEST: usize = 4 << 20;

/// What is known of past use.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Past {
    /// It does not count.
    #[default]
    Off,
    /// The first answer is still to come: no cycle yet.
    Awaited,
    /// What queues have used, and why there is nothing newer.
    Known(UsageByQueue, Option<String>),
    /// There is no answer, or the last one is too old; why.
    Stale(String),
}

/// What each queue has used, by its name. Copies share it.
type UsageByQueue = Arc<Vec<(String, Usage)>>;

/// What is asked, and what has come of it.
struct Asking {
    what: UsageDb,
    secrets: Secrets,
    /// With the credentials that it was made with: the Secret may change.
    client: Option<(Credentials, Client)>,
    began: Instant,
    last: Option<(Instant, UsageByQueue)>,
}

// === impl Past ===

impl Past {
    /// What counts.
    pub fn usage(&self) -> Vec<(String, Usage)> {
        match self {
            Self::Known(usage, _) => usage.to_vec(),
            Self::Off | Self::Awaited | Self::Stale(_) => Vec::new(),
        }
    }

    /// What is missing.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::Known(_, why) => why.as_deref(),
            Self::Stale(why) => Some(why),
            Self::Off | Self::Awaited => None,
        }
    }
}

// === impl Asking ===

impl Asking {
    fn new(what: UsageDb, secrets: Secrets) -> Self {
        Self { what, secrets, client: None, began: Instant::now(), last: None }
    }

    /// Asks once.
    async fn ask(&mut self) -> Past {
        match self.fetch().await {
            Ok(usage) => {
                let usage = Arc::new(usage);
                self.last = Some((Instant::now(), usage.clone()));
                Past::Known(usage, None)
            }
            Err(error) => {
                let why = format!("past use cannot be read: {error:#}");
                match &self.last {
                    Some((at, usage)) if at.elapsed() <= span(self.what.staleness) => {
                        Past::Known(usage.clone(), Some(why))
                    }
                    None if self.began.elapsed() < span(self.what.wait) => Past::Awaited,
                    _ => Past::Stale(why),
                }
            }
        }
    }

    /// When it is asked again: soon, as long as somebody waits for the first answer.
    fn next(&self, now: &Past) -> Instant {
        let interval = span(self.what.fetch_interval);
        Instant::now()
            + if *now == Past::Awaited { interval.min(Duration::from_secs(1)) } else { interval }
    }

    /// A client with the credentials as they are now.
    async fn client(&mut self) -> anyhow::Result<Client> {
        let credentials = self.secrets.read(self.what.auth_secret.as_deref()).await?;
        if let Some((_, client)) = self.client.as_ref().filter(|(with, _)| *with == credentials) {
            return Ok(client.clone());
        }
        let client = client(&self.what.at, &credentials)?;
        self.client = Some((credentials, client.clone()));
        Ok(client)
    }

    async fn fetch(&mut self) -> anyhow::Result<Vec<(String, Usage)>> {
        let now = Timestamp::now();
        let limit = span(self.what.timeout);
        let all = async {
            let client = &self.client().await?;
            let mut answers = Vec::new();
            for queries in usage::queries(&self.what, now) {
                let capacity = query(client, &queries.capacity, now).await?;
                let queues = query(client, &queries.allocation, now).await?;
                answers.push((queries.resource, queues, capacity.first().map(|(_, sum)| *sum)));
            }
            let nothing = !answers.is_empty() && answers.iter().all(|(_, _, all)| all.is_none());
            ensure!(
                !nothing,
                "Prometheus does not know what the cluster has: run kube-state-metrics, or set extraParams.gpuCapacityMetric"
            );
            Ok(usage::usage(answers))
        };
        let late = || format!("no answer after {limit:.1?}: set extraParams.usageQueryTimeout");
        tokio::time::timeout(limit, all).await.with_context(late)?
    }
}

/// Asks as long as the configuration in force wants it, until stopped.
pub async fn follow(
    mut in_force: Following,
    secrets: Secrets,
    tell: watch::Sender<Past>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let work = async {
        let mut asking: Option<Asking> = None;
        let mut next = None;
        loop {
            let wanted =
                in_force.borrow_and_update().as_ref().and_then(|now| now.config.usage.clone());
            if wanted != asking.as_ref().map(|asking| asking.what.clone()) {
                asking = wanted.map(|what| Asking::new(what, secrets.clone()));
                next = asking.as_ref().map(|_| Instant::now());
                tell.send_replace(if asking.is_some() { Past::Awaited } else { Past::Off });
            }
            if let Some(asking) = &mut asking
                && next.is_some_and(|at| at <= Instant::now())
            {
                let past = asking.ask().await;
                next = Some(asking.next(&past));
                metrics.asked_for_usage(past.missing().is_none() && past != Past::Awaited);
                tell.send_if_modified(|before| {
                    log(before, &past);
                    let changed = *before != past;
                    *before = past;
                    changed
                });
            }
            metrics.usage_missing(matches!(*tell.borrow(), Past::Stale(_)));
            tokio::select! {
                changed = in_force.changed() => if changed.is_err() { return },
                () = until(next) => {}
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
    metrics.usage_missing(false);
}

/// One line for each transition.
fn log(before: &Past, now: &Past) {
    match (before, now) {
        (Past::Known(_, None), Past::Known(_, Some(why))) => {
            tracing::warn!(reason = "usage", "{why}; the last answer counts");
        }
        (Past::Off | Past::Awaited | Past::Known(..), Past::Stale(why)) => {
            tracing::warn!(reason = "usage", "no past use counts: {why}");
        }
        (
            Past::Off | Past::Awaited | Past::Known(_, Some(_)) | Past::Stale(_),
            Past::Known(usage, None),
        ) => {
            tracing::info!(queues = usage.len(), "past use counts");
        }
        _ => {}
    }
}

/// The answer to a query: values by queue.
async fn query(client: &Client, query: &str, now: Timestamp) -> anyhow::Result<Vec<(String, f64)>> {
    let at = format!("{}.{:03}", now.as_second(), now.subsec_millisecond().max(0));
    let path = format!("/api/v1/query?query={}&time={at}", escaped(query));
    let request = http::Request::get(path).body(kube::client::Body::empty())?;
    let asked = || format!("query {query}");
    let answer = client.send(request).await.with_context(asked)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}")).with_context(asked)?.to_bytes();
    match usage::read(&body) {
        Ok(values) if status.is_success() => Ok(values),
        Ok(_) => bail!("{}: HTTP status {status}", asked()),
        Err(AnswerError(why)) => bail!("{}: HTTP status {status}: {why}", asked()),
    }
}

/// As part of a URL.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                all.push(char::from(byte));
            }
            other => all.push_str(&format!("%{other:02X}")),
        }
    }
    all
}

fn span(span: SignedDuration) -> Duration {
    Duration::try_from(span).unwrap_or_default()
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
