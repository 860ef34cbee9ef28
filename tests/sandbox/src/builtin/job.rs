//! Jobs and cron jobs: defaults, and the selector that the server makes for a job.

use serde_json::{Map, Value};

use super::field::{at, fields, fill, fill_absent, items, object, text, truth, within};
use super::pod::default_template;

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// Defaults of a job. A new job takes its template's labels only in [`prepare_create`], since they
/// include those that the server adds.
pub(super) fn default(job: &mut Value) {
    let job = fields(job);
    default_spec(within(job, "spec"), true);
    let labels = template_labels(job);
    if labels.as_ref().is_some_and(|labels| labels.get(UID_LABEL).is_some()) {
        label(job, labels);
    }
}

fn template_labels(job: &Map<String, Value>) -> Option<Value> {
    at(job.get("spec")?, &["template", "metadata", "labels"]).cloned()
}

fn label(job: &mut Map<String, Value>, labels: Option<Value>) {
    let metadata = within(job, "metadata");
    if let Some(labels) = labels
        && metadata.get("labels").is_none()
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// A job as the server first stores it.
pub(super) fn prepare_create(job: &mut Value) {
    let labelled = template_labels(fields(job)).is_some();
    generate_selector(job);
    if labelled {
        let labels = template_labels(fields(job));
        label(fields(job), labels);
    }
}

/// A job's own fields are defaulted in jobs only, not in the template of a cron job.
fn default_spec(spec: &mut Map<String, Value>, whole: bool) {
    let indexed_limit = spec.contains_key("backoffLimitPerIndex");
    let failure_policy = spec.contains_key("podFailurePolicy");
    if whole {
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            fill_absent(spec, "completions", 1);
        }
        fill_absent(spec, "parallelism", 1);
        fill_absent(spec, "backoffLimit", if indexed_limit { i32::MAX } else { 6 });
        fill_absent(spec, "completionMode", "NonIndexed");
        fill_absent(spec, "suspend", false);
        let replace = if failure_policy { "Failed" } else { "TerminatingOrFailed" };
        fill_absent(spec, "podReplacementPolicy", replace);
        fill_absent(spec, "manualSelector", false);
    }
    if let Some(policy) = object(spec, "podFailurePolicy") {
        for rule in items(policy, "rules") {
            for condition in items(rule, "onPodConditions") {
                fill(condition, "status", "True");
            }
        }
    }
    default_template(spec.entry("template").or_insert(Value::Null));
}

/// Defaults of a cron job.
pub(super) fn default_cron(cron: &mut Value) {
    let spec = within(fields(cron), "spec");
    fill(spec, "concurrencyPolicy", "Allow");
    fill_absent(spec, "suspend", false);
    fill_absent(spec, "successfulJobsHistoryLimit", 3);
    fill_absent(spec, "failedJobsHistoryLimit", 1);
    default_spec(within(within(spec, "jobTemplate"), "spec"), false);
}

/// Gives a job a selector of its own, unless the user asked to choose it.
fn generate_selector(job: &mut Value) {
    if truth(job, &["spec", "manualSelector"]) {
        return;
    }
    let name = text(job, &["metadata", "name"]).to_owned();
    let uid = text(job, &["metadata", "uid"]).to_owned();
    let spec = within(fields(job), "spec");
    let labels = within(within(within(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        (UID_LABEL, &uid),
    ] {
        labels.entry(key).or_insert_with(|| value.clone().into());
    }
    let selector = within(within(spec, "selector"), "matchLabels");
    selector.entry(UID_LABEL).or_insert_with(|| uid.into());
}
