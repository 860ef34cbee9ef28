//! What a Job needs next: a pure function of the Job, its pods and the time.
//!
//! A pass counts ended pods in three steps that survive a crash between any two: their uids go to
//! `status.uncountedTerminatedPods`, then they lose the tracking finalizer, then the uids become
//! part of the counters. Each step is one pass; the cache shows a pass what the last one wrote.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use serde_json::{Value, json};

use super::super::json::{self, stamp};
use super::super::rest::EventText;
use super::indexes::Indexes;
use super::names;
use super::pod::{JobPod, Phase};
use super::policy::{self, PolicyVerdict};
use super::template::NewPod;

mod account;
mod manage;

use account::tidy;

/// Failures since the last success, which slow down the next pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    /// How many pods have failed in a row.
    pub failures: u32,
    /// The last one.
    pub last: Option<Timestamp>,
}

/// What to do, in this order.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Pods to delete; those not `tracked` lose the finalizer first and are not counted.
    pub delete: Vec<Removal>,
    /// Pods to make.
    pub create: Vec<NewPod>,
    /// The status to write, if it differs.
    pub status: Option<Value>,
    /// Pods that have been accounted for and lose the finalizer.
    pub untrack: Vec<String>,
    /// When to look again.
    pub again: Option<Timestamp>,
    /// What to tell people once the status is written.
    pub events: Vec<EventText>,
    /// The back-off after the status is written.
    pub backoff: Backoff,
    /// The TTL has run out.
    pub expire: bool,
}

/// A pod to delete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    /// Name of the pod.
    pub name: String,
    /// Whether it keeps the finalizer, so that it is counted as failed.
    pub counted: bool,
}

/// So many pods are made, or released, in one pass.
const MOST_AT_ONCE: usize = 500;

struct Finish {
    kind: &'static str,
    reason: String,
    message: String,
}

struct JobReconcile<'a> {
    job: &'a Value,
    pods: &'a [&'a JobPod],
    now: Timestamp,
    indexed: bool,
    completions: Option<usize>,
    only_failed_replaced: bool,
    per_index: Option<i64>,
}

fn count(job: &Value, pointer: &str) -> i64 {
    json::int(job, pointer).unwrap_or(0)
}

