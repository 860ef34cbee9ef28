//! What a pass writes into the Job's status: counters, conditions, the end.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::{Value, json};

use super::super::super::json::{self, stamp};
use super::super::super::rest::EventText;
use super::super::indexes::Indexes;
use super::super::pod::{JobPod, Phase};
use super::super::policy;
use super::{Finish, JobReconcile, MOST_AT_ONCE, Plan, count};

// === impl JobReconcile ===

impl JobReconcile<'_> {
    pub(super) fn suspension(&self, status: &mut Value, plan: &mut Plan) {
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
    pub(super) fn account(
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
    pub(super) fn conclude(
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
pub(super) fn tidy(status: &mut Value) {
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|key, value| match key.as_str() {
            "active" | "succeeded" | "failed" => value.as_i64() != Some(0),
            "completedIndexes" => value.as_str() != Some(""),
            "conditions" => value.as_array().is_some_and(|list| !list.is_empty()),
            _ => !value.is_null(),
        });
    }
}
