//! One pass over a JobSet: a pure function of the JobSet, its Jobs and the time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::super::json::{self, stamp};
use super::super::rest::EventText;
use super::{build, names};

/// What to do, in this order; a step that fails ends the pass, and the status is written last.
#[derive(Debug, Default)]
pub struct Plan {
    /// Jobs to delete in the foreground.
    pub delete: Vec<Arc<Value>>,
    /// The Service to make.
    pub service: Option<Value>,
    /// Jobs to make.
    pub create: Vec<Value>,
    /// Jobs to suspend.
    pub suspend: Vec<Arc<Value>>,
    /// Jobs to resume, with the pod template they shall have.
    pub resume: Vec<Resume>,
    /// The status to write, if it differs.
    pub status: Option<Value>,
    /// What to tell people once the status is written.
    pub events: Vec<EventText>,
    /// When to look again.
    pub again: Option<Timestamp>,
    /// The TTL has run out.
    pub expire: bool,
}

/// A Job to resume.
#[derive(Debug)]
pub struct Resume {
    /// The Job as it stands.
    pub job: Arc<Value>,
    /// The Job as it shall be.
    pub wanted: Value,
}

/// The Jobs of a JobSet by their fate.
#[derive(Default)]
struct Owned {
    active: Vec<Arc<Value>>,
    successful: Vec<Arc<Value>>,
    failed: Vec<Arc<Value>>,
    previous: Vec<Arc<Value>>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    ready: i64,
    succeeded: i64,
    failed: i64,
    active: i64,
    suspended: i64,
}

struct JobSetReconcile<'a> {
    set: &'a Value,
    now: Timestamp,
    owned: Owned,
    counts: BTreeMap<String, Counts>,
    status: Value,
    plan: Plan,
}

/// Decides. `jobs` are those that the JobSet controls, `has_service` whether its Service exists.
pub fn decide(set: &Value, jobs: &[Arc<Value>], has_service: bool, now: Timestamp) -> Plan {
    let foreign = !matches!(json::text(set, "/spec/managedBy"), "" | names::MANAGER);
    if foreign || meta::is_terminating(set) {
        return Plan::default();
    }
    let owned = sort(set, jobs);
    let mut status = set.get("status").cloned().unwrap_or_else(|| json!({}));
    if !status.is_object() {
        status = json!({});
    }
    let mut pass =
        JobSetReconcile { set, now, counts: BTreeMap::new(), owned, status, plan: Plan::default() };
    pass.run(has_service);
    let mut plan = pass.plan;
    let before = set.get("status").filter(|status| status.is_object());
    if before.unwrap_or(&json!({})) != &pass.status {
        // The counter is always written, zero or not.
        if pass.status.get("restarts").is_none() {
            pass.status["restarts"] = 0.into();
        }
        plan.status = Some(pass.status);
    }
    plan
}

fn sort(set: &Value, jobs: &[Arc<Value>]) -> Owned {
    let restarts = json::int(set, "/status/restarts").unwrap_or(0);
    let mut owned = Owned::default();
    for job in jobs {
        let attempt: i64 =
            meta::label(job, names::ATTEMPT).and_then(|v| v.parse().ok()).unwrap_or(0);
        let bucket = if attempt < restarts {
            &mut owned.previous
        } else if json::is_true(job, "Failed") {
            &mut owned.failed
        } else if json::is_true(job, "Complete") {
            &mut owned.successful
        } else {
            &mut owned.active
        };
        bucket.push(job.clone());
    }
    owned
}

fn replicated_job_of(job: &Value) -> &str {
    meta::label(job, names::REPLICATED_JOB).unwrap_or("")
}

fn is_suspended(job: &Value) -> bool {
    json::flag(job, "/spec/suspend")
}

// === impl Counts ===

impl Counts {
    fn all_started(&self, replicas: i64) -> bool {
        self.failed + self.ready + self.succeeded == replicas
    }
}

// === impl JobSetReconcile ===

