//! Subresources: one file each.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use muster_objects::status::Status;

use crate::api::{Api, Call};
use crate::verb;

mod binding;
mod eviction;
mod log;
pub mod review;
pub mod scale;
mod token;

/// Hands the call to its subresource.
pub async fn call(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let kind = &*call.kind;
    let core = |name: &str| kind.is("", name);
    match (call.path.subresource.as_str(), &call.method) {
        ("status", method) if kind.status => match *method {
            Method::GET => verb::read::get(api, call),
            Method::PUT | Method::PATCH => verb::update::update(api, call).await,
            _ => Err(Status::method_not_allowed()),
        },
        ("scale", method) if kind.scale.is_some() => match *method {
            Method::GET => scale::read(api, call),
            Method::PUT | Method::PATCH => scale::write(api, call).await,
            _ => Err(Status::method_not_allowed()),
        },
        ("finalize", &Method::PUT) if core("Namespace") => verb::update::update(api, call).await,
        ("binding", &Method::POST) if core("Pod") => binding::bind(api, call).await,
        ("eviction", &Method::POST) if core("Pod") => eviction::evict(api, call).await,
        ("log", &Method::GET) if core("Pod") => log::read(api, call),
        ("token", &Method::POST) if core("ServiceAccount") => token::issue(api, call),
        ("finalize" | "binding" | "eviction" | "log" | "token", _) => {
            Err(Status::method_not_allowed())
        }
        _ => Err(Status::no_route()),
    }
}
