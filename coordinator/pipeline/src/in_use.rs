//! The finalizer that keeps a runtime which jobs use, and what is said of a runtime that waits to be deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::TrainJob;
use muster_api::names::RESOURCE_IN_USE;

use crate::conditions::reason;
use crate::reconcile::is_finished;
use crate::runtime::RuntimeKind;

/// The names of jobs and finalizers that a message spells out; more are counted.
const NAMED: usize = 3;

/// Which TrainJobs keep the runtime that they name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldRule {
    /// All that name it.
    #[default]
    Referenced,
    /// Those that are neither complete nor failed.
    Unfinished,
    /// None: no runtime gets the finalizer, and those that have it lose it.
    Off,
}

/// Who keeps a runtime that is being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// TrainJobs, as `namespace/name`, in order.
    pub jobs: Vec<String>,
    /// Finalizers of others.
    pub finalizers: Vec<String>,
}

/// The finalizers that a runtime should have, if they are not those that it has. What is being deleted gets none: the API
/// server would refuse it.
pub fn finalizers(runtime: &ObjectMeta, used: bool) -> Option<Vec<String>> {
    let mut now = runtime.finalizers.clone().unwrap_or_default();
    let has = now.iter().any(|finalizer| finalizer == RESOURCE_IN_USE);
    match (used, has) {
        (true, false) if runtime.deletion_timestamp.is_none() => {
            now.push(RESOURCE_IN_USE.to_owned());
            Some(now)
        }
        (false, true) => {
            now.retain(|finalizer| finalizer != RESOURCE_IN_USE);
            Some(now)
        }
        _ => None,
    }
}

/// The runtime that a job uses: kind, namespace (none for those of all namespaces) and name.
pub fn used_by(job: &TrainJob) -> Option<(RuntimeKind, Option<&str>, &str)> {
    let reference = &job.spec.runtime_ref;
    let kind = RuntimeKind::of(reference)?;
    let namespace = (kind == RuntimeKind::Namespaced).then(|| job.namespace());
    Some((kind, namespace, &reference.name))
}

// === impl HoldRule ===

impl HoldRule {
    /// Whether a job keeps the runtime that it names.
    pub fn holds(self, job: &TrainJob) -> bool {
        match self {
            Self::Referenced => true,
            Self::Unfinished => !is_finished(job),
            Self::Off => false,
        }
    }
}

// === impl Holders ===

impl Holders {
    /// Who keeps a runtime: these jobs, if it has our finalizer, and the finalizers of others. Nobody, if it is not being deleted.
    pub fn of(runtime: &ObjectMeta, jobs: impl IntoIterator<Item = String>) -> Option<Self> {
        runtime.deletion_timestamp.as_ref()?;
        let all = runtime.finalizers.as_deref().unwrap_or_default();
        let ours = all.iter().any(|finalizer| finalizer == RESOURCE_IN_USE);
        let mut jobs: Vec<String> = jobs.into_iter().filter(|_| ours).collect();
        jobs.sort();
        let finalizers = all.iter().filter(|finalizer| *finalizer != RESOURCE_IN_USE);
        let finalizers: Vec<String> = finalizers.cloned().collect();
        let anybody = !jobs.is_empty() || !finalizers.is_empty();
        anybody.then_some(Self { jobs, finalizers })
    }

    /// In one word.
    pub fn reason(&self) -> &'static str {
        match self.jobs.is_empty() {
            true => reason::HELD_BY_FINALIZERS,
            false => reason::HELD_BY_TRAIN_JOBS,
        }
    }

    /// For a person: who keeps it, and what becomes of it.
    pub fn message(&self) -> String {
        let mut who = Vec::new();
        if let Some(jobs) = counted("TrainJob", &self.jobs) {
            who.push(jobs);
        }
        if let Some(finalizers) = counted("finalizer", &self.finalizers) {
            who.push(finalizers);
        }
        format!(
            "it is being deleted and goes with the last of {}; apply it again after that",
            who.join(" and ")
        )
    }
}

/// `2 TrainJobs (a/b, a/c)`; none of none.
fn counted(what: &str, names: &[String]) -> Option<String> {
    let count = names.len();
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = match count.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let plural = if count == 1 { "" } else { "s" };
    (count > 0).then(|| format!("{count} {what}{plural} ({}{more})", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(conditions: serde_json::Value) -> TrainJob {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"},
            "spec": {"runtimeRef": {"name": "torch"}}, "status": {"conditions": conditions}}))
        .unwrap()
    }

    fn runtime(deleted: bool, finalizers: &[&str]) -> ObjectMeta {
        let time = deleted.then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(json!({"name": "torch", "deletionTimestamp": time,
            "finalizers": finalizers}))
        .unwrap()
    }

    #[test]
    fn a_finished_job_holds_its_runtime_under_one_rule_of_three() {
        let ended = |kind: &str| {
            job(json!([{"type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]))
        };
        for (rule, running, finished) in [
            (HoldRule::Referenced, true, true),
            (HoldRule::Unfinished, true, false),
            (HoldRule::Off, false, false),
        ] {
            assert_eq!(rule.holds(&job(json!([]))), running, "{rule:?}");
            assert_eq!(rule.holds(&ended("Suspended")), running, "{rule:?}");
            assert_eq!(rule.holds(&ended("Complete")), finished, "{rule:?}");
            assert_eq!(rule.holds(&ended("Failed")), finished, "{rule:?}");
        }
    }

    #[test]
    fn who_holds_a_runtime_is_named_up_to_three_and_counted() {
        let jobs = || ["n/d", "n/a", "n/c", "m/b"].map(str::to_owned);
        assert_eq!(Holders::of(&runtime(false, &[RESOURCE_IN_USE]), jobs()), None, "it stays");
        assert_eq!(Holders::of(&runtime(true, &[]), jobs()), None, "nobody holds it");
        let all = Holders::of(&runtime(true, &["x.y/z", RESOURCE_IN_USE]), jobs()).unwrap();
        assert_eq!(all.reason(), "HeldByTrainJobs");
        assert_eq!(
            all.message(),
            "it is being deleted and goes with the last of 4 TrainJobs (m/b, n/a, n/c and 1 more) \
             and 1 finalizer (x.y/z); apply it again after that"
        );
        let others = Holders::of(&runtime(true, &["x.y/z"]), jobs()).unwrap();
        assert_eq!((others.reason(), others.jobs.len()), ("HeldByFinalizers", 0));
    }
}
