//! `pods/log`: what the simulated containers wrote.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt;
use http::{HeaderValue, Response, header};
use muster_objects::status::Status;
use serde_json::Value;
use tokio::sync::watch;

use crate::api::{Api, Call};
use crate::kubelet::Logs;
use crate::verb::read;

/// How often a followed log looks whether its container has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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
    if call.query.previous {
        // One log per container is kept, that of all its runs.
        return Err(Status::bad_request(format!(
            "previous terminated container {container:?} in pod {:?} not found",
            call.name()
        )));
    }
    let Some(logs) = api.logs.read().clone() else { return Ok(text(Body::empty())) };
    let place =
        Place { namespace: call.namespace().to_owned(), pod: call.name().to_owned(), container };
    let mut lines = logs.get(&place.namespace, &place.pod, &place.container);
    let seen = lines.len();
    if let Some(tail) = call.query.tail_lines {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let first = joined(&lines);
    if !call.query.follow {
        return Ok(text(Body::from(first)));
    }
    let follow = Follow { api: api.clone(), changes: logs.changes(), logs, place, seen };
    let rest = futures::stream::unfold(follow, |mut follow| async move {
        follow.next().await.map(|more| (more, follow))
    });
    let all = futures::stream::once(async move { first }).chain(rest);
    Ok(text(Body::from_stream(all.map(Ok::<_, std::convert::Infallible>))))
}

/// Which container's log.
struct Place {
    namespace: String,
    pod: String,
    container: String,
}

/// A log that is followed: it ends with the container, the pod or the server.
struct Follow {
    api: Arc<Api>,
    logs: Logs,
    changes: watch::Receiver<u64>,
    place: Place,
    seen: usize,
}

// === impl Follow ===

impl Follow {
    async fn next(&mut self) -> Option<String> {
        loop {
            let over = self.is_over();
            let Place { namespace, pod, container } = &self.place;
            let lines = self.logs.get(namespace, pod, container);
            if lines.len() > self.seen {
                let more = joined(&lines[self.seen..]);
                self.seen = lines.len();
                return Some(more);
            }
            if over {
                return None;
            }
            let stop = self.api.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Whether the container has ended or the pod is gone: no more lines will come.
    fn is_over(&self) -> bool {
        let Place { namespace, pod, container } = &self.place;
        let Some(pod) = self.api.store.get("pods", namespace, pod) else { return true };
        let status = &pod.value["status"];
        if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return true;
        }
        ["containerStatuses", "initContainerStatuses"].iter().any(|list| {
            let all = status[*list].as_array().map(Vec::as_slice).unwrap_or_default();
            let ended =
                |c: &&Value| c["name"] == **container && c["state"]["terminated"].is_object();
            all.iter().any(|c| ended(&c))
        })
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn text(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
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
