//! The HTTPS side of webhooks: what is no review.
//!
//! The API server waits `timeoutSeconds`, 5 s as shipped, and then refuses what it asked about. Whoever reaches the port must not make
//! it wait: each step of a request has a deadline well below that, and what a source may take has a limit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use muster_program::connections::{Connection, ConnectionLimits, Slots};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::bodies::Bodies;
use super::review::{self, Unanswered};
use super::{Answerer, Webhooks};
use crate::body::{self, Unread};
use crate::https;

/// No body is longer: two objects of the size that etcd takes, the old and the new one.
pub const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Requests of one source that wait for others to be answered.
const MOST_WAITING: usize = 4096;

/// What callers may do.
#[derive(Clone, Copy, Debug)]
pub struct WebhookSettings {
    /// Connections, and how long what comes on them may take.
    pub connections: ConnectionLimits,
    /// Requests that are worked on at once over all connections; others wait.
    pub most_requests: usize,
    /// Those of one source.
    pub most_requests_per_source: usize,
    /// Bytes of all bodies that are being read or worked on.
    pub most_bytes: usize,
    /// How long a request may take from its head to the answer.
    pub request: Duration,
}

struct Shared {
    webhooks: Webhooks,
    slots: Slots,
    bodies: Bodies,
}

/// Why no handler answers a request.
struct RequestError {
    code: StatusCode,
    outcome: &'static str,
    message: String,
}

// === impl Webhooks ===

impl Webhooks {
    /// Serves until stopped; requests that are there then are still answered.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        stop: CancellationToken,
    ) {
        let WebhookSettings { most_requests, most_requests_per_source, most_bytes, .. } =
            self.settings;
        let slots = Slots::new(most_requests, most_requests_per_source, MOST_WAITING);
        let shared =
            Arc::new(Shared { webhooks: self.clone(), slots, bodies: Bodies::new(most_bytes) });
        let router = Router::new().fallback(answer).with_state(shared);
        let open = &self.metrics.connections;
        https::serve(listener, tls, router, &self.connections, open, stop).await;
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let began = Instant::now();
    let Webhooks { handlers, metrics, settings, .. } = &shared.webhooks;
    let path = request.uri().path().to_owned();
    let found = handlers.get(&path);
    let label = if found.is_some() { path.as_str() } else { "other" };
    let answered = match found {
        Some(answerer) => {
            let asked = ask(&shared, answerer, &connection, request);
            timeout(settings.request, asked)
                .await
                .unwrap_or_else(|_| Err(RequestError::slow("the request took too long")))
        }
        None => Err(RequestError::new(StatusCode::NOT_FOUND, "unknown-path", "no webhook is here")),
    };
    let (response, outcome) = match answered {
        Ok((body, outcome)) => {
            (([(header::CONTENT_TYPE, "application/json")], body).into_response(), outcome)
        }
        Err(refusal) => {
            let RequestError { code, outcome, message } = refusal;
            tracing::warn!(path, outcome, "a webhook request is refused: {message}");
            let mut response = (code, format!("{message}\n")).into_response();
            if code == StatusCode::METHOD_NOT_ALLOWED {
                let post = header::HeaderValue::from_static("POST");
                response.headers_mut().insert(header::ALLOW, post);
            }
            (response, outcome)
        }
    };
    metrics.note(label, outcome, began.elapsed());
    response
}

async fn ask(
    shared: &Shared,
    answerer: &Answerer,
    connection: &Connection,
    request: Request,
) -> Result<(Vec<u8>, &'static str), RequestError> {
    if request.method() != Method::POST {
        let code = StatusCode::METHOD_NOT_ALLOWED;
        return Err(RequestError::new(code, "wrong-method", "reviews are sent with POST"));
    }
    if !is_json(request.headers()) {
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(RequestError::new(code, "wrong-type", "reviews are application/json"));
    }
    // A body that drips takes no place of others, and its connection is one of those that make room.
    let reading = shared.bodies.begin(connection.source());
    let read = read(request.into_body(), |bytes| reading.grow(bytes));
    let body = tokio::select! {
        read = timeout(connection.limits().body, read) => {
            read.unwrap_or_else(|_| Err(RequestError::slow("the body took too long")))?
        }
        () = reading.refused() => {
            let code = StatusCode::SERVICE_UNAVAILABLE;
            return Err(RequestError::new(code, "busy", "too many bodies are sent at once"));
        }
    };
    reading.finish();
    let _working = connection.working();
    let slot = shared.slots.take(connection.source()).await;
    let _slot =
        slot.map_err(|error| RequestError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error))?;
    review::ask(answerer, &body).await.map_err(|error| {
        let (code, outcome) = match error {
            Unanswered::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
            Unanswered::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        };
        RequestError::new(code, outcome, error)
    })
}

async fn read(body: Body, count: impl FnMut(usize)) -> Result<bytes::Bytes, RequestError> {
    body::read_counted(body, LARGEST_BODY, count).await.map_err(|error| match error {
        Unread::TooLarge => {
            let message = format!("a review has at most {LARGEST_BODY} bytes");
            RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        }
        Unread::Broken(error) => {
            let message = format!("the body cannot be read: {error}");
            RequestError::new(StatusCode::BAD_REQUEST, "malformed", message)
        }
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

// === impl RequestError ===

impl RequestError {
    fn new(code: StatusCode, outcome: &'static str, message: impl ToString) -> Self {
        Self { code, outcome, message: message.to_string() }
    }

    fn slow(message: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", message)
    }
}

// === impl WebhookSettings ===

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits {
                most: 4096,
                // An API server speaks HTTP/1.1 with webhooks: a connection for each request under way, 600 of them by default.
                most_per_source: 1024,
                handshake: Duration::from_secs(3),
                head: Duration::from_secs(2),
                body: Duration::from_secs(2),
                // An API server ends its own after 90 s.
                idle: Duration::from_secs(120),
                lasts: Duration::from_secs(300),
            },
            most_requests: 64,
            most_requests_per_source: 32,
            most_bytes: 64 * LARGEST_BODY,
            request: Duration::from_secs(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../../../deploy/coordinator/webhook.yaml");

    #[test]
    fn a_caller_that_takes_its_time_is_sent_away_well_before_the_api_server_gives_up() {
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        let webhooks = documents.iter().filter_map(|one| one["webhooks"].as_array()).flatten();
        let shipped = webhooks.map(|one| one["timeoutSeconds"].as_u64().unwrap()).min().unwrap();
        let shipped = Duration::from_secs(shipped);
        let WebhookSettings { connections, request, .. } = WebhookSettings::default();
        let ConnectionLimits { handshake, head, body, idle, .. } = connections;
        for step in [handshake, head, body] {
            assert!(step < shipped, "{step:?}");
        }
        assert!(request < shipped && body * 2 <= request, "the rest is for the answer");
        assert!(idle > Duration::from_secs(90), "an API server ends its idle connections itself");
    }
}
