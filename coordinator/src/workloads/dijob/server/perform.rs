//! Work of a request, done: one write after another, each tried again while that may help.

use std::time::Duration;

use muster_dijob::names;
use muster_dijob::operator::Named;
use muster_dijob::pod::Pod;
use muster_dijob::role::Role;
use muster_dijob::server::{Answer, Next, Outcome, Work, Write};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::DiServer;
use super::metrics::Replica;
use crate::workloads::dijob::kinds::{dynamic, raw_pods, this_one};
use muster_runtime::election::NotLeader;
use muster_runtime::writer::{WriteError, Writer};

/// Tries of one write, or of one look.
pub(super) const TRIES: u32 = 3;

/// How long tries of one write may take together.
pub(super) const TOGETHER: Duration = Duration::from_secs(5);

/// The first pause between them; it doubles.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

// === impl DiServer ===

impl DiServer {
    /// Does all of it, or until the caller has left; the answer.
    pub(super) async fn perform(
        &self,
        mut writer: Writer,
        mut work: Work,
        request: &str,
        (until, gone): (Instant, &CancellationToken),
    ) -> Answer {
        loop {
            if gone.is_cancelled() {
                work.give_up();
            }
            let write = match work.advance() {
                Next::Done(answer) => return answer,
                Next::Write(write) => write,
            };
            let outcome = loop {
                let done = match &write {
                    // What is begun is undone, also when it has taken too long.
                    Write::Create(pod) if Instant::now() > until => {
                        let why = format!("pod {}: the request took too long", pod.name());
                        break Outcome::Refused(why);
                    }
                    Write::Create(pod) => self.create(&writer, pod, request).await,
                    Write::Delete(named, role) => self.delete(&writer, named, *role).await,
                };
                match done {
                    Ok(outcome) => break outcome,
                    // A lease that could not be renewed in time may be ours again in a moment.
                    Err(deposed) => match self.regained(until).await {
                        Some(again) => writer = again,
                        None => break Outcome::Refused(deposed.to_string()),
                    },
                }
            };
            work.done(outcome);
        }
    }

    async fn create(
        &self,
        writer: &Writer,
        pod: &Pod,
        request: &str,
    ) -> Result<Outcome, NotLeader> {
        let api = raw_pods(writer, pod.namespace());
        let object = dynamic(pod.to_value());
        let (since, mut tries) = (Instant::now(), 0);
        loop {
            tries += 1;
            let found = match writer.create(&api, &object).await {
                Ok(made) => Some(made),
                // A try before this one may have made it, though it seemed to fail.
                Err(WriteError::Exists { .. }) if tries > 1 => {
                    let found = writer.read(&api, pod.name()).await.ok().flatten();
                    let of = |key: &str| found.as_ref()?.metadata.annotations.as_ref()?.get(key);
                    if of(names::REQUEST).is_none_or(|made_for| made_for != request) {
                        return Ok(Outcome::Exists);
                    }
                    found
                }
                Err(WriteError::Exists { .. }) => return Ok(Outcome::Exists),
                Err(WriteError::NotLeader(deposed)) => return Err(deposed),
                Err(error) if tries < TRIES && may_help(&error) && since.elapsed() < TOGETHER => {
                    tokio::time::sleep(PAUSE * tries).await;
                    None
                }
                Err(error) => return Ok(Outcome::Refused(text(&error))),
            };
            let Some(made) = found else { continue };
            let role = pod.role().map_or("", Role::word);
            self.metrics.made.get_or_create(&Replica { role }).inc();
            let uid = made.metadata.uid.clone().unwrap_or_default();
            let made = serde_json::to_value(made).unwrap_or_default();
            // What cannot be read is seen when the watch brings it.
            if let Ok(made) = serde_json::from_value(made) {
                self.caches.cache.made(made);
            }
            return Ok(Outcome::Created(uid));
        }
    }

    async fn delete(&self, writer: &Writer, pod: &Named, role: Role) -> Result<Outcome, NotLeader> {
        let Named { namespace, name, uid } = pod;
        let api = raw_pods(writer, namespace);
        let how = this_one(uid, Some(self.jobs.grace));
        let (since, mut tries) = (Instant::now(), 0);
        loop {
            tries += 1;
            match writer.delete(&api, name, &how).await {
                // Another one has its name by now: the one that was meant is gone.
                Ok(()) | Err(WriteError::Conflict { .. }) => {
                    self.caches.cache.deleted(namespace, name, uid);
                    self.metrics.deleted.get_or_create(&Replica { role: role.word() }).inc();
                    return Ok(Outcome::Deleted);
                }
                Err(WriteError::NotLeader(deposed)) => return Err(deposed),
                Err(error) if tries < TRIES && may_help(&error) && since.elapsed() < TOGETHER => {
                    tokio::time::sleep(PAUSE * tries).await;
                }
                Err(error) => return Ok(Outcome::Refused(text(&error))),
            }
        }
    }
}

/// Whether the same may succeed a moment later.
pub(super) fn may_help(error: &WriteError) -> bool {
    match error {
        WriteError::Conflict { .. } | WriteError::Late { .. } => true,
        WriteError::Refused { error, .. } => match &**error {
            kube::Error::Api(status) => status.code == 429 || status.code >= 500,
            // It could not be sent, or its answer was not heard.
            _ => true,
        },
        WriteError::NotLeader(_) | WriteError::Exists { .. } | WriteError::Gone { .. } => false,
    }
}

/// What the API server says, as it says it.
fn text(error: &WriteError) -> String {
    match error {
        WriteError::Refused { error, .. } => match &**error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}
