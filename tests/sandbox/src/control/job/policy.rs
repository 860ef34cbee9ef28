//! `podFailurePolicy` and `successPolicy`.

use serde_json::Value;

use super::super::json;
use super::indexes::Indexes;
use super::pod::JobPod;
use muster_objects::meta;

/// What the failure policy says of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// No rule matched, or the rule says so: it counts.
    Count,
    /// It does not count.
    Ignore,
    /// It ends its index.
    FailIndex,
    /// It ends the Job, with this message.
    FailJob(String),
}

// === impl PolicyVerdict ===

impl PolicyVerdict {
    /// Whether the failure counts towards the limits.
    pub fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// The first rule of the Job's failure policy that matches decides.
pub fn judge(job: &Value, pod: &JobPod) -> PolicyVerdict {
    for (at, rule) in json::list(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let action = json::text(rule, "/action");
        let (namespace, name) = (meta::namespace(&pod.object), &pod.name);
        let message = if let Some(codes) = rule.get("onExitCodes").filter(|c| !c.is_null()) {
            exit_code(&pod.object, codes).map(|(container, code)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code \
                     {code} matching {action} rule at index {at}"
                )
            })
        } else {
            let patterns = json::list(rule, "/onPodConditions");
            pod_condition(&pod.object, patterns).map(|condition| {
                format!(
                    "Pod {namespace}/{name} has condition {condition} matching {action} rule at \
                     index {at}"
                )
            })
        };
        if let Some(message) = message {
            match action {
                "Ignore" => return PolicyVerdict::Ignore,
                "FailIndex" => return PolicyVerdict::FailIndex,
                "Count" => return PolicyVerdict::Count,
                "FailJob" => return PolicyVerdict::FailJob(message),
                _ => {}
            }
        }
    }
    PolicyVerdict::Count
}

fn exit_code<'a>(pod: &'a Value, rule: &Value) -> Option<(&'a str, i64)> {
    let wanted = json::text(rule, "/containerName");
    let values = json::list(rule, "/values");
    let statuses = json::list(pod, "/status/containerStatuses").iter();
    let all = statuses.chain(json::list(pod, "/status/initContainerStatuses"));
    for status in all {
        let Some(code) = json::int(status, "/state/terminated/exitCode") else { continue };
        let name = json::text(status, "/name");
        if code == 0 || !(wanted.is_empty() || wanted == name) {
            continue;
        }
        let listed = values.iter().any(|v| v.as_i64() == Some(code));
        let matches = match json::text(rule, "/operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if matches {
            return Some((name, code));
        }
    }
    None
}

fn pod_condition<'a>(pod: &'a Value, patterns: &[Value]) -> Option<&'a str> {
    let conditions = json::list(pod, "/status/conditions").iter();
    let found = conditions.into_iter().find(|condition| {
        patterns.iter().any(|pattern| {
            // A pattern without a status means True; the API defaults it so.
            let status = match json::text(pattern, "/status") {
                "" => "True",
                status => status,
            };
            json::text(pattern, "/type") == json::text(condition, "/type")
                && status == json::text(condition, "/status")
        })
    });
    found.map(|condition| json::text(condition, "/type"))
}

/// The message of the success rule that is met, if any is.
pub fn success(job: &Value, completions: usize, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rules = json::list(job, "/spec/successPolicy/rules");
    let met = rules.iter().position(|rule| {
        let count = json::int(rule, "/succeededCount").and_then(|n| usize::try_from(n).ok());
        match rule.get("succeededIndexes").and_then(Value::as_str) {
            Some(written) => {
                let wanted = Indexes::parse(written, completions);
                let done = wanted.shared(succeeded);
                !wanted.is_empty() && (done == wanted.len() || count.is_some_and(|n| done >= n))
            }
            None => count.is_some_and(|n| succeeded.len() >= n),
        }
    });
    met.map(|at| format!("Matched rules at index {at}"))
}
