//! `pods/eviction`: a deletion that asks the PodDisruptionBudgets first.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::meta;
use muster_objects::select::LabelSelector;
use muster_objects::status::{Cause, Details, Status};
use serde_json::{Value, json};

use super::binding::created;
use crate::admit::Gvk;
use crate::api::{Api, Call};
use crate::store::{Expect, Object};
use crate::verb::{body, delete, read, write};

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Evicts the pod, if its budget allows.
pub async fn evict(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let eviction = body::parse(call)?;
    let given = meta::name(&eviction);
    if !given.is_empty() && given != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let kind = Gvk { group: "policy", version: "v1", kind: "Eviction" };
    write::admit_body(api, call, kind, &eviction).await?;
    let pod = read::live(api, call)?;
    if !goes_freely(&pod.value) {
        let name = call.name();
        for attempt in 0.. {
            match spend(api, &pod.value, name)? {
                true => break,
                false if attempt < 16 => {}
                false => return Err(Status::stale(call.kind.name(), name)),
            }
        }
    }
    let options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let dry = call.query.dry_run || options["dryRun"].as_array().is_some_and(|all| !all.is_empty());
    if !dry {
        target(api, call, &options["preconditions"]);
    }
    let deletion = Call {
        kind: call.kind.clone(),
        path: crate::request::Path { subresource: String::new(), ..call.path.clone() },
        query: call.query.clone(),
        user: call.user.clone(),
        method: http::Method::DELETE,
        representation: call.representation,
        headers: http::HeaderMap::new(),
        body: options.to_string().into(),
    };
    delete::delete(api, &deletion).await?;
    Ok(call.representation.value(201, &created()))
}

/// Writes on the pod that it goes because it was asked to, as the API server does. Not on another pod of the name.
fn target(api: &Api, call: &Call, preconditions: &Value) {
    let uid = preconditions["uid"].as_str();
    if preconditions["resourceVersion"].is_string() {
        return;
    }
    while let Ok(live) = read::live(api, call) {
        if uid.is_some_and(|uid| uid != meta::uid(&live.value)) {
            return;
        }
        let mut next = live.value.clone();
        let mut conditions = next["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|one| one["type"] != "DisruptionTarget");
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": api.clock.stamp(),
        }));
        next["status"]["conditions"] = conditions.into();
        let key = (call.namespace().to_owned(), call.name().to_owned());
        if api.store.put("pods", key, Expect::Revision(live.revision), next).is_ok() {
            return;
        }
    }
}

/// Pods that no budget protects: ended, not started, or on their way out.
fn goes_freely(pod: &Value) -> bool {
    meta::is_terminating(pod)
        || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
}

/// Takes one disruption from the pod's budget. `false`: somebody else wrote the budget, try again.
fn spend(api: &Api, pod: &Value, name: &str) -> Result<bool, Status> {
    let budgets: Vec<Arc<Object>> = api
        .store
        .list(BUDGETS, Some(meta::namespace(pod)))
        .into_iter()
        .filter(|budget| covers(&budget.value, pod))
        .collect();
    let budget = match &budgets[..] {
        [] => return Ok(true),
        [one] => one,
        _ => {
            return Err(Status::new(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let status = &budget.value["status"];
    let healthy = status["currentHealthy"].as_i64().unwrap_or(0);
    let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    let always = budget.value["spec"]["unhealthyPodEvictionPolicy"] == json!("AlwaysAllow");
    if !is_ready(pod) && (always || (healthy >= desired && desired > 0)) {
        return Ok(true);
    }
    let generation = budget.value["metadata"]["generation"].as_i64().unwrap_or(0);
    if status["observedGeneration"].as_i64().unwrap_or(0) < generation {
        return Err(refusal(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            format!(
                "The disruption budget {} is still being processed by the server.",
                meta::name(&budget.value)
            ),
            Some(10),
        ));
    }
    if allowed <= 0 {
        return Err(refusal(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            format!(
                "The disruption budget {} needs {desired} healthy pods and has {healthy} currently",
                meta::name(&budget.value)
            ),
            None,
        ));
    }
    let mut next = budget.value.clone();
    next["status"]["disruptionsAllowed"] = json!(allowed - 1);
    next["status"]["disruptedPods"][name] = json!(api.clock.stamp());
    let key = (meta::namespace(pod).to_owned(), meta::name(&budget.value).to_owned());
    Ok(api.store.put(BUDGETS, key, Expect::Revision(budget.revision), next).is_ok())
}

fn covers(budget: &Value, pod: &Value) -> bool {
    LabelSelector::from_object(budget["spec"].get("selector")).is_ok_and(|s| s.matches(pod))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|c| c["type"] == json!("Ready") && c["status"] == json!("True"))
}

fn refusal(message: &str, cause: String, retry: Option<u32>) -> Status {
    Status {
        code: 429,
        reason: "TooManyRequests".into(),
        warnings: Vec::new(),
        message: message.to_owned(),
        details: Some(Box::new(Details {
            causes: vec![Cause {
                reason: "DisruptionBudget".into(),
                message: cause,
                field: String::new(),
            }],
            retry_after_seconds: retry,
            ..Details::default()
        })),
    }
}
