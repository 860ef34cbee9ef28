//! Pods and pod templates: defaults, and what the server fills in when one is made or changed.

use muster_kube::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::amount;
use super::field::{
    at, copy, entries, fields, fill, fill_absent, items, list, object, text, unset, within,
};

mod change;
mod container;
mod resource;
mod validate;
mod volume;

pub(super) use change::{validate_status, validate_update};
pub(super) use validate::{validate_create, validate_template};

/// Defaults of a pod.
pub(super) fn default_pod(pod: &mut Value) {
    let pod = fields(pod);
    let spec = within(pod, "spec");
    default_spec(spec);
    for kind in ["containers", "initContainers"] {
        for container in items(spec, kind) {
            requests_from_limits(container);
        }
    }
    pod_level_requests(spec);
    fill_absent(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default() {
        for kind in ["containers", "initContainers"] {
            for container in items(spec, kind) {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        fill(port, "hostPort", number);
                    }
                }
            }
        }
    }
}

/// Defaults of a pod template.
pub(super) fn default_template(template: &mut Value) {
    default_spec(within(fields(template), "spec"));
}

fn default_spec(spec: &mut Map<String, Value>) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill_absent(spec, "securityContext", Map::new());
    fill_absent(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    mirror_service_account(spec);
    for volume in items(spec, "volumes") {
        default_volume(volume);
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, kind) {
            default_container(container);
        }
    }
    if let Some(resources) = object(spec, "resources") {
        round_resources(resources);
    }
    if let Some(overhead) = object(spec, "overhead") {
        round_amounts(overhead);
    }
}

/// The deprecated name of the field is kept beside the new one.
fn mirror_service_account(spec: &mut Map<String, Value>) {
    let name = spec
        .get("serviceAccountName")
        .filter(|name| name.as_str().is_some_and(|name| !name.is_empty()))
        .or_else(|| spec.get("serviceAccount"))
        .cloned();
    match name {
        Some(name) => {
            spec.insert("serviceAccountName".to_owned(), name.clone());
            spec.insert("serviceAccount".to_owned(), name);
        }
        None => {
            spec.remove("serviceAccount");
        }
    }
}

