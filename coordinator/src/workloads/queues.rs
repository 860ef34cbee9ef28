//! Queue labels that nobody reads: the pods of the object are another scheduler's.

use serde_json::Value;

use muster_serving::webhook::{Answer, Request};

/// The label that names a queue.
const QUEUE: &str = "kai.scheduler/queue";

/// Who places pods that name nobody.
const CLUSTERS: &str = "default-scheduler";

/// Where ModelServings and DIJobs have the templates of their pods.
const TEMPLATES: [&str; 4] = ["template", "entryTemplate", "workerTemplate", "spec"];

/// What is said of an object with a queue whose pods name these schedulers, none of which reads it.
pub(super) fn warning<'a>(
    object: &Value,
    schedulers: impl Iterator<Item = &'a str>,
    readers: &[String],
) -> Option<String> {
    let queue = object["metadata"]["labels"][QUEUE].as_str().filter(|queue| !queue.is_empty())?;
    let mut others: Vec<&str> = schedulers.collect();
    if others.iter().any(|name| readers.iter().any(|reader| reader == name)) {
        return None;
    }
    others.sort_unstable();
    others.dedup();
    let others = if others.is_empty() { CLUSTERS.to_owned() } else { others.join(", ") };
    let ours = readers.first().map_or("muster-scheduler", String::as_str);
    Some(format!(
        "metadata.labels[{QUEUE}]: nobody reads the queue {queue:?}: the pods are placed by {others}; \
         name {ours} as their schedulerName"
    ))
}

/// The same for a ModelServing or a DIJob, beside what else is said of it.
pub(super) fn warn(answer: Answer, request: &Request, readers: &[String]) -> Answer {
    let Answer::Allow { mut warnings } = answer else { return answer };
    let object = request.object.as_ref().and_then(|object| serde_json::to_value(object).ok());
    if let Some(object) = object.filter(|object| object["metadata"]["deletionTimestamp"].is_null())
    {
        let mut schedulers = Vec::new();
        match object["spec"]["schedulerName"].as_str() {
            Some(name) if !name.is_empty() => schedulers.push(name),
            _ => named(&object["spec"], 0, &mut schedulers),
        }
        warnings.extend(warning(&object, schedulers.into_iter(), readers));
    }
    Answer::Allow { warnings }
}

/// The schedulers that templates of pods name.
fn named<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| named(item, depth, found)),
        // No template is deeper.
        Value::Object(fields) if depth < 6 => {
            for (key, value) in fields {
                let roles = ["roles", "coordinator", "collector", "learner"];
                if key == "schedulerName" {
                    found.extend(value.as_str());
                } else if TEMPLATES.contains(&key.as_str()) || roles.contains(&key.as_str()) {
                    named(value, depth + 1, found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(object: Value) -> Vec<String> {
        let request = serde_json::from_value(json!({
            "uid": "u1", "kind": {"group": "g", "version": "v1", "kind": "K"},
            "resource": {"group": "g", "version": "v1", "resource": "ks"},
            "operation": "CREATE", "userInfo": {}, "namespace": "n", "object": object, "oldObject": null,
        }));
        let readers = ["muster-scheduler".to_owned(), "kai-scheduler".to_owned()];
        match warn(Answer::allow(), &request.unwrap(), &readers) {
            Answer::Allow { warnings } => warnings,
            other => panic!("{other:?}"),
        }
    }

    fn object(spec: Value) -> Value {
        json!({"apiVersion": "g/v1", "kind": "K", "spec": spec,
            "metadata": {"name": "a", "labels": {"kai.scheduler/queue": "team-a"}}})
    }

    #[test]
    fn a_queue_that_the_pods_scheduler_does_not_read_is_a_warning() {
        let pod = |scheduler: &str| json!({"spec": {"schedulerName": scheduler, "containers": []}});
        let short = |pod: Value| object(json!({"roles": [{"name": "a", "template": pod}]}));
        let di = |pod: Value| object(json!({"coordinator": {"template": pod}}));
        for (object, by) in [
            (object(json!({"schedulerName": "volcano"})), "placed by volcano;"),
            (short(pod("volcano")), "placed by volcano;"),
            (short(json!({"spec": {}})), "placed by default-scheduler;"),
            (di(json!({})), "placed by default-scheduler;"),
        ] {
            let warnings = said(object);
            assert!(warnings.len() == 1 && warnings[0].contains(by), "{warnings:?}");
            assert!(warnings[0].contains("\"team-a\"") && warnings[0].contains("muster-scheduler"));
        }
        for object in [
            object(json!({"schedulerName": "muster-scheduler"})),
            short(pod("kai-scheduler")),
            di(pod("muster-scheduler")),
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": {}}),
        ] {
            assert_eq!(said(object), [""; 0]);
        }
    }
}
