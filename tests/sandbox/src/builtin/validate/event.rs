//! Events, in the loose rules of core/v1 and the strict ones of events.k8s.io/v1.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::NameRule;
use crate::builtin::field::{at, number, text};
use crate::builtin::metadata::{self, complain, immutable, invalid, required};
use crate::builtin::names;

/// The rules of core/v1, which all events obey. The event is in the core view.
pub(super) fn legacy(event: &Value, reporter: &str, errors: &mut Vec<FieldError>) {
    let namespace = text(event, &["metadata", "namespace"]);
    let about = text(event, &["involvedObject", "namespace"]);
    let mismatch = || {
        let detail = "does not match event.namespace";
        invalid("involvedObject.namespace", &json!(about), detail)
    };
    if at(event, &["eventTime"]).is_none() {
        let agrees =
            if about.is_empty() { matches!(namespace, "" | "default") } else { about == namespace };
        if !agrees {
            errors.push(mismatch());
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let controller = text(event, &["reportingComponent"]);
        if controller.is_empty() {
            errors.push(required(reporter, ""));
        }
        complain(errors, reporter, controller, names::qualified(controller));
        for (key, needed, limit) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let value = text(event, &[key]);
            if needed && value.is_empty() {
                errors.push(required(key, ""));
            }
            if value.len() > limit {
                let detail = format!("can have at most {limit} characters");
                errors.push(invalid(key, &json!(""), detail));
            }
        }
    }
    complain(errors, "namespace", namespace, names::subdomain(namespace));
}

/// The rules of events.k8s.io/v1. The event is in that group's view.
pub(super) fn strict(event: &Value, errors: &mut Vec<FieldError>) {
    let core = crate::builtin::event_from_v1(event);
    legacy(&core, "reportingController", errors);
    errors.extend(metadata::validate(event, true, NameRule::Subdomain));
    series(event, errors);
    if at(event, &["eventTime"]).is_none() {
        errors.push(required("eventTime", ""));
    }
    let kind = text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(invalid("type", &json!(""), format!("has invalid value: {kind}")));
    }
    for key in ["firstTimestamp", "lastTimestamp"] {
        if at(&core, &[key]).is_some() {
            errors.push(invalid(key, &json!(""), "needs to be unset"));
        }
    }
    if number(&core, &["count"]).is_some_and(|count| count != 0) {
        errors.push(invalid("count", &json!(""), "needs to be unset"));
    }
    if !text(&core, &["source", "component"]).is_empty()
        || !text(&core, &["source", "host"]).is_empty()
    {
        errors.push(invalid("source", &json!(""), "needs to be unset"));
    }
}

fn series(event: &Value, errors: &mut Vec<FieldError>) {
    let Some(series) = at(event, &["series"]) else { return };
    if number(series, &["count"]).unwrap_or_default() < 2 {
        errors.push(invalid("series.count", &json!(""), "should be at least 2"));
    }
    if at(series, &["lastObservedTime"]).is_none() {
        errors.push(required("series.lastObservedTime", ""));
    }
}

/// Only the series of an event may change. Both are in the view of events.k8s.io/v1.
pub(super) fn strict_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (core, before) = (crate::builtin::event_from_v1(new), crate::builtin::event_from_v1(old));
    legacy(&core, "reportingController", errors);
    errors.extend(metadata::validate_update(new, old));
    if new.get("series") != old.get("series") {
        series(new, errors);
    }
    for key in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
    ] {
        immutable(key, core.get(key), before.get(key), errors);
    }
    for (key, shown) in
        [("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")]
    {
        immutable(shown, core.get(key), before.get(key), errors);
    }
}
