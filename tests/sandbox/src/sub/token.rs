//! `serviceaccounts/token`: a TokenRequest.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::json;

use crate::api::{Api, Call};
use crate::verb::body;

/// Issues a token.
pub fn issue(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let request = body::parse(call)?;
    let mut posted = request.clone();
    meta::as_map(&mut posted).retain(|key, _| key != "apiVersion" && key != "kind");
    let mut answer = api.auth.issue(call.namespace(), call.name(), request, &api.store)?;
    let kind = ("authentication.k8s.io", "TokenRequest");
    meta::field(&mut posted, "spec").entry("expirationSeconds").or_insert_with(|| json!(3600));
    super::review::record_manager(api, call, &posted, kind, &mut answer);
    Ok(call.representation.value(201, &answer))
}
