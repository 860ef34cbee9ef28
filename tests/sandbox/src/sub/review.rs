//! Reviews: questions that are answered at once and never stored.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::managed::{self, Reset};
use muster_objects::meta;
use muster_objects::shape::Shape;
use muster_objects::status::Status;
use serde_json::Value;

use crate::api::{Api, Call};
use crate::auth;
use crate::verb::body;

/// Answers a review of any kind.
pub fn answer(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let mut review = body::parse(call)?;
    body::take_type(&call.kind, &mut review)?;
    let (user, store) = (&call.user, &api.store);
    let posted = review.clone();
    let mut answer = match call.kind.kind.as_str() {
        "TokenReview" => auth::token_review(&api.auth, review, store)?,
        "SelfSubjectReview" => auth::self_subject_review(review, user, &api.clock.stamp()),
        "SubjectAccessReview" => auth::subject_access_review(review, store)?,
        "SelfSubjectAccessReview" => auth::self_subject_access_review(review, user, store)?,
        "LocalSubjectAccessReview" => {
            auth::local_subject_access_review(review, call.namespace(), store)?
        }
        "SelfSubjectRulesReview" => auth::self_subject_rules_review(&review, user, store)?,
        _ => return Err(Status::no_route()),
    };
    record_manager(api, call, &posted, (&call.kind.group, &call.kind.kind), &mut answer);
    Ok(call.representation.value(201, &answer))
}

/// Upstream tracks who posted a review or a token request, although nothing is stored.
pub fn record_manager(
    api: &Api,
    call: &Call,
    posted: &Value,
    (group, kind): (&str, &str),
    answer: &mut Value,
) {
    let mut tracked = posted.clone();
    let now = api.clock.stamp();
    managed::track_update(
        None,
        &mut tracked,
        &call.manager(),
        &call.path.subresource,
        &format!("{group}/v1"),
        &now,
        &Shape::builtin(group, kind),
        &Reset::nothing(),
    );
    if let Some(fields) = tracked["metadata"].get("managedFields") {
        meta::edit(answer).insert("managedFields".into(), fields.clone());
    }
}
