//! `serviceaccounts/token`: a TokenRequest.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::meta;
use muster_objects::status::Status;

use crate::api::{Api, Call};
use crate::verb::body;

/// Issues a token.
pub fn issue(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let request = body::parse(call)?;
    let mut posted = request.clone();
    meta::as_map(&mut posted).retain(|key, _| key != "apiVersion" && key != "kind");
    let mut answer = api.auth.issue(call.namespace(), call.name(), request, &api.store)?;
    super::review::record_manager(api, call, &posted, "authentication.k8s.io/v1", &mut answer);
    Ok(call.representation.value(201, &answer))
}
