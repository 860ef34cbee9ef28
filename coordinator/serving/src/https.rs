//! HTTPS: who may connect, and for how long.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// After an error of accept, such as too many open files, it is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What callers may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; who comes later waits.
    pub most_connections: usize,
    /// How long a handshake and the head of a request may take, each, and the end of a connection.
    pub patience: Duration,
    /// How old a connection gets; then it ends after the requests that it has.
    pub lasts: Duration,
}

/// Whether a connection has brought a request. The router finds it in each request.
#[derive(Clone, Default)]
pub struct Useful(Arc<AtomicBool>);

/// Serves until stopped; requests that are there then are still answered. `connections` counts those that are open.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    limits: &Limits,
    connections: &Gauge,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.most_connections.min(Semaphore::MAX_PERMITS)));
    let (tls, tasks) = (TlsAcceptor::from(tls), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((socket, permit)) = accepted else { break };
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        let (limits, connections) = (limits.clone(), connections.clone());
        connections.inc();
        tasks.spawn(async move {
            match timeout(limits.patience, tls.accept(socket)).await {
                Ok(Ok(stream)) => converse(stream, router, &limits, stop).await,
                Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
                Err(_) => tracing::debug!("a handshake took too long"),
            }
            connections.dec();
            drop(permit);
        });
    }
    tasks.close();
    // Connections end within that time by themselves.
    let _ = timeout(limits.patience, tasks.wait()).await;
}

// === impl Useful ===

impl Useful {
    /// The connection has carried a request.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
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
    limits: &Limits,
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
        .header_read_timeout(limits.patience)
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
        tokio::time::sleep(limits.patience).await;
        if useful.0.load(Ordering::Relaxed) {
            tokio::time::sleep(limits.lasts.saturating_sub(limits.patience)).await;
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
            timeout(limits.patience, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}
