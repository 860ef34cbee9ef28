//! `serviceaccounts/token`: a TokenRequest.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use muster_objects::status::Status;

use crate::api::{Api, Call};
use crate::verb::body;

/// Issues a token.
pub fn issue(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let request = body::parse(call)?;
    let answer = api.auth.issue(call.namespace(), call.name(), request, &api.store)?;
    Ok(call.representation.value(201, &answer))
}
