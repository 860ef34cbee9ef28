//! Which annotations are to be written now, which later, and which are done. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_proto::annotation::{KEY, PodRanktable};
use muster_proto::pod::PodRef;
use tokio::time::Instant;

use crate::pods::api_error::{self, ApiError};
use crate::pods::{PodMap, PodMeta};

/// How long the watch may take to show what was written, until it is written once more.
const ECHO: Duration = Duration::from_secs(30);

/// What a missing permission costs until somebody gives it.
const FORBIDDEN: Duration = Duration::from_secs(5);

/// A write that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The pod that gets the annotation.
    pub pod: PodRef,
    /// The annotation's value.
    pub text: String,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is there.
    Applied,
    /// The API said no.
    Refused(ApiError),
    /// There was no answer.
    Late,
}

/// All pods whose annotation is not right, or was not a moment ago.
#[derive(Debug, Default)]
pub struct Plan(BTreeMap<PodRef, Task>);

#[derive(Debug)]
struct Task {
    text: String,
    /// What was there when it was written or last looked at.
    there: Option<String>,
    /// Since when the text is known.
    since: Instant,
    attempts: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// To be written at this time.
    Due(Instant),
    /// Under way; `stale`: meanwhile another text is wanted.
    InFlight { stale: bool },
    /// Written, and to be seen in the watch by this time.
    Written(Instant),
}

// === impl WriteOutcome ===

impl WriteOutcome {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused(refusal) => refusal.reason,
            Self::Late => "timeout",
        }
    }
}

// === impl Plan ===

impl Plan {
    /// These annotations should be there, and these pods are. Returns the pods that need no longer be thought of.
    pub fn set_desired(
        &mut self,
        wanted: Vec<(PodRef, PodRanktable)>,
        pods: &PodMap,
        now: Instant,
    ) -> Vec<PodRef> {
        let mut left = std::mem::take(&mut self.0);
        for (pod, table) in wanted {
            let Some(meta) = alive(pods, &pod) else { continue };
            let there = meta.annotations.get(KEY);
            let known = left.remove(&pod);
            if there.is_some_and(|text| PodRanktable::parse(text).as_ref() == Ok(&table)) {
                match known {
                    // It is not known yet whether the write under way will leave it so.
                    Some(task) if matches!(task.stage, Stage::InFlight { .. }) => {
                        self.0.insert(pod, task.wanting(table.write(), there, now));
                    }
                    known => left.extend(known.map(|task| (pod, task))),
                }
                continue;
            }
            let text = table.write();
            let task = match known {
                Some(task) => task.wanting(text, there, now),
                None => Task {
                    text,
                    there: there.cloned(),
                    since: now,
                    attempts: 0,
                    stage: Stage::Due(now),
                },
            };
            self.0.insert(pod, task);
        }
        left.into_keys().collect()
    }

    /// Takes at most so many writes that are due, those that have waited longest first.
    pub fn due(&mut self, most: usize, now: Instant) -> Vec<Write> {
        let mut ready: Vec<(Instant, &PodRef, &mut Task)> = self
            .0
            .iter_mut()
            .filter_map(|(pod, task)| match task.stage {
                Stage::Due(at) | Stage::Written(at) if at <= now => Some((at, pod, task)),
                _ => None,
            })
            .collect();
        ready.sort_by_key(|(at, pod, _)| (*at, (*pod).clone()));
        let take = |(_, pod, task): (Instant, &PodRef, &mut Task)| {
            task.stage = Stage::InFlight { stale: false };
            Write { pod: pod.clone(), text: task.text.clone() }
        };
        ready.into_iter().take(most).map(take).collect()
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Instant> {
        let at = |task: &Task| match task.stage {
            Stage::Due(at) | Stage::Written(at) => Some(at),
            Stage::InFlight { .. } => None,
        };
        self.0.values().filter_map(at).min()
    }

    /// A write has ended. Returns since when its text was wanted, if it is there now for the first time.
    pub fn done(&mut self, pod: &PodRef, outcome: &WriteOutcome, now: Instant) -> Option<Instant> {
        // Nobody wants it any more.
        let task = self.0.get_mut(pod)?;
        let stale = task.stage == Stage::InFlight { stale: true };
        match outcome {
            WriteOutcome::Applied => {
                task.attempts = 0;
                task.stage = if stale { Stage::Due(now) } else { Stage::Written(now + ECHO) };
                (!stale).then_some(task.since)
            }
            WriteOutcome::Refused(refusal) => {
                let mut pause = api_error::pause(task.attempts, refusal.retry_after);
                if matches!(refusal.code, 401 | 403) {
                    pause = pause.max(FORBIDDEN);
                }
                task.attempts = task.attempts.saturating_add(1);
                task.stage = Stage::Due(now + pause);
                None
            }
            WriteOutcome::Late => {
                task.stage = Stage::Due(now + api_error::pause(task.attempts, None));
                task.attempts = task.attempts.saturating_add(1);
                None
            }
        }
    }

    /// How often in a row the write of this pod was refused, if it is still wanted.
    pub fn attempts(&self, pod: &PodRef) -> Option<u32> {
        self.0.get(pod).map(|task| task.attempts)
    }
}

/// The pod, if it is still the same and stays.
fn alive<'a>(pods: &'a PodMap, pod: &PodRef) -> Option<&'a PodMeta> {
    let meta = pods.get(&(pod.namespace.clone(), pod.name.clone()))?;
    (meta.pod == *pod && !meta.deleting).then_some(meta)
}

// === impl Task ===

impl Task {
    /// The same with the text that is wanted now, given what is there now.
    fn wanting(self, text: String, there: Option<&String>, now: Instant) -> Self {
        let changed = text != self.text;
        let since = if changed { now } else { self.since };
        let moved = there != self.there.as_ref();
        let stage = match self.stage {
            Stage::InFlight { stale } => Stage::InFlight { stale: stale || changed },
            // Somebody wrote something else after us, or something else is wanted now.
            Stage::Written(_) if changed || moved => Stage::Due(now),
            // A pause stays, also for a new text: the API asked for it.
            stage => stage,
        };
        Self { text, there: there.cloned(), since, attempts: self.attempts, stage }
    }
}

#[cfg(test)]
mod tests;
