//! Reviews: questions that are answered at once and never stored.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::status::Status;

use crate::api::{Api, Call};
use crate::auth;
use crate::verb::body;

/// Answers a review of any kind.
pub fn answer(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let mut review = body::parse(call)?;
    body::take_type(&call.kind, &mut review)?;
    let (user, store) = (&call.user, &api.store);
    let answer = match call.kind.kind.as_str() {
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
    Ok(call.representation.value(201, &answer))
}
