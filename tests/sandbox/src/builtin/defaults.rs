//! API defaults of every kind, and those of the small kinds in full.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::field::{fields, fill, fill_absent, items, object, text, unset, within};
use super::pod::round_amounts;
use super::{apps, job, pod, service};

const RBAC: &str = "rbac.authorization.k8s.io";

/// See [`super::default`].
pub(super) fn default(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Pod") => pod::default_pod(object),
        ("", "Service") => service::default(object),
        ("", "Namespace") => namespace(object),
        ("", "Node") => node(object),
        ("", "Secret") => secret(object),
        ("", "Endpoints") => endpoints(object),
        ("", "PersistentVolume") => volume(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "LimitRange") => limit_range(object),
        ("", "ResourceQuota") => quota(object),
        ("", "PodTemplate") => {
            pod::default_template(fields(object).entry("template").or_insert(Value::Null));
        }
        ("", "ReplicationController") => apps::default_replication_controller(object),
        ("apps", "Deployment") => apps::default_deployment(object),
        ("apps", "ReplicaSet") => apps::default_replica_set(object),
        ("apps", "StatefulSet") => apps::default_stateful_set(object),
        ("apps", "DaemonSet") => apps::default_daemon_set(object),
        ("batch", "Job") => job::default(object),
        ("batch", "CronJob") => job::default_cron(object),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            fill_absent(fields(object), "preemptionPolicy", "PreemptLowerPriority");
        }
        ("storage.k8s.io", "StorageClass") => {
            fill_absent(fields(object), "reclaimPolicy", "Delete");
            fill_absent(fields(object), "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(object),
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in items(fields(object), "ports") {
                fill_absent(port, "name", "");
                fill_absent(port, "protocol", "TCP");
            }
        }
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("networking.k8s.io", "IngressClass") => {
            if let Some(parameters) = within(fields(object), "spec").get_mut("parameters") {
                fill_absent(fields(parameters), "scope", "Cluster");
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object),
        ("admissionregistration.k8s.io", _) => admission(kind, object),
        _ => {}
    }
}

