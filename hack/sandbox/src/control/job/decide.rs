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
use super::policy::{self, Verdict};
use super::template::NewPod;

/// Failures since the last success, which slow down the next pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    /// How many.
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
    /// Name.
    pub name: String,
    /// Whether it keeps the finalizer, so that it is counted as failed.
    pub counted: bool,
}

const FIRST_BACKOFF: i64 = 10;
const LONGEST_BACKOFF: i64 = 600;
const MOST_AT_ONCE: usize = 500;

struct Finish {
    kind: &'static str,
    reason: String,
    message: String,
}

struct Pass<'a> {
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

/// Decides.
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
    Pass {
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

// === impl Pass ===

impl Pass<'_> {
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
            Verdict::FailJob(message) => Some(message),
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
            if verdict == Verdict::FailIndex || (verdict.counts() && pod.failures.0 >= limit) {
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

    /// The last failed pod of each index that still waits for its successor: it keeps the
    /// finalizer, since the successor takes over its count of failures.
    fn held<'p>(
        &'p self,
        active: &[&JobPod],
        done: &Indexes,
        lost: &Indexes,
    ) -> BTreeMap<usize, &'p JobPod> {
        let running: HashSet<usize> = active.iter().filter_map(|p| p.index).collect();
        let mut held: BTreeMap<usize, &JobPod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|p| p.tracked && self.has_place(p) && self.failed(p)) {
            let Some(index) = pod.index else { continue };
            if done.has(index) || lost.has(index) || running.contains(&index) {
                continue;
            }
            let later = held.get(&index).is_none_or(|last| {
                last.all_failures() <= pod.all_failures() && last.finished <= pod.finished
            });
            if later {
                held.insert(index, pod);
            }
        }
        held
    }

    #[allow(clippy::too_many_arguments)]
    fn manage(
        &self,
        active: &[&JobPod],
        succeeded: i64,
        terminating: usize,
        done: &Indexes,
        lost: Option<&Indexes>,
        held: &BTreeMap<usize, &JobPod>,
        plan: &mut Plan,
    ) {
        if self.suspended() {
            plan.delete =
                active.iter().map(|p| Removal { name: p.name.clone(), counted: false }).collect();
            return;
        }
        let parallelism = json::int(self.job, "/spec/parallelism").unwrap_or(1);
        let parallelism = usize::try_from(parallelism).unwrap_or(0);
        let succeeded = usize::try_from(succeeded).unwrap_or(0);
        let want = match self.completions {
            None if succeeded > 0 => active.len(),
            None => parallelism,
            Some(wanted) => wanted.saturating_sub(succeeded).min(parallelism),
        };
        plan.delete = self.surplus(active, active.len().saturating_sub(want));
        plan.delete.truncate(MOST_AT_ONCE);
        if !plan.delete.is_empty() {
            return;
        }
        let leaving = if self.only_failed_replaced { terminating } else { 0 };
        let missing = want.saturating_sub(leaving + active.len()).min(MOST_AT_ONCE);
        if missing == 0 {
            return;
        }
        let mut sooner = |at: Timestamp| {
            plan.again = Some(plan.again.map_or(at, |have| have.min(at)));
        };
        if self.per_index.is_none()
            && let Some(until) = wait_until(plan.backoff.failures, plan.backoff.last)
            && until > self.now
        {
            sooner(until);
            return;
        }
        if !self.indexed {
            plan.create = vec![NewPod { index: None, failures: None }; missing];
            return;
        }
        let mut taken: HashSet<usize> = active.iter().filter_map(|p| p.index).collect();
        if self.only_failed_replaced {
            let leaving = self.pods.iter().filter(|p| p.is_terminating());
            taken.extend(leaving.filter_map(|p| p.index));
        }
        let free = (0..self.completions.unwrap_or(0)).filter(|i| {
            !taken.contains(i) && !done.has(*i) && !lost.is_some_and(|lost| lost.has(*i))
        });
        let mut create = Vec::new();
        let mut earliest: Option<Timestamp> = None;
        for index in free.take(missing) {
            let before = held.get(&index);
            let until = before.and_then(|pod| {
                wait_until(u32::try_from(pod.all_failures() + 1).unwrap_or(1), Some(pod.finished))
            });
            match until {
                Some(until) if until > self.now => {
                    earliest = Some(earliest.map_or(until, |have| have.min(until)));
                }
                _ => create.push(NewPod { index: Some(index), failures: self.inherit(before) }),
            }
        }
        if let Some(earliest) = earliest {
            sooner(earliest);
        }
        plan.create = create;
    }

    fn inherit(&self, before: Option<&&JobPod>) -> Option<(i64, i64)> {
        self.per_index?;
        let Some(pod) = before else { return Some((0, 0)) };
        let (counted, ignored) = pod.failures;
        Some(match policy::judge(self.job, pod).counts() {
            true => (counted + 1, ignored),
            false => (counted, ignored + 1),
        })
    }

    /// Pods that must go: without a place, second of an index, then the least far on.
    fn surplus(&self, active: &[&JobPod], at_least: usize) -> Vec<Removal> {
        let mut by_progress: Vec<&JobPod> = active.to_vec();
        by_progress.sort_by_key(|p| (p.bound, p.phase, p.ready, std::cmp::Reverse(p.name.clone())));
        let mut gone = Vec::new();
        let mut left = Vec::new();
        if self.indexed {
            let mut kept = HashSet::new();
            // From the furthest on: the first of an index stays.
            for pod in by_progress.iter().rev() {
                match pod.index.filter(|_| self.has_place(pod)) {
                    Some(index) if kept.insert(index) => left.push(*pod),
                    _ => gone.push(*pod),
                }
            }
            left.reverse();
        } else {
            left = by_progress;
        }
        let more = at_least.saturating_sub(gone.len()).min(left.len());
        gone.extend(left.into_iter().take(more));
        gone.into_iter().map(|p| Removal { name: p.name.clone(), counted: false }).collect()
    }

    fn suspension(&self, status: &mut Value, plan: &mut Plan) {
        let (value, reason, message, event) = if self.suspended() {
            ("True", "JobSuspended", "Job suspended", "Suspended")
        } else {
            ("False", "JobResumed", "Job resumed", "Resumed")
        };
        if set_condition(status, "Suspended", value, reason, message, self.now) {
            plan.events.push(EventText::normal(event, message));
            if value == "False" {
                status["startTime"] = stamp(self.now);
            }
        }
    }

    /// The three steps of counting, as far as this pass may go.
    fn account(
        &self,
        status: &mut Value,
        finish: Option<&Finish>,
        done: &mut Indexes,
        done_before: &Indexes,
        held: &BTreeMap<usize, &JobPod>,
        plan: &mut Plan,
    ) {
        let job = self.job;
        let tracked: HashSet<&str> =
            self.pods.iter().filter(|p| p.tracked).map(|p| p.uid.as_str()).collect();
        let mut ok: Vec<String> = Vec::new();
        let mut bad: Vec<String> = Vec::new();
        let (mut counted_ok, mut counted_bad) = (0, 0);
        for (pointer, kept, counted) in [
            ("/status/uncountedTerminatedPods/succeeded", &mut ok, &mut counted_ok),
            ("/status/uncountedTerminatedPods/failed", &mut bad, &mut counted_bad),
        ] {
            for uid in json::list(job, pointer).iter().filter_map(Value::as_str) {
                match tracked.contains(uid) {
                    true => kept.push(uid.to_owned()),
                    false => *counted += 1,
                }
            }
        }
        if !self.indexed {
            status["succeeded"] = (count(job, "/status/succeeded") + counted_ok).into();
        }
        status["failed"] = (count(job, "/status/failed") + counted_bad).into();

        let ended_badly = finish.is_some_and(|f| f.kind == "FailureTarget");
        let unconditional = meta::is_terminating(job) || finish.is_some();
        let mut order: Vec<&JobPod> = self.pods.iter().filter(|p| p.tracked).copied().collect();
        order.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
        for pod in order {
            let failed = self.failed(pod);
            let waits_for_successor =
                pod.index.and_then(|i| held.get(&i)).is_some_and(|h| h.uid == pod.uid);
            let may_go =
                unconditional || pod.phase == Phase::Succeeded || (failed && !waits_for_successor);
            if !may_go {
                continue;
            }
            plan.untrack.push(pod.name.clone());
            if pod.phase == Phase::Succeeded && !bad.contains(&pod.uid) {
                if self.indexed {
                    if let Some(index) = pod.index.filter(|_| self.has_place(pod))
                        && !done_before.has(index)
                    {
                        done.insert(index);
                    }
                } else if !ok.contains(&pod.uid) {
                    ok.push(pod.uid.clone());
                }
            } else if (failed || ended_badly)
                && self.has_place(pod)
                && !bad.contains(&pod.uid)
                && policy::judge(job, pod).counts()
            {
                bad.push(pod.uid.clone());
            }
            if plan.untrack.len() >= MOST_AT_ONCE {
                break;
            }
        }
        let mut uncounted = json!({});
        if !ok.is_empty() {
            uncounted["succeeded"] = ok.into();
        }
        if !bad.is_empty() {
            uncounted["failed"] = bad.into();
        }
        status["uncountedTerminatedPods"] = uncounted;
    }

    /// Adds the interim condition, and the final one when all pods are gone and counted.
    fn conclude(
        &self,
        status: &mut Value,
        finish: Option<Finish>,
        terminating: usize,
        plan: &mut Plan,
    ) {
        let Some(finish) = finish else { return };
        let Finish { kind, reason, message } = finish;
        let had = json::condition(self.job, kind).is_some();
        if !had {
            set_condition(status, kind, "True", &reason, &message, self.now);
        }
        let uncounted = &status["uncountedTerminatedPods"];
        let all_counted = uncounted.as_object().is_none_or(serde_json::Map::is_empty);
        // Written first, then acted on: the end is declared by a later pass than the target.
        if !had || !all_counted || terminating > 0 || !plan.untrack.is_empty() {
            return;
        }
        if kind == "SuccessCriteriaMet" {
            set_condition(status, "Complete", "True", &reason, &message, self.now);
            status["completionTime"] = stamp(self.now);
            plan.events.push(EventText::normal("Completed", "Job completed"));
        } else {
            set_condition(status, "Failed", "True", &reason, &message, self.now);
            plan.events.push(EventText::warning(&reason, message));
        }
    }
}

