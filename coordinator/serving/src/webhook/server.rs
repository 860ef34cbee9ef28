//! The HTTPS side of webhooks: what is no review.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::review::{self, Unanswered};
use super::{Answerer, Webhooks};
use crate::body::{self, Unread};
use crate::https::{self, Limits, Useful};

/// No body is longer: two objects of the size that etcd takes, the old and the new one.
pub const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// What callers may do.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Connections at once; who comes later waits.
    pub most_connections: usize,
    /// Requests at once over all connections; bodies of others are not read yet.
    pub most_requests: usize,
    /// How long a handshake, the head of a request, and a whole request may take, each.
    pub patience: Duration,
    /// How old a connection gets; then it ends after the requests that it has.
    pub lasts: Duration,
}

struct Shared {
    webhooks: Webhooks,
    slots: Semaphore,
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
        let WebhookSettings { most_connections, most_requests, patience, lasts } = self.settings;
        let slots = Semaphore::new(most_requests.min(Semaphore::MAX_PERMITS));
        let shared = Arc::new(Shared { webhooks: self.clone(), slots });
        let router = Router::new().fallback(answer).with_state(shared);
        let limits = Limits { most_connections, patience, lasts };
        https::serve(listener, tls, router, &limits, &self.metrics.connections, stop).await;
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(useful): Extension<Useful>,
    request: Request,
) -> Response {
    useful.note();
    let began = Instant::now();
    let Webhooks { handlers, metrics, settings } = &shared.webhooks;
    let path = request.uri().path().to_owned();
    let found = handlers.get(&path);
    let label = if found.is_some() { path.as_str() } else { "other" };
    let answered = match found {
        Some(answerer) => {
            let asked = ask(&shared, answerer, request);
            timeout(settings.patience, asked).await.unwrap_or_else(|_| {
                Err(RequestError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "slow",
                    "the request took too long",
                ))
            })
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
    // It is never closed.
    let _slot = shared.slots.acquire().await.ok();
    let body = read(request.into_body()).await?;
    review::ask(answerer, &body).await.map_err(|error| {
        let (code, outcome) = match error {
            Unanswered::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
            Unanswered::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        };
        RequestError::new(code, outcome, error)
    })
}

async fn read(body: Body) -> Result<bytes::Bytes, RequestError> {
    body::read(body, LARGEST_BODY).await.map_err(|error| match error {
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
}

// === impl WebhookSettings ===

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            most_connections: 256,
            most_requests: 64,
            patience: Duration::from_secs(10),
            lasts: Duration::from_secs(300),
        }
    }
}
