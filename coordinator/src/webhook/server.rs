//! The HTTPS side of webhooks: who may connect for how long, and what is no review.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::review::{self, Unanswered};
use super::{Answerer, Webhooks};

/// No body is longer: two objects of the size that etcd takes, the old and the new one.
pub const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// After an error of accept, such as too many open files, it is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What callers may do.
#[derive(Clone, Debug)]
pub struct Settings {
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

/// Whether a connection has brought a request.
#[derive(Clone, Default)]
struct Useful(Arc<AtomicBool>);

/// What is said to a request that is not answered by a handler.
struct Refusal {
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
        let Settings { most_connections, most_requests, patience, .. } = self.settings;
        let room = Arc::new(Semaphore::new(most_connections.min(Semaphore::MAX_PERMITS)));
        let slots = Semaphore::new(most_requests.min(Semaphore::MAX_PERMITS));
        let shared = Arc::new(Shared { webhooks: self.clone(), slots });
        let router = Router::new().fallback(answer).with_state(shared);
        let (tls, tasks) = (TlsAcceptor::from(tls), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&listener, &room) => accepted,
            };
            let Some((socket, permit)) = accepted else { break };
            let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
            let (settings, connections) = (self.settings.clone(), self.metrics.connections.clone());
            connections.inc();
            tasks.spawn(async move {
                match timeout(settings.patience, tls.accept(socket)).await {
                    Ok(Ok(stream)) => converse(stream, router, &settings, stop).await,
                    Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
                    Err(_) => tracing::debug!("a handshake took too long"),
                }
                connections.dec();
                drop(permit);
            });
        }
        tasks.close();
        // Connections end within that time by themselves.
        let _ = timeout(patience, tasks.wait()).await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // It is never closed.
    let permit = room.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                // Without it answers are only slower.
                let _ = socket.set_nodelay(true);
                return Some((socket, permit));
            }
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// One connection, until its end.
async fn converse(
    stream: TlsStream<TcpStream>,
    router: Router,
    settings: &Settings,
    stop: CancellationToken,
) {
    let useful = Useful::default();
    let service = TowerToHyperService::new(router.layer(Extension(useful.clone())));
    // Guessing the version from the first bytes would wait for them without a limit.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.patience)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(64)
        .max_pending_accept_reset_streams(16)
        .max_header_list_size(32 * 1024);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let begun = async {
        tokio::time::sleep(settings.patience).await;
        if useful.0.load(Ordering::Relaxed) {
            tokio::time::sleep(settings.lasts.saturating_sub(settings.patience)).await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = begun => None,
        () = stop.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(settings.patience, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(useful): Extension<Useful>,
    request: Request,
) -> Response {
    useful.0.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let Webhooks { handlers, metrics, settings } = &shared.webhooks;
    let path = request.uri().path().to_owned();
    let found = handlers.get(&path);
    let label = if found.is_some() { path.as_str() } else { "other" };
    let answered = match found {
        Some(answerer) => {
            let asked = ask(&shared, answerer, request);
            timeout(settings.patience, asked).await.unwrap_or_else(|_| {
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow", "the request took too long"))
            })
        }
        None => Err(Refusal::new(StatusCode::NOT_FOUND, "unknown-path", "no webhook is here")),
    };
    let (response, outcome) = match answered {
        Ok((body, outcome)) => {
            (([(header::CONTENT_TYPE, "application/json")], body).into_response(), outcome)
        }
        Err(refusal) => {
            let Refusal { code, outcome, message } = refusal;
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
) -> Result<(Vec<u8>, &'static str), Refusal> {
    if request.method() != Method::POST {
        let code = StatusCode::METHOD_NOT_ALLOWED;
        return Err(Refusal::new(code, "wrong-method", "reviews are sent with POST"));
    }
    if !is_json(request.headers()) {
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Refusal::new(code, "wrong-type", "reviews are application/json"));
    }
    // It is never closed.
    let _slot = shared.slots.acquire().await.ok();
    let body = read(request.into_body()).await?;
    review::ask(answerer, &body).await.map_err(|error| {
        let (code, outcome) = match error {
            Unanswered::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
            Unanswered::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "panicked"),
        };
        Refusal::new(code, outcome, error)
    })
}

async fn read(body: Body) -> Result<bytes::Bytes, Refusal> {
    let too_large = || {
        let message = format!("a review has at most {LARGEST_BODY} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    };
    // Who says so beforehand need not send it.
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    let collected = Limited::new(body, LARGEST_BODY).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
        true => too_large(),
        false => {
            let message = format!("the body cannot be read: {error}");
            Refusal::new(StatusCode::BAD_REQUEST, "malformed", message)
        }
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

// === impl Refusal ===

impl Refusal {
    fn new(code: StatusCode, outcome: &'static str, message: impl ToString) -> Self {
        Self { code, outcome, message: message.to_string() }
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            most_connections: 256,
            most_requests: 64,
            patience: Duration::from_secs(10),
            lasts: Duration::from_secs(300),
        }
    }
}
