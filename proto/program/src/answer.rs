//! What both programs answer alike: a page, metrics, the level of the log.

use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use prometheus_client::registry::Registry;

use crate::log::LogLevel;
use crate::serve::Caller;

/// How much of a request for another log level is read.
pub const LARGEST_LEVEL: usize = 1024;

/// A page. What it shows comes from outside, in part: no script may run on it, whatever it says.
pub fn page(text: String) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(text)).into_response()
}

/// All metrics, as text.
pub fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _written = prometheus_client::encoding::text::encode(&mut text, registry);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Takes another level of the log, from callers on this machine.
pub fn set_level(log: &LogLevel, Caller(caller): Caller, wanted: &str) -> Response {
    if !caller.is_loopback() {
        let text = "the log level is changed from the same machine or pod\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    match log.set(wanted.trim()) {
        Ok(()) => format!("{}\n", log.get()).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}\n")).into_response(),
    }
}