impl JobSetReconcile<'_> {
    fn run(&mut self, has_service: bool) {
        self.count();
        let finished =
            ["Completed", "Failed"].iter().find(|kind| json::is_true(self.set, kind)).copied();
        if let Some(kind) = finished {
            self.delete(self.owned.active.clone());
            self.expire(kind);
            return;
        }
        self.delete(self.owned.previous.clone());
        if !self.owned.failed.is_empty() {
            self.fail();
            return;
        }
        if !self.owned.successful.is_empty() && self.succeeded() {
            self.status["terminalState"] = "Completed".into();
            self.condition(
                "Completed",
                "True",
                "AllJobsCompleted",
                "jobset completed successfully",
            );
            return;
        }
        if build::has_dns(self.set) && !has_service {
            self.plan.service = Some(build::service(self.set));
        }
        self.create();
        if json::flag(self.set, "/spec/suspend") {
            let running = self.owned.active.iter().filter(|job| !is_suspended(job));
            self.plan.suspend = running.cloned().collect();
            self.condition("Suspended", "True", "SuspendedJobs", "jobset is suspended");
        } else {
            self.resume();
        }
    }

    fn replicated(&self) -> Vec<Value> {
        json::list(self.set, "/spec/replicatedJobs").to_vec()
    }

    fn count(&mut self) {
        let mut counts: BTreeMap<String, Counts> = (self.replicated().iter())
            .map(|r| (json::text(r, "/name").to_owned(), Counts::default()))
            .collect();
        for job in &self.owned.active {
            let Some(count) = counts.get_mut(replicated_job_of(job)) else { continue };
            let parallelism = json::int(job, "/spec/parallelism").unwrap_or(1);
            let pods =
                json::int(job, "/spec/completions").map_or(parallelism, |n| n.min(parallelism));
            let status = |field: &str| json::int(job, field).unwrap_or(0);
            count.ready += i64::from(status("/status/succeeded") + status("/status/ready") >= pods);
            count.active += i64::from(status("/status/active") > 0);
            count.suspended += i64::from(is_suspended(job));
        }
        for job in &self.owned.successful {
            if let Some(count) = counts.get_mut(replicated_job_of(job)) {
                count.succeeded += 1;
            }
        }
        for job in &self.owned.failed {
            if let Some(count) = counts.get_mut(replicated_job_of(job)) {
                count.failed += 1;
            }
        }
        // Stored in descending order of names.
        let list: Vec<Value> = (counts.iter().rev())
            .map(|(name, c)| {
                json!({"name": name, "ready": c.ready, "succeeded": c.succeeded,
                    "failed": c.failed, "active": c.active, "suspended": c.suspended})
            })
            .collect();
        // The original compares after sorting, so another order alone is no change.
        let mut have = json::list(self.set, "/status/replicatedJobsStatus").to_vec();
        have.sort_by(|a, b| json::text(b, "/name").cmp(json::text(a, "/name")));
        if have != list {
            self.status["replicatedJobsStatus"] = list.into();
        }
        self.counts = counts;
    }

    fn delete(&mut self, jobs: Vec<Arc<Value>>) {
        self.plan.delete.extend(jobs.into_iter().filter(|job| !meta::is_terminating(job)));
    }

    fn expire(&mut self, kind: &str) {
        let Some(ttl) = json::int(self.set, "/spec/ttlSecondsAfterFinished") else { return };
        let ended = json::condition(self.set, kind)
            .and_then(|condition| json::time(condition, "/lastTransitionTime"));
        let Some(ended) = ended else { return };
        let end = ended.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX);
        if end <= self.now {
            self.plan.expire = true;
        } else {
            self.plan.again = Some(end);
        }
    }

    fn succeeded(&self) -> bool {
        let policy = self.set.pointer("/spec/successPolicy").cloned().unwrap_or_default();
        let targets = json::list(&policy, "/targetReplicatedJobs");
        let targeted = |name: &str| targets.is_empty() || targets.iter().any(|t| t == name);
        let done = self.owned.successful.iter().filter(|j| targeted(replicated_job_of(j))).count();
        let wanted = match json::text(&policy, "/operator") {
            "Any" => 1,
            _ => (self.replicated().iter())
                .filter(|r| targeted(json::text(r, "/name")))
                .map(build::replicas)
                .sum(),
        };
        i64::try_from(done).unwrap_or(i64::MAX) >= wanted
    }

    fn fail(&mut self) {
        let Some(policy) = self.set.pointer("/spec/failurePolicy").filter(|p| !p.is_null()) else {
            let first = first_failed(self.owned.failed.iter());
            self.failed("FailedJobs", "jobset failed due to one or more job failures", &first);
            return;
        };
        let mut rules = json::list(policy, "/rules").iter();
        let found = rules.find_map(|rule| {
            let mut matching = self.owned.failed.iter().filter(|job| applies(rule, job)).peekable();
            matching.peek()?;
            Some((json::text(rule, "/action").to_owned(), first_failed(matching)))
        });
        let (action, first) = found.unwrap_or_else(|| {
            ("RestartJobSet".to_owned(), first_failed(self.owned.failed.iter()))
        });
        let most = json::int(policy, "/maxRestarts").unwrap_or(0);
        let counted = json::int(self.set, "/status/restartsCountTowardsMax").unwrap_or(0);
        match action.as_str() {
            "FailJobSet" => self.failed(
                "FailJobSetFailurePolicyAction",
                "applying FailJobSet failure policy action",
                &first,
            ),
            "RestartJobSetAndIgnoreMaxRestarts" => self.restart(&action, None, &first),
            _ if counted >= most => self.failed(
                "ReachedMaxRestarts",
                "jobset failed due to reaching max number of restarts",
                &first,
            ),
            _ => self.restart("RestartJobSet", Some(counted + 1), &first),
        }
    }

    fn failed(&mut self, reason: &str, message: &str, first: &str) {
        self.status["terminalState"] = "Failed".into();
        let message = format!("{message} (first failed job: {first})");
        self.condition("Failed", "True", reason, &message);
    }

    fn restart(&mut self, action: &str, counted: Option<i64>, first: &str) {
        let restarts = json::int(self.set, "/status/restarts").unwrap_or(0);
        self.status["restarts"] = (restarts + 1).into();
        if let Some(counted) = counted {
            self.status["restartsCountTowardsMax"] = counted.into();
        }
        self.plan.events.push(EventText::warning(
            &format!("{action}FailurePolicyAction"),
            format!("applying {action} failure policy action (first failed job: {first})"),
        ));
    }

    /// Whether all that this replicatedJob depends on has got as far as it must.
    fn dependencies_met(&self, replicated: &Value, all: &[Value]) -> bool {
        json::list(replicated, "/dependsOn").iter().all(|dependency| {
            let name = json::text(dependency, "/name");
            let Some(other) = all.iter().find(|r| json::text(r, "/name") == name) else {
                return false;
            };
            let count = self.counts.get(name).copied().unwrap_or_default();
            match json::text(dependency, "/status") {
                "Complete" => count.succeeded == build::replicas(other),
                _ => count.all_started(build::replicas(other)),
            }
        })
    }

    fn in_order(&self) -> bool {
        json::text(self.set, "/spec/startupPolicy/startupPolicyOrder") == "InOrder"
    }

    fn started(&self, replicated: &Value) -> bool {
        let count = self.counts.get(json::text(replicated, "/name")).copied().unwrap_or_default();
        count.all_started(build::replicas(replicated))
    }

    fn create(&mut self) {
        let one_by_one = self.in_order() && !json::flag(self.set, "/spec/suspend");
        let blocked = json::text(self.set, "/spec/failurePolicy/restartStrategy")
            == "BlockingRecreate"
            && !self.owned.previous.is_empty();
        let owned = &self.owned;
        let exist: HashSet<String> =
            [&owned.active, &owned.successful, &owned.failed, &owned.previous]
                .into_iter()
                .flatten()
                .map(|job| meta::name(job).to_owned())
                .collect();
        let all = self.replicated();
        for replicated in &all {
            if !self.dependencies_met(replicated, &all) {
                continue;
            }
            if one_by_one && self.started(replicated) {
                continue;
            }
            if !blocked {
                let name = json::text(replicated, "/name");
                for index in 0..build::replicas(replicated) {
                    if !exist.contains(&build::job_name(meta::name(self.set), name, index)) {
                        self.plan.create.push(build::job(self.set, replicated, index));
                    }
                }
            }
            if one_by_one {
                self.in_progress();
                return;
            }
        }
        if one_by_one {
            self.condition(
                "StartupPolicyCompleted",
                "True",
                "InOrderStartupPolicyCompleted",
                "in order startup policy has completed",
            );
        }
    }

    fn in_progress(&mut self) {
        self.condition(
            "StartupPolicyInProgress",
            "True",
            "InOrderStartupPolicyInProgress",
            "in order startup policy is in progress",
        );
    }

    fn resume(&mut self) {
        let all = self.replicated();
        for replicated in &all {
            if !self.dependencies_met(replicated, &all) {
                continue;
            }
            if self.in_order() && self.started(replicated) {
                continue;
            }
            let name = json::text(replicated, "/name");
            let waiting: Vec<Arc<Value>> = (self.owned.active.iter())
                .filter(|job| replicated_job_of(job) == name && is_suspended(job))
                .cloned()
                .collect();
            for job in waiting {
                let wanted = resumed(&job, replicated);
                self.plan.resume.push(Resume { job, wanted });
            }
            if self.in_order() {
                self.in_progress();
                return;
            }
        }
        self.condition("Suspended", "False", "ResumeJobs", "jobset is resumed");
    }

    /// Sets a condition; a False one is never added, and of an equal status nothing changes.
    fn condition(&mut self, kind: &str, value: &str, reason: &str, message: &str) {
        let new = json!({"type": kind, "status": value, "reason": reason, "message": message,
            "lastTransitionTime": stamp(self.now)});
        let mut list =
            self.status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let excluded = match kind {
            "StartupPolicyInProgress" => "StartupPolicyCompleted",
            "StartupPolicyCompleted" => "StartupPolicyInProgress",
            _ => "",
        };
        let (mut found, mut changed) = (false, false);
        for have in &mut list {
            let same_kind = json::text(have, "/type") == kind;
            if same_kind {
                found = true;
                if json::text(have, "/status") != value {
                    *have = new.clone();
                    changed = true;
                }
            } else if json::text(have, "/type") == excluded
                && json::text(have, "/status") == "True"
                && value == "True"
            {
                have["status"] = "False".into();
                changed = true;
            }
        }
        if !found && value == "True" {
            list.push(new);
            changed = true;
        }
        if changed {
            self.status["conditions"] = list.into();
            self.plan.events.push(EventText {
                warning: kind == "Failed",
                reason: reason.to_owned(),
                message: message.to_owned(),
            });
        }
    }
}

