//! Deployments, replica sets, stateful sets, daemon sets and replication controllers.

use serde_json::{Value, json};

use super::field::{copy, fields, fill, fill_absent, items, object, within};
use super::pod::default_template;

/// Defaults of a deployment.
pub(super) fn default_deployment(deployment: &mut Value) {
    let spec = within(fields(deployment), "spec");
    fill_absent(spec, "replicas", 1);
    let strategy = within(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = within(strategy, "rollingUpdate");
        fill_absent(rolling, "maxUnavailable", "25%");
        fill_absent(rolling, "maxSurge", "25%");
    }
    fill_absent(spec, "revisionHistoryLimit", 10);
    fill_absent(spec, "progressDeadlineSeconds", 600);
    default_template(spec.entry("template").or_insert(Value::Null));
}

/// Defaults of a daemon set.
pub(super) fn default_daemon_set(set: &mut Value) {
    let spec = within(fields(set), "spec");
    let strategy = within(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = within(strategy, "rollingUpdate");
        fill_absent(rolling, "maxUnavailable", 1);
        fill_absent(rolling, "maxSurge", 0);
    }
    fill_absent(spec, "revisionHistoryLimit", 10);
    default_template(spec.entry("template").or_insert(Value::Null));
}

/// Defaults of a stateful set.
pub(super) fn default_stateful_set(set: &mut Value) {
    let spec = within(fields(set), "spec");
    fill(spec, "podManagementPolicy", "OrderedReady");
    let strategy = within(spec, "updateStrategy");
    if super::field::unset(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        fill_absent(strategy, "rollingUpdate", json!({}));
    }
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = object(strategy, "rollingUpdate")
    {
        fill_absent(rolling, "partition", 0);
    }
    let retention = within(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    fill_absent(spec, "replicas", 1);
    fill_absent(spec, "revisionHistoryLimit", 10);
    for claim in items(spec, "volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        fill_absent(within(claim, "spec"), "volumeMode", "Filesystem");
        fill(within(claim, "status"), "phase", "Pending");
    }
    default_template(spec.entry("template").or_insert(Value::Null));
}

/// Defaults of a replica set.
pub(super) fn default_replica_set(set: &mut Value) {
    let spec = within(fields(set), "spec");
    fill_absent(spec, "replicas", 1);
    default_template(spec.entry("template").or_insert(Value::Null));
}

/// Defaults of a replication controller: selector and labels come from the template.
pub(super) fn default_replication_controller(controller: &mut Value) {
    let controller = fields(controller);
    let spec = within(controller, "spec");
    fill_absent(spec, "replicas", 1);
    let Some(template) = spec.get_mut("template").filter(|template| template.is_object()) else {
        return;
    };
    default_template(template);
    let Some(labels) = template.get("metadata").and_then(|m| m.get("labels")).cloned() else {
        return;
    };
    fill_absent(spec, "selector", labels.clone());
    fill_absent(within(controller, "metadata"), "labels", labels);
}

/// Counts the versions of a daemon set's template, as older clients expect.
pub(super) fn stamp_template(new: &mut Value, old: Option<&Value>) {
    let templates = new.get("spec").and_then(|spec| spec.get("template"));
    let changed =
        old.is_some_and(|old| old.get("spec").and_then(|s| s.get("template")) != templates);
    const KEY: &str = "deprecated.daemonset.template.generation";
    let Some(old) = old else {
        let annotations = within(within(fields(new), "metadata"), "annotations");
        let given = annotations.get(KEY).and_then(Value::as_str).and_then(|n| n.parse().ok());
        let generation: i64 = given.unwrap_or(1).max(1);
        annotations.insert(KEY.to_owned(), generation.to_string().into());
        return;
    };
    let known = old.get("metadata").and_then(|m| m.get("annotations")).unwrap_or(&Value::Null);
    let annotations = within(within(fields(new), "metadata"), "annotations");
    copy(annotations, known, KEY);
    if changed {
        let count = known.get(KEY).and_then(Value::as_str).and_then(|n| n.parse::<i64>().ok());
        annotations.insert(KEY.to_owned(), (count.unwrap_or_default() + 1).to_string().into());
    }
}