fn namespace(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    let namespace = fields(namespace);
    if !name.is_empty() {
        let labels = within(within(namespace, "metadata"), "labels");
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    fill(within(namespace, "status"), "phase", "Active");
}

fn node(node: &mut Value) {
    let Some(status) = object(fields(node), "status") else { return };
    for list in ["capacity", "allocatable"] {
        if let Some(amounts) = object(status, list) {
            round_amounts(amounts);
        }
    }
    if let Some(capacity) = status.get("capacity").cloned() {
        fill_absent(status, "allocatable", capacity);
    }
}

/// `stringData` is for writing only: it ends up in `data`.
fn secret(secret: &mut Value) {
    let secret = fields(secret);
    fill(secret, "type", "Opaque");
    if let Some(Value::Object(plain)) = secret.remove("stringData") {
        let data = within(secret, "data");
        for (key, value) in plain {
            let bytes = value.as_str().unwrap_or_default();
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            data.insert(key, encoded.into());
        }
    }
}

fn endpoints(endpoints: &mut Value) {
    for subset in items(fields(endpoints), "subsets") {
        for port in items(subset, "ports") {
            fill(port, "protocol", "TCP");
        }
    }
}

fn volume(volume: &mut Value) {
    let volume = fields(volume);
    fill(within(volume, "status"), "phase", "Pending");
    let spec = within(volume, "spec");
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill_absent(spec, "volumeMode", "Filesystem");
    if let Some(capacity) = object(spec, "capacity") {
        round_amounts(capacity);
    }
    if let Some(path) = object(spec, "hostPath") {
        fill_absent(path, "type", "");
    }
}

fn claim(claim: &mut Value) {
    let claim = fields(claim);
    fill(within(claim, "status"), "phase", "Pending");
    let spec = within(claim, "spec");
    fill_absent(spec, "volumeMode", "Filesystem");
    if let Some(resources) = object(spec, "resources") {
        for list in ["limits", "requests"] {
            if let Some(amounts) = object(resources, list) {
                round_amounts(amounts);
            }
        }
    }
}

fn quota(quota: &mut Value) {
    if let Some(hard) = object(within(fields(quota), "spec"), "hard") {
        round_amounts(hard);
    }
}

fn limit_range(range: &mut Value) {
    for item in items(within(fields(range), "spec"), "limits") {
        if item.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        let entries = |item: &Map<String, Value>, key: &str| {
            item.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let mut limits = entries(item, "default");
        for (name, amount) in entries(item, "max") {
            limits.entry(name).or_insert(amount);
        }
        let mut requests = entries(item, "defaultRequest");
        for (name, amount) in limits.iter().chain(&entries(item, "min")) {
            requests.entry(name.as_str()).or_insert_with(|| amount.clone());
        }
        for (key, mut amounts) in [("default", limits), ("defaultRequest", requests)] {
            round_amounts(&mut amounts);
            if !amounts.is_empty() {
                item.insert(key.to_owned(), Value::Object(amounts));
            }
        }
    }
}

fn binding(binding: &mut Value) {
    let binding = fields(binding);
    fill(within(binding, "roleRef"), "apiGroup", RBAC);
    for subject in items(binding, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill(subject, "apiGroup", RBAC);
        }
    }
}

fn csi_driver(driver: &mut Value) {
    let spec = within(fields(driver), "spec");
    fill_absent(spec, "attachRequired", true);
    fill_absent(spec, "podInfoOnMount", false);
    fill_absent(spec, "storageCapacity", false);
    fill_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_absent(spec, "volumeLifecycleModes", json!(["Persistent"]));
    fill_absent(spec, "requiresRepublish", false);
    fill_absent(spec, "seLinuxMount", false);
}

fn network_policy(policy: &mut Value) {
    let spec = within(fields(policy), "spec");
    if !spec.contains_key("policyTypes") {
        let both = spec.contains_key("egress");
        let types = if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                fill_absent(port, "protocol", "TCP");
            }
        }
    }
}

fn autoscaler(scaler: &mut Value) {
    let spec = within(fields(scaler), "spec");
    fill_absent(spec, "minReplicas", 1);
    if !spec.contains_key("metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    let Some(behavior) = object(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = within(behavior, "scaleUp");
    fill_absent(up, "stabilizationWindowSeconds", 0);
    fill_absent(up, "selectPolicy", "Max");
    fill_absent(up, "policies", json!([pods, percent]));
    let down = within(behavior, "scaleDown");
    fill_absent(down, "selectPolicy", "Max");
    fill_absent(down, "policies", json!([percent]));
}

fn admission(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingAdmissionPolicy" => {
            let spec = within(fields(object), "spec");
            fill_absent(spec, "failurePolicy", "Fail");
            if let Some(matches) = spec.get_mut("matchConstraints") {
                match_resources(fields(matches));
            }
        }
        "ValidatingAdmissionPolicyBinding" => {
            let spec = within(fields(object), "spec");
            if let Some(matches) = spec.get_mut("matchResources") {
                match_resources(fields(matches));
            }
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let mutating = kind.starts_with('M');
            for webhook in items(fields(object), "webhooks") {
                fill_absent(webhook, "failurePolicy", "Fail");
                match_resources(webhook);
                fill_absent(webhook, "timeoutSeconds", 10);
                if mutating {
                    fill_absent(webhook, "reinvocationPolicy", "Never");
                }
                for rule in items(webhook, "rules") {
                    fill_absent(rule, "scope", "*");
                }
                if let Some(service) =
                    webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"))
                {
                    fill_absent(fields(service), "port", 443);
                }
            }
        }
        _ => {}
    }
}

fn match_resources(matches: &mut Map<String, Value>) {
    fill_absent(matches, "matchPolicy", "Equivalent");
    fill_absent(matches, "namespaceSelector", json!({}));
    fill_absent(matches, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items(matches, rules) {
            if unset(rule, "scope") {
                rule.insert("scope".to_owned(), "*".into());
            }
        }
    }
}
