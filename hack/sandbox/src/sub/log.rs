//! `pods/log`: what the simulated containers wrote.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Response, header};
use muster_objects::status::Status;
use serde_json::Value;

use crate::api::{Api, Call};
use crate::verb::read;

/// The log of one container.
pub fn read(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let pod = read::live(api, call)?;
    let container = container(&pod.value, call)?;
    let node = pod.value["spec"]["nodeName"].as_str().unwrap_or("");
    if node.is_empty() {
        // Upstream answers so: the pod has written nothing anywhere.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = http::StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let logs = api.logs.read().clone();
    let mut lines =
        logs.map(|logs| logs.get(call.namespace(), call.name(), &container)).unwrap_or_default();
    if let Some(tail) = call.query.tail_lines {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn container(pod: &Value, call: &Call) -> Result<String, Status> {
    let names = |list: &str| -> Vec<String> {
        let all = pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    let asked = &call.query.container;
    if !asked.is_empty() {
        if main.contains(asked) || init.contains(asked) {
            return Ok(asked.clone());
        }
        return Err(Status::bad_request(format!(
            "container {asked} is not valid for pod {}",
            call.name()
        )));
    }
    match &main[..] {
        [one] => Ok(one.clone()),
        many => Err(Status::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            call.name(),
            many.join(" ")
        ))),
    }
}
