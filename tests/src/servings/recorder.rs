//! Keeps what somebody writes: every request that changes something, as it was sent.
//!
//! Reads, watches, Leases and reviews of tokens and permissions pass unseen.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

/// What is not kept: somebody who only leads, or answers for others, sends it.
const UNSEEN: [&str; 3] = ["/leases", "/tokenreviews", "/subjectaccessreviews"];

/// Keeps what is written through its clients. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<Write>>>);

/// A request that changes something.
#[derive(Clone, Debug)]
pub struct Write {
    /// The request's method.
    pub method: Method,
    /// Where, with its query.
    pub target: String,
    /// How its body is written.
    pub content_type: Option<String>,
    /// The request's body.
    pub body: Bytes,
    /// What the API server answered, as soon as it has.
    pub status: Option<u16>,
}

// === impl Recorder ===

impl Recorder {
    /// A client whose writes are kept.
    pub fn client(&self, client: Client) -> Client {
        let own = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| own.clone().pass(client.clone(), request));
        Client::new(service, namespace)
    }

    /// How many writes there were.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// All of them from this one on, in the order in which they were sent.
    pub fn since(&self, number: usize) -> Vec<Write> {
        self.0.lock().iter().skip(number).cloned().collect()
    }

    async fn pass(self, client: Client, request: Request<Body>) -> anyhow::Result<Response<Body>> {
        let path = request.uri().path();
        if request.method() == Method::GET || UNSEEN.iter().any(|unseen| path.contains(unseen)) {
            return Ok(client.send(request).await?);
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let write = Write {
            method: parts.method.clone(),
            target: parts.uri.path_and_query().map_or("", |target| target.as_str()).to_owned(),
            content_type: content_type.map(str::to_owned),
            body: body.clone(),
            status: None,
        };
        let number = {
            let mut writes = self.0.lock();
            writes.push(write);
            writes.len() - 1
        };
        let answer = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
        if let Some(write) = self.0.lock().get_mut(number) {
            write.status = Some(answer.status().as_u16());
        }
        Ok(answer)
    }
}

// === impl Write ===

impl Write {
    /// Whether it was done.
    pub fn is_done(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// What is done, as the API calls it.
    pub fn verb(&self) -> &'static str {
        let applied = self.content_type.as_deref().is_some_and(|kind| kind.contains("apply-patch"));
        match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if applied => "apply",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        }
    }

    /// The resource, with the subresource: `pods`, `modelservings/status`.
    pub fn resource(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        // /api/VERSION/… or /apis/GROUP/VERSION/…
        let rest = words.get(if words.first() == Some(&"api") { 2 } else { 3 }..).unwrap_or(&[]);
        match rest {
            ["namespaces", _, resource, _, sub, ..] => format!("{resource}/{sub}"),
            ["namespaces", _, resource, ..] => (*resource).to_owned(),
            [resource, _, sub, ..] => format!("{resource}/{sub}"),
            [resource, ..] => (*resource).to_owned(),
            [] => String::new(),
        }
    }
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(400).collect();
        write!(f, "{} {} ({:?}) {body}", self.method, self.target, self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_named_by_its_verb_and_resource() {
        let write = |method, target: &str, kind: &str| {
            let (target, content_type) = (target.to_owned(), Some(kind.to_owned()));
            let write = Write { method, target, content_type, body: Bytes::new(), status: None };
            format!("{} {}", write.verb(), write.resource())
        };
        let json = "application/json";
        let pods = "/api/v1/namespaces/default/pods?fieldManager=m";
        assert_eq!(write(Method::POST, pods, json), "create pods");
        let status = "/apis/workload.kthena.io/v1alpha1/namespaces/a/modelservings/b/status?x=y";
        let kind = "application/json-patch+json";
        assert_eq!(write(Method::PATCH, status, kind), "patch modelservings/status");
        let map = "/api/v1/namespaces/default/configmaps/a";
        assert_eq!(write(Method::PATCH, map, "application/apply-patch+yaml"), "apply configmaps");
        assert_eq!(write(Method::DELETE, "/api/v1/nodes/a", json), "delete nodes");
    }
}
