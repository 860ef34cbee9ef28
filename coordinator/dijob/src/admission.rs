//! What the webhooks say to a job that is written: what is filled in, what is refused, what is doubtful.

use serde_json::Value;

use crate::clean::CleanPodPolicy;
use crate::names;

/// Longer names leave no room for the names of services.
const LONGEST_NAME: usize = 45;

const ROLES: [&str; 3] = ["coordinator", "collector", "learner"];

/// The policy as it is to be written; none if it is right already, or wrong, or if there is no spec to write it into.
pub fn policy(job: &Value) -> Option<&'static str> {
    let spec = job["spec"].as_object()?;
    let text = match spec.get("cleanPodPolicy") {
        None | Some(Value::Null) => "",
        Some(said) => said.as_str()?,
    };
    let policy = CleanPodPolicy::read(text)?.word();
    (policy != text).then_some(policy)
}

/// Why a job is refused.
pub fn refusal(job: &Value) -> Option<String> {
    let spec = &job["spec"];
    let said = &spec["cleanPodPolicy"];
    let policy = match said.as_str() {
        Some(text) => CleanPodPolicy::read(text),
        None => said.is_null().then_some(CleanPodPolicy::Running),
    };
    if policy.is_none() {
        let shown = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        let shown: String = shown.chars().take(100).collect();
        return Some(format!("Invalid CleanPodPolicy {shown}, expected in [None, Running, All]"));
    }
    if !spec["coordinator"].is_object() {
        return Some("spec.coordinator is required".to_owned());
    }
    let given = ROLES.iter().filter(|role| !spec[**role].is_null());
    for role in given {
        let containers = spec[*role]["template"]["spec"]["containers"].as_array();
        if containers.is_none_or(Vec::is_empty) {
            return Some(format!("spec.{role}.template.spec.containers must not be empty"));
        }
    }
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > LONGEST_NAME || !is_label(name) {
        let rule = format!("a DNS label of at most {LONGEST_NAME} characters");
        return Some(format!("metadata.name must be {rule}"));
    }
    None
}

/// What a person should know.
pub fn warnings(job: &Value) -> Vec<String> {
    let spec = &job["spec"];
    let lacks = |role: &&&str| {
        let containers = spec[**role]["template"]["spec"]["containers"].as_array();
        let named = |container: &Value| container["name"] == names::CONTAINER;
        containers.is_some_and(|containers| !containers.iter().any(named))
    };
    let say = |role: &&str| {
        format!(
            "spec.{role}.template has no container named {}: it gets no port and no resources",
            names::CONTAINER
        )
    };
    ROLES.iter().filter(lacks).map(say).collect()
}

/// A name to be comes without one if the API server makes it: then nothing is wrong yet.
fn is_label(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_none_or(|byte| plain(*byte));
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
        && ends(bytes.first())
        && ends(bytes.last())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Value {
        let replica = json!({"template": {"spec": {"containers": [{"name": "di-container"}]}}});
        json!({"metadata": {"name": "cartpole"}, "spec": {"coordinator": replica}})
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut job = job();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        job.pointer_mut(parent).unwrap()[key] = value;
        job
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_field() {
        assert_eq!(refusal(&job()), None);
        let containers = "/spec/coordinator/template/spec/containers";
        let cases = [
            (
                "/spec/cleanPodPolicy",
                json!("all"),
                "Invalid CleanPodPolicy all, expected in [None, Running, All]",
            ),
            (
                "/spec/cleanPodPolicy",
                json!(7),
                "Invalid CleanPodPolicy 7, expected in [None, Running, All]",
            ),
            ("/spec/coordinator", json!(null), "spec.coordinator is required"),
            (containers, json!([]), "spec.coordinator.template.spec.containers must not be empty"),
            ("/spec/learner", json!({}), "spec.learner.template.spec.containers must not be empty"),
            (
                "/metadata/name",
                json!("a.b"),
                "metadata.name must be a DNS label of at most 45 characters",
            ),
            (
                "/metadata/name",
                json!("a".repeat(46)),
                "metadata.name must be a DNS label of at most 45 characters",
            ),
        ];
        for (pointer, value, expected) in cases {
            assert_eq!(refusal(&with(pointer, value)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_policy_is_filled_in_or_written_as_it_should_be() {
        let filled = |text: Value| policy(&with("/spec/cleanPodPolicy", text));
        assert_eq!([filled(json!(null)), filled(json!("")), policy(&job())], [Some("Running"); 3]);
        assert_eq!(filled(json!("ALL")), Some("All"));
        assert_eq!([filled(json!("None")), filled(json!("hello")), filled(json!(1))], [None; 3]);
        let nowhere = [json!({}), json!({"spec": 9}), json!({"spec": "é"}), json!(null)];
        assert_eq!(nowhere.each_ref().map(policy), [None; 4]);
    }

    #[test]
    fn a_container_of_another_name_is_doubtful() {
        assert_eq!(warnings(&job()), [""; 0]);
        let job = with("/spec/coordinator/template/spec/containers", json!([{"name": "main"}]));
        let [warning] = &warnings(&job)[..] else { panic!("not one") };
        assert!(warning.contains("spec.coordinator.template") && warning.contains("di-container"));
    }
}