fn uids(job: &Value, pointer: &str) -> BTreeSet<String> {
    json::list(job, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether the Job has ended.
pub fn is_finished(job: &Value) -> bool {
    json::is_true(job, "Complete") || json::is_true(job, "Failed")
}

/// Whether another controller has the Job.
pub fn is_foreign(job: &Value) -> bool {
    !matches!(json::text(job, "/spec/managedBy"), "" | names::MANAGER)
}

/// What a Job needs: pods to create and to delete, and its status.
pub fn decide(job: &Value, pods: &[&JobPod], backoff: Backoff, now: Timestamp) -> Plan {
    if is_foreign(job) {
        return Plan::default();
    }
    if is_finished(job) {
        return after_the_end(job, pods, now);
    }
    let indexed = json::text(job, "/spec/completionMode") == "Indexed";
    let completions = json::int(job, "/spec/completions").and_then(|n| usize::try_from(n).ok());
    let policy = job.pointer("/spec/podFailurePolicy").is_some_and(|p| !p.is_null());
    JobReconcile {
        job,
        pods,
        now,
        indexed,
        completions: if indexed { completions.or(Some(0)) } else { completions },
        only_failed_replaced: policy || json::text(job, "/spec/podReplacementPolicy") == "Failed",
        per_index: json::int(job, "/spec/backoffLimitPerIndex"),
    }
    .run(backoff)
}

/// A finished Job frees pods that it still holds, and goes when its TTL has run out.
fn after_the_end(job: &Value, pods: &[&JobPod], now: Timestamp) -> Plan {
    let untrack = pods.iter().filter(|p| p.tracked).map(|p| p.name.clone()).collect();
    let mut plan = Plan { untrack, ..Plan::default() };
    let ended = ["Complete", "Failed"].iter().find_map(|kind| {
        let condition = json::condition(job, kind)?;
        (json::text(condition, "/status") == "True")
            .then(|| json::time(condition, "/lastTransitionTime"))?
    });
    if let (Some(ttl), Some(ended)) = (json::int(job, "/spec/ttlSecondsAfterFinished"), ended)
        && !meta::is_terminating(job)
    {
        let end = ended.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX);
        if end <= now {
            plan.expire = true;
        } else {
            plan.again = Some(end);
        }
    }
    plan
}

// === impl JobReconcile ===

impl JobReconcile<'_> {
    fn suspended(&self) -> bool {
        json::flag(self.job, "/spec/suspend")
    }

    fn failed(&self, pod: &JobPod) -> bool {
        pod.phase == Phase::Failed
            || (!self.only_failed_replaced && pod.deleting && pod.phase != Phase::Succeeded)
    }

    fn has_place(&self, pod: &JobPod) -> bool {
        !self.indexed || pod.index.is_some_and(|i| self.completions.is_some_and(|n| i < n))
    }

    fn run(&self, backoff: Backoff) -> Plan {
        let job = self.job;
        let mut status = job.get("status").cloned().unwrap_or_else(|| json!({}));
        let mut plan = Plan { backoff, ..Plan::default() };
        let active: Vec<&JobPod> = self.pods.iter().filter(|p| p.is_active()).copied().collect();
        let mut terminating = self.pods.iter().filter(|p| p.is_terminating()).count();
        let mut ready = active.iter().filter(|p| p.ready).count();

        let was_uncounted_ok = uids(job, "/status/uncountedTerminatedPods/succeeded");
        let was_uncounted_bad = uids(job, "/status/uncountedTerminatedPods/failed");
        let fresh = |pod: &&&JobPod, seen: &BTreeSet<String>| {
            pod.tracked && !seen.contains(&pod.uid) && self.has_place(pod)
        };
        let new_ok: Vec<&JobPod> = (self.pods.iter())
            .filter(|p| fresh(p, &was_uncounted_ok) && p.phase == Phase::Succeeded)
            .copied()
            .collect();
        let new_bad: Vec<&JobPod> = (self.pods.iter())
            .filter(|p| fresh(p, &was_uncounted_bad) && self.failed(p))
            .copied()
            .collect();
        let counted_bad = new_bad.iter().filter(|p| policy::judge(job, p).counts()).count();
        let mut succeeded =
            count(job, "/status/succeeded") + size(new_ok.len()) + size(was_uncounted_ok.len());
        let failed =
            count(job, "/status/failed") + size(counted_bad) + size(was_uncounted_bad.len());

        if status.get("startTime").is_none_or(Value::is_null) && !self.suspended() {
            status["startTime"] = stamp(self.now);
        }
        plan.backoff = next_backoff(backoff, &new_ok, &new_bad);

        let mut finish = self.foregone().or_else(|| self.beyond_limits(failed, &status, &mut plan));
        let mut done = Indexes::default();
        let mut done_before = Indexes::default();
        let mut lost: Option<Indexes> = None;
        let mut held: BTreeMap<usize, &JobPod> = BTreeMap::new();
        if self.indexed {
            let completions = self.completions.unwrap_or(0);
            done_before = Indexes::parse(json::text(job, "/status/completedIndexes"), completions);
            done = done_before.clone();
            for pod in self.pods.iter().filter(|p| p.tracked && p.phase == Phase::Succeeded) {
                if let Some(index) = pod.index.filter(|i| *i < completions) {
                    done.insert(index);
                }
            }
            succeeded = size(done.len());
            if let Some(limit) = self.per_index {
                let lost_now = self.lost_indexes(limit, completions);
                if finish.is_none() {
                    finish = self.index_failure(&lost_now, &done, completions);
                }
                held = self.held(&active, &done, &lost_now);
                lost = Some(lost_now);
            }
            if finish.is_none() {
                finish = policy::success(job, completions, &done).map(|message| Finish {
                    kind: "SuccessCriteriaMet",
                    reason: "SuccessPolicy".to_owned(),
                    message,
                });
            }
        }

        let mut now_active = active.len();
        if finish.is_some() {
            plan.delete =
                active.iter().map(|p| Removal { name: p.name.clone(), counted: true }).collect();
            terminating += active.len();
            now_active = 0;
            ready = 0;
        } else {
            if !meta::is_terminating(job) {
                self.manage(
                    &active,
                    succeeded,
                    terminating,
                    &done,
                    lost.as_ref(),
                    &held,
                    &mut plan,
                );
                let gone: HashSet<&str> = plan.delete.iter().map(|d| d.name.as_str()).collect();
                ready -= active.iter().filter(|p| p.ready && gone.contains(&*p.name)).count();
                now_active = now_active - plan.delete.len() + plan.create.len();
                terminating += plan.delete.len();
            }
            let complete = match self.completions {
                None => succeeded > 0 && now_active == 0,
                Some(wanted) => succeeded >= size(wanted) && now_active == 0,
            };
            if complete {
                finish = Some(Finish {
                    kind: "SuccessCriteriaMet",
                    reason: "CompletionsReached".to_owned(),
                    message: "Reached expected number of succeeded pods".to_owned(),
                });
            } else if !meta::is_terminating(job) {
                self.suspension(&mut status, &mut plan);
            }
        }

        self.account(&mut status, finish.as_ref(), &mut done, &done_before, &held, &mut plan);
        status["active"] = now_active.into();
        status["ready"] = ready.into();
        status["terminating"] = terminating.into();
        if self.indexed {
            status["succeeded"] = done.len().into();
            status["completedIndexes"] = done.to_string().into();
            if let Some(lost) = lost {
                status["failedIndexes"] = lost.to_string().into();
            }
        }
        self.conclude(&mut status, finish, terminating, &mut plan);
        tidy(&mut status);
        let mut before = job.get("status").cloned().unwrap_or_else(|| json!({}));
        tidy(&mut before);
        if status != before {
            plan.status = Some(status);
        }
        plan
    }

    /// An end that an earlier pass has decided, or that the failure policy decides now.
    fn foregone(&self) -> Option<Finish> {
        for (had, kind) in
            [("SuccessCriteriaMet", "SuccessCriteriaMet"), ("FailureTarget", "FailureTarget")]
        {
            if let Some(condition) = json::condition(self.job, had)
                && json::text(condition, "/status") == "True"
            {
                return Some(Finish {
                    kind,
                    reason: json::text(condition, "/reason").to_owned(),
                    message: json::text(condition, "/message").to_owned(),
                });
            }
        }
        let failed = self.pods.iter().filter(|p| self.failed(p));
        let message = failed.into_iter().find_map(|p| match policy::judge(self.job, p) {
            PolicyVerdict::FailJob(message) => Some(message),
            _ => None,
        })?;
        Some(Finish { kind: "FailureTarget", reason: "PodFailurePolicy".to_owned(), message })
    }

    fn beyond_limits(&self, failed: i64, status: &Value, plan: &mut Plan) -> Option<Finish> {
        let failure = |reason: &str, message: &str| {
            Some(Finish {
                kind: "FailureTarget",
                reason: reason.to_owned(),
                message: message.to_owned(),
            })
        };
        // With a limit per index there is no limit for the whole, unless one is set.
        let unset = if self.per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        let limit = json::int(self.job, "/spec/backoffLimit").unwrap_or(unset);
        let restarts: i64 = match json::text(self.job, "/spec/template/spec/restartPolicy") {
            "OnFailure" => self.pods.iter().filter(|p| !p.is_over()).map(|p| p.restarts).sum(),
            _ => 0,
        };
        if failed > limit || (restarts > 0 && restarts >= limit) {
            return failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let deadline = json::int(self.job, "/spec/activeDeadlineSeconds")?;
        if self.suspended() {
            return None;
        }
        let start = json::time(status, "/startTime")?;
        let end =
            start.saturating_add(SignedDuration::from_secs(deadline)).unwrap_or(Timestamp::MAX);
        if end <= self.now {
            return failure("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        plan.again = Some(end);
        None
    }

    fn lost_indexes(&self, limit: i64, completions: usize) -> Indexes {
        let mut lost = Indexes::parse(json::text(self.job, "/status/failedIndexes"), completions);
        for pod in self.pods.iter().filter(|p| p.tracked && self.failed(p)) {
            let Some(index) = pod.index.filter(|i| *i < completions) else { continue };
            let verdict = policy::judge(self.job, pod);
            if verdict == PolicyVerdict::FailIndex || (verdict.counts() && pod.failures.0 >= limit)
            {
                lost.insert(index);
            }
        }
        lost
    }

    fn index_failure(&self, lost: &Indexes, done: &Indexes, completions: usize) -> Option<Finish> {
        let most = json::int(self.job, "/spec/maxFailedIndexes");
        let (reason, message) = if most.is_some_and(|most| size(lost.len()) > most) {
            (
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        } else if !lost.is_empty() && lost.len() + done.len() >= completions {
            ("FailedIndexes", "Job has failed indexes")
        } else {
            return None;
        };
        Some(Finish {
            kind: "FailureTarget",
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
    }
}

fn size(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn next_backoff(have: Backoff, ok: &[&JobPod], bad: &[&JobPod]) -> Backoff {
    let last_ok = ok.iter().map(|p| p.finished).max();
    let later: Vec<Timestamp> =
        (bad.iter()).map(|p| p.finished).filter(|at| last_ok.is_none_or(|ok| *at > ok)).collect();
    let base = if last_ok.is_some() { Backoff::default() } else { have };
    Backoff {
        failures: base.failures + u32::try_from(later.len()).unwrap_or(u32::MAX),
        last: later.into_iter().max().or(base.last),
    }
}

#[cfg(test)]
mod tests;