fn size(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn wait_until(failures: u32, last: Option<Timestamp>) -> Option<Timestamp> {
    let wait = match failures {
        0 => return None,
        n => FIRST_BACKOFF.saturating_mul(1 << (n - 1).min(10)).min(LONGEST_BACKOFF),
    };
    last?.saturating_add(SignedDuration::from_secs(wait)).ok()
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

/// Sets a Job condition; a False one is never added. Says whether anything changed.
fn set_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let new = json!({"type": kind, "status": value, "reason": reason, "message": message,
        "lastProbeTime": stamp(now), "lastTransitionTime": stamp(now)});
    if status.get("conditions").is_none_or(Value::is_null) {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return false };
    match list.iter_mut().find(|c| json::text(c, "/type") == kind) {
        Some(have) => {
            let same = json::text(have, "/status") == value
                && json::text(have, "/reason") == reason
                && json::text(have, "/message") == message;
            if !same {
                *have = new;
            }
            !same
        }
        None if value == "False" => false,
        None => {
            list.push(new);
            true
        }
    }
}

/// Drops what Kubernetes does not write: zero counters, empty text and lists. `ready`,
/// `terminating` and `failedIndexes` are pointers there, so their zeros stay.
fn tidy(status: &mut Value) {
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|key, value| match key.as_str() {
            "active" | "succeeded" | "failed" => value.as_i64() != Some(0),
            "completedIndexes" => value.as_str() != Some(""),
            "conditions" => value.as_array().is_some_and(|list| !list.is_empty()),
            _ => !value.is_null(),
        });
    }
}

#[cfg(test)]
mod tests;