fn default_container(container: &mut Map<String, Value>) {
    if unset(container, "imagePullPolicy") {
        let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
        let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for env in items(container, "env") {
        if let Some(source) = object(env, "valueFrom") {
            if let Some(reference) = object(source, "fieldRef") {
                fill(reference, "apiVersion", "v1");
            }
            if let Some(reference) = object(source, "fileKeyRef") {
                fill_absent(reference, "optional", false);
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = object(container, probe) else { continue };
        fill(probe, "timeoutSeconds", 1);
        fill(probe, "periodSeconds", 10);
        fill(probe, "successThreshold", 1);
        fill(probe, "failureThreshold", 3);
        default_http(probe);
        if let Some(grpc) = object(probe, "grpc") {
            fill_absent(grpc, "service", "");
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = object(lifecycle, hook) {
                default_http(hook);
            }
        }
    }
    if let Some(resources) = object(container, "resources") {
        round_resources(resources);
    }
}

fn default_http(handler: &mut Map<String, Value>) {
    if let Some(get) = object(handler, "httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

fn default_volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, source) {
            fill_absent(source, "defaultMode", 0o644);
        }
    }
    if let Some(path) = object(volume, "hostPath") {
        fill_absent(path, "type", "");
    }
    if let Some(downward) = object(volume, "downwardAPI") {
        default_downward(downward);
    }
    if let Some(projected) = object(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = object(source, "serviceAccountToken") {
                fill_absent(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = object(source, "downwardAPI") {
                default_downward(downward);
            }
        }
    }
    if let Some(template) =
        object(volume, "ephemeral").and_then(|source| object(source, "volumeClaimTemplate"))
    {
        fill_absent(within(template, "spec"), "volumeMode", "Filesystem");
    }
    if let Some(image) = object(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        fill(image, "pullPolicy", policy);
    }
    if let Some(iscsi) = object(volume, "iscsi") {
        fill(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = object(volume, "rbd") {
        fill(rbd, "pool", "rbd");
        fill(rbd, "user", "admin");
        fill(rbd, "keyring", "/etc/ceph/keyring");
    }
}

fn default_downward(downward: &mut Map<String, Value>) {
    for item in items(downward, "items") {
        if let Some(reference) = object(item, "fieldRef") {
            fill(reference, "apiVersion", "v1");
        }
    }
}

/// Whether this image reference means the tag `latest`; what is no reference means nothing.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    let valid = !image.is_empty()
        && !name.is_empty()
        && !image.contains(char::is_whitespace)
        && !name.split([':', '@']).next().unwrap_or_default().contains(char::is_uppercase);
    if !valid || image.contains('@') {
        return valid && name.split('@').next().is_some_and(|name| name.ends_with(":latest"));
    }
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn round_resources(resources: &mut Map<String, Value>) {
    for list in ["limits", "requests"] {
        if let Some(amounts) = object(resources, list) {
            round_amounts(amounts);
        }
    }
}

/// Amounts are kept in thousandths at the finest.
pub(super) fn round_amounts(amounts: &mut Map<String, Value>) {
    for amount in amounts.values_mut() {
        let text = amount.as_str().unwrap_or_default();
        if text.ends_with(['n', 'u'])
            && let Some(rounded) = amount::rounded_to_milli(text)
        {
            *amount = rounded.into();
        }
    }
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = object(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = within(resources, "requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// Limits of the whole pod become its requests where the containers ask for nothing of the sort.
fn pod_level_requests(spec: &mut Map<String, Value>) {
    let limits = match spec.get("resources").and_then(|r| r.get("limits")) {
        Some(Value::Object(limits)) if !limits.is_empty() => limits.clone(),
        _ => return,
    };
    let mut sums: Vec<(String, Quantity)> = Vec::new();
    for container in spec.get("containers").and_then(Value::as_array).into_iter().flatten() {
        for (name, amount) in entries(container, &["resources", "requests"]) {
            if !matches!(name.as_str(), "cpu" | "memory") {
                continue;
            }
            let amount = amount::of(amount.as_str().unwrap_or_default());
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum = *sum + amount,
                None => sums.push((name.clone(), amount)),
            }
        }
    }
    let requests = within(within(spec, "resources"), "requests");
    for (name, sum) in sums {
        requests.entry(name).or_insert_with(|| sum.to_string().into());
    }
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// A pod as the server first stores it.
pub(super) fn prepare_create(pod: &mut Value, now: &str) {
    let class = qos_class(pod);
    let gated = !list(pod, &["spec", "schedulingGates"]).is_empty();
    let labels = at(pod, &["metadata", "labels"]).cloned().unwrap_or_default();
    let pod = fields(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": now,
        }]);
    }
    pod.insert("status".to_owned(), status);
    let spec = within(pod, "spec");
    for constraint in items(spec, "topologySpreadConstraints") {
        apply_label_keys(constraint, &labels);
    }
    let Some(affinity) = object(spec, "affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = object(affinity, kind) else { continue };
        for term in items(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            apply_label_keys(term, &labels);
        }
        for weighted in items(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = object(weighted, "podAffinityTerm") {
                apply_label_keys(term, &labels);
            }
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` become expressions over the pod's own labels.
fn apply_label_keys(term: &mut Map<String, Value>, labels: &Value) {
    let mut expressions = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(keys).and_then(Value::as_array).into_iter().flatten() {
            if let Some(value) = key.as_str().and_then(|key| labels.get(key)) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if expressions.is_empty() {
        return;
    }
    if let Some(selector) = object(term, "labelSelector") {
        let known = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Value::Array(known) = known {
            known.extend(expressions);
        }
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let mut requests: [i128; 2] = [0, 0];
    let mut limits: [i128; 2] = [0, 0];
    let mut guaranteed = true;
    let mut count = |holder: &Value, all_needed: bool| {
        for (place, name) in ["cpu", "memory"].into_iter().enumerate() {
            let amount = |list| amount::nanos(text(holder, &["resources", list, name])).max(0);
            requests[place] += amount("requests");
            limits[place] += amount("limits");
            if all_needed && amount("limits") == 0 {
                guaranteed = false;
            }
        }
    };
    match at(pod, &["spec", "resources"]) {
        Some(_) => {
            let spec = &pod["spec"];
            count(spec, entries(spec, &["resources", "limits"]).next().is_some());
        }
        None => {
            for kind in ["containers", "initContainers"] {
                for container in list(pod, &["spec", kind]) {
                    count(container, true);
                }
            }
        }
    }
    let asked = |amounts: &[i128; 2]| amounts.iter().filter(|amount| **amount > 0).count();
    if asked(&requests) == 0 && asked(&limits) == 0 {
        return "BestEffort";
    }
    let equal = (0..2).all(|place| requests[place] == 0 || requests[place] == limits[place]);
    if guaranteed && equal && asked(&requests) == asked(&limits) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// A status as a kubelet writes it: some of the old one is kept where the new one is silent.
pub(super) fn prepare_status(new: &mut Value, old: &Value) {
    let new = fields(new);
    copy(new, old, "spec");
    let metadata = within(new, "metadata");
    let known = old.get("metadata").unwrap_or(&Value::Null);
    for key in ["ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        copy(metadata, known, key);
    }
    let status = within(new, "status");
    for key in ["qosClass", "observedGeneration"] {
        if unset(status, key)
            && let Some(value) = at(old, &["status", key])
        {
            status.insert(key.to_owned(), value.clone());
        }
    }
    let mut known: Vec<&Value> = list(old, &["status", "conditions"]).iter().collect();
    for condition in items(status, "conditions") {
        let place = known.iter().position(|old| old.get("type") == condition.get("type"));
        let generation = place.and_then(|place| known.remove(place).get("observedGeneration"));
        if let Some(generation) = generation {
            fill(condition, "observedGeneration", generation.clone());
        }
    }
}

/// Seconds that a pod has to end where the caller names none.
pub(super) fn grace_seconds(pod: &Value) -> i64 {
    let ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    if text(pod, &["spec", "nodeName"]).is_empty() || ended {
        return 0;
    }
    super::field::number(pod, &["spec", "terminationGracePeriodSeconds"]).unwrap_or_default()
}
