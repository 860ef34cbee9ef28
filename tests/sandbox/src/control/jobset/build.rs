//! The Jobs and the Service that a JobSet makes.

use std::fmt::Write;

use muster_objects::meta;
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};

use super::super::json::{self, controller_reference};
use super::super::kind::JOB_SETS;
use super::names;

/// Name of a JobSet's Job: `<jobset>-<replicatedJob>-<index>`.
pub fn job_name(set: &str, replicated: &str, index: i64) -> String {
    format!("{set}-{replicated}-{index}")
}

/// `spec.replicas` of a replicatedJob; the schema defaults it to 1.
pub fn replicas(replicated: &Value) -> i64 {
    json::int(replicated, "/replicas").unwrap_or(1)
}

/// Whether pods get DNS names.
pub fn has_dns(set: &Value) -> bool {
    json::flag(set, "/spec/network/enableDNSHostnames")
}

/// The name of the Service and the subdomain of the pods.
pub fn subdomain(set: &Value) -> &str {
    match json::text(set, "/spec/network/subdomain") {
        "" => meta::name(set),
        subdomain => subdomain,
    }
}

fn group(replicated: &Value) -> &str {
    match json::text(replicated, "/groupName") {
        "" => "default",
        group => group,
    }
}

/// SHA-1 of `<namespace>/<job>`, in hex.
fn job_key(namespace: &str, job: &str) -> String {
    let mut hex = String::with_capacity(40);
    for byte in Sha1::digest(format!("{namespace}/{job}")) {
        // Writing to a String cannot fail.
        let _ok = write!(hex, "{byte:02x}");
    }
    hex
}

/// The headless Service.
pub fn service(set: &Value) -> Value {
    let publish = set
        .pointer("/spec/network/publishNotReadyAddresses")
        .and_then(Value::as_bool)
        .unwrap_or(true);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain(set),
            "namespace": meta::namespace(set),
            "ownerReferences": [controller_reference(&JOB_SETS, set)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {names::NAME: meta::name(set)},
            "publishNotReadyAddresses": publish,
        },
    })
}

/// One Job of a replicatedJob.
pub fn job(set: &Value, replicated: &Value, index: i64) -> Value {
    let name = job_name(meta::name(set), json::text(replicated, "/name"), index);
    let template = replicated.get("template").cloned().unwrap_or_default();
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    let marks = marks(set, replicated, index);
    let extra = placement(set, &template);

    let mut metadata = json!({
        "name": name,
        "namespace": meta::namespace(set),
        "ownerReferences": [controller_reference(&JOB_SETS, set)],
    });
    let own = template.get("metadata").cloned().unwrap_or_default();
    mark(&mut metadata, &own, &marks, &extra);
    if !spec.get("template").is_some_and(Value::is_object) {
        spec["template"] = json!({});
    }
    let pod_own = spec.pointer("/template/metadata").cloned().unwrap_or_else(|| json!({}));
    let mut pod_metadata = pod_own.clone();
    if !pod_metadata.is_object() {
        pod_metadata = json!({});
    }
    mark(&mut pod_metadata, &pod_own, &marks, &extra);
    spec["template"]["metadata"] = pod_metadata;
    if !spec["template"].get("spec").is_some_and(Value::is_object) {
        spec["template"]["spec"] = json!({});
    }
    if has_dns(set) {
        spec["template"]["spec"]["subdomain"] = subdomain(set).into();
    }
    let annotations = &metadata["annotations"];
    if annotations.get(names::EXCLUSIVE).is_some()
        && annotations.get(names::NODE_SELECTOR).is_some()
    {
        pin(&mut spec["template"]["spec"], meta::namespace(set), &name);
    }
    spec["suspend"] = json::flag(set, "/spec/suspend").into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
}

/// Node selector and toleration for nodes that were labelled ahead for this Job.
fn pin(pod: &mut Value, namespace: &str, job: &str) {
    if !pod.get("nodeSelector").is_some_and(Value::is_object) {
        pod["nodeSelector"] = json!({});
    }
    pod["nodeSelector"][names::NAMESPACED_JOB] = format!("{namespace}_{job}").into();
    let toleration =
        json!({"key": names::NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"});
    match pod.get_mut("tolerations").and_then(Value::as_array_mut) {
        Some(list) => list.push(toleration),
        None => pod["tolerations"] = json!([toleration]),
    }
}

fn mark(metadata: &mut Value, own: &Value, marks: &Map<String, Value>, extra: &Map<String, Value>) {
    for field in ["labels", "annotations"] {
        let mut map = own.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        map.extend(marks.clone());
        if field == "annotations" {
            map.extend(extra.clone());
        }
        metadata[field] = map.into();
    }
}

/// Annotations for exclusive placement, from the JobSet or from the template.
fn placement(set: &Value, template: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    for from in [set, template] {
        if let Some(domain) = meta::annotation(from, names::EXCLUSIVE) {
            found.insert(names::EXCLUSIVE.to_owned(), domain.into());
            if let Some(strategy) = meta::annotation(from, names::NODE_SELECTOR) {
                found.insert(names::NODE_SELECTOR.to_owned(), strategy.into());
            }
        }
    }
    found
}

/// The labels that are annotations too, on Jobs and on pods.
fn marks(set: &Value, replicated: &Value, index: i64) -> Map<String, Value> {
    let all = json::list(set, "/spec/replicatedJobs");
    let name = json::text(replicated, "/name");
    let own_group = group(replicated);
    let before = all.iter().take_while(|r| json::text(r, "/name") != name);
    let same_group = |r: &&Value| group(r) == own_group;
    let global_index = before.clone().map(replicas).sum::<i64>() + index;
    let group_index = before.filter(same_group).map(replicas).sum::<i64>() + index;
    let job = job_name(meta::name(set), name, index);
    let restarts = json::int(set, "/status/restarts").unwrap_or(0);
    let mut marks: Vec<(&str, String)> = vec![
        (names::NAME, meta::name(set).to_owned()),
        (names::UID, meta::uid(set).to_owned()),
        (names::REPLICATED_JOB, name.to_owned()),
        (names::ATTEMPT, restarts.to_string()),
        (names::REPLICAS, replicas(replicated).to_string()),
        (names::GLOBAL_REPLICAS, all.iter().map(replicas).sum::<i64>().to_string()),
        (names::JOB_INDEX, index.to_string()),
        (names::JOB_KEY, job_key(meta::namespace(set), &job)),
        (names::GLOBAL_INDEX, global_index.to_string()),
        (names::GROUP, own_group.to_owned()),
        (
            names::GROUP_REPLICAS,
            all.iter().filter(same_group).map(replicas).sum::<i64>().to_string(),
        ),
        (names::GROUP_INDEX, group_index.to_string()),
    ];
    if let Some(coordinator) = set.pointer("/spec/coordinator").filter(|c| !c.is_null()) {
        let endpoint = format!(
            "{}-{}-{}-{}.{}",
            meta::name(set),
            json::text(coordinator, "/replicatedJob"),
            json::int(coordinator, "/jobIndex").unwrap_or(0),
            json::int(coordinator, "/podIndex").unwrap_or(0),
            subdomain(set),
        );
        marks.push((names::COORDINATOR, endpoint));
    }
    marks.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}