/// The Job that failed first; at equal times the first by name.
fn first_failed<'a>(jobs: impl Iterator<Item = &'a Arc<Value>>) -> String {
    let first = jobs.min_by_key(|job| {
        let at = json::condition(job, "Failed")
            .and_then(|condition| json::time(condition, "/lastTransitionTime"));
        (at, meta::name(job).to_owned())
    });
    first.map(|job| meta::name(job).to_owned()).unwrap_or_default()
}

/// Whether a failure policy rule speaks of this failed Job.
fn applies(rule: &Value, job: &Value) -> bool {
    let failed = json::condition(job, "Failed").cloned().unwrap_or_default();
    let reasons = json::list(rule, "/onJobFailureReasons");
    let patterns = json::list(rule, "/onJobFailureMessagePatterns");
    let targets = json::list(rule, "/targetReplicatedJobs");
    let (reason, message) = (json::text(&failed, "/reason"), json::text(&failed, "/message"));
    let replicated = replicated_job_of(job);
    (reasons.is_empty() || reasons.iter().any(|r| r == reason))
        && (patterns.is_empty()
            || patterns
                .iter()
                .filter_map(Value::as_str)
                // A pattern that is no regular expression matches nothing.
                .filter_map(|pattern| Regex::new(pattern).ok())
                .any(|pattern| pattern.is_match(message)))
        && !replicated.is_empty()
        && (targets.is_empty() || targets.iter().any(|t| t == replicated))
}

