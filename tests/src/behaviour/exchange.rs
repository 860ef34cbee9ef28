//! One request and its answer, or one watch and its events.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use super::{case::Until, expect::text};

/// How long a watch may take to bring what the case waits for.
const WATCH_LIMIT: Duration = Duration::from_secs(20);

/// A request, all names filled in.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// All headers of the request.
    pub headers: Vec<(String, String)>,
    /// The request's body.
    pub body: Vec<u8>,
}

/// What the server answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The media type without parameters.
    pub media_type: String,
    /// The texts of the Warning headers.
    pub warnings: Vec<String>,
    /// The body: JSON, or a string if it is not JSON.
    pub body: Value,
    /// The events of a watch.
    pub events: Vec<Value>,
}

// === impl Ask ===

impl Ask {
    /// Sends the request and reads the whole answer.
    pub async fn send(&self, client: &kube::Client) -> anyhow::Result<Answer> {
        let response = self.open(client).await?;
        Answer::read(response).await
    }

    /// Sends the request and reads no more than the head of the answer.
    pub async fn open(&self, client: &kube::Client) -> anyhow::Result<Response<Body>> {
        let method = Method::from_bytes(self.method.as_bytes())?;
        let mut request = Request::builder().method(method).uri(self.path.as_str());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(self.body.clone()))?;
        client.send(request).await.with_context(|| format!("{} {}", self.method, self.path))
    }
}

// === impl Answer ===

impl Answer {
    async fn read(response: Response<Body>) -> anyhow::Result<Answer> {
        let mut answer = Answer::head(&response);
        let bytes = response.into_body().collect().await?.to_bytes();
        answer.body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        answer.settle_order();
        Ok(answer)
    }

    /// Conflicts with several managers and mistakes in a custom resource come in no order: sorted, they can be
    /// compared.
    fn settle_order(&mut self) {
        let custom = is_custom(&self.body);
        let Some(Value::Array(causes)) = self.body.pointer_mut("/details/causes") else { return };
        let conflicts = causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict");
        if conflicts || (custom && causes.len() > 1) {
            causes.sort_by_key(|cause| (text(&cause["field"]), text(&cause["message"])));
        }
    }

    fn head(response: &Response<Body>) -> Answer {
        let all =
            |name| response.headers().get_all(name).into_iter().filter_map(|v| v.to_str().ok());
        let media_type = all("content-type").next().unwrap_or_default();
        Answer {
            code: response.status().as_u16(),
            media_type: media_type.split(';').next().unwrap_or_default().to_owned(),
            warnings: all("warning").map(warning_text).collect(),
            ..Answer::default()
        }
    }

    /// Reads a watch until it has brought what the case waits for.
    pub async fn watch(
        response: Response<Body>,
        until: Until,
        count: usize,
    ) -> anyhow::Result<Answer> {
        if response.status() != 200 {
            return Answer::read(response).await;
        }
        let mut answer = Answer::head(&response);
        let collected = timeout(WATCH_LIMIT, answer.collect(response, until, count)).await;
        match collected {
            Ok(done) => done.map(|()| answer),
            Err(_) => Err(anyhow!(
                "the watch brought {} events and no end of them: {}",
                answer.events.len(),
                Value::from(answer.events.clone())
            )),
        }
    }

    async fn collect(
        &mut self,
        response: Response<Body>,
        until: Until,
        count: usize,
    ) -> anyhow::Result<()> {
        let mut stream = response.into_body().into_data_stream();
        let mut buffer = Vec::new();
        while let Some(chunk) = stream.next().await {
            buffer.extend_from_slice(&chunk?);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).context("a line of the watch")?;
                if self.take(event, until, count) {
                    return Ok(());
                }
            }
        }
        if until == Until::Count && self.events.len() < count {
            let events = Value::from(self.events.clone());
            return Err(anyhow!("the watch ended after {} events: {events}", self.events.len()));
        }
        Ok(())
    }

    /// Keeps an event; true if it was the last one. Bookmarks that come at the server's leisure are dropped.
    fn take(&mut self, event: Value, until: Until, count: usize) -> bool {
        let bookmark = event["type"] == "BOOKMARK";
        let annotations = event.pointer("/object/metadata/annotations");
        let ends_initial = bookmark
            && annotations.is_some_and(|map| map.get("k8s.io/initial-events-end").is_some());
        if !bookmark || ends_initial || until == Until::Bookmark {
            self.events.push(event);
        }
        match until {
            Until::Count => self.events.len() >= count,
            Until::InitialEventsEnd => ends_initial,
            Until::Bookmark => bookmark,
            Until::End => false,
        }
    }
}

/// Whether a Status is about a custom resource.
pub fn is_custom(status: &Value) -> bool {
    let group = status.pointer("/details/group").map(text).unwrap_or_default();
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// The text of a Warning header: `299 - "text"`.
fn warning_text(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, rest)| rest);
    text.strip_suffix('"').unwrap_or(text).replace("\\\"", "\"").replace("\\\\", "\\")
}