/// The Job with what may have changed in the template while it was suspended.
fn resumed(job: &Value, replicated: &Value) -> Value {
    let mut wanted = job.clone();
    let empty = json!({});
    let template = replicated.pointer("/template/spec/template").unwrap_or(&empty);
    for pointer in ["/metadata/labels", "/metadata/annotations", "/spec/nodeSelector"] {
        let Some(from) = template.pointer(pointer).and_then(Value::as_object) else { continue };
        if let Some(map) = map_at(&mut wanted["spec"]["template"], pointer) {
            map.extend(from.clone());
        }
    }
    for field in ["tolerations", "schedulingGates"] {
        let from = json::list(template, &format!("/spec/{field}"));
        if from.is_empty() {
            continue;
        }
        let spec = &mut wanted["spec"]["template"]["spec"];
        let mut have = spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        for item in from {
            if !have.contains(item) {
                have.push(item.clone());
            }
        }
        spec[field] = have.into();
    }
    wanted["spec"]["suspend"] = false.into();
    wanted
}

fn map_at<'a>(template: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    let mut at = template;
    for part in pointer.split('/').skip(1) {
        at = at.as_object_mut()?.entry(part).or_insert_with(|| json!({}));
        if at.is_null() {
            *at = json!({});
        }
    }
    at.as_object_mut()
}

#[cfg(test)]
mod tests;
