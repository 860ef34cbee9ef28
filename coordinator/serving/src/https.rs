//! HTTPS: who may connect, and for how long.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use muster_program::connections::{Connections, OpenConnection};
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long connections may take to end when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until stopped; requests that are there then are still answered. `gauge` counts connections that are open.
/// The router finds its [`muster_program::connections::Connection`] in each request, and says when the request has come as a whole.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    connections: &Connections,
    gauge: &Gauge,
    stop: CancellationToken,
) {
    let (tls, tasks) = (TlsAcceptor::from(tls), TaskTracker::new());
    loop {
        let (socket, open) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = connections.accept(&listener) => accepted,
        };
        let (tls, router, stop, gauge) = (tls.clone(), router.clone(), stop.clone(), gauge.clone());
        let handshake = connections.limits().handshake;
        gauge.inc();
        tasks.spawn(async move {
            let shaken = tokio::select! {
                shaken = timeout(handshake, tls.accept(socket)) => Some(shaken),
                () = open.closed() => None,
            };
            match shaken {
                Some(Ok(Ok(stream))) => converse(stream, &open, router, stop).await,
                Some(Ok(Err(error))) => tracing::debug!("a handshake failed: {error}"),
                Some(Err(_)) => tracing::debug!("a handshake took longer than {handshake:?}"),
                None => tracing::debug!("another connection has taken the place of a silent one"),
            }
            gauge.dec();
        });
    }
    tasks.close();
    // Connections end within that time by themselves.
    let _ = timeout(DRAIN, tasks.wait()).await;
}

/// One connection, until its end.
async fn converse(
    stream: TlsStream<TcpStream>,
    open: &OpenConnection,
    router: Router,
    stop: CancellationToken,
) {
    let (connection, limits) = (open.connection().clone(), *open.connection().limits());
    let service = TowerToHyperService::new(router.layer(Extension(connection.clone())));
    // Guessing the version from the first bytes would wait for them without a limit.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        // That of a connection between two requests, too; `overdue` ends one that brings no first request.
        .header_read_timeout(limits.idle)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(64)
        .max_pending_accept_reset_streams(16)
        .max_header_list_size(32 * 1024);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = open.closed() => return tracing::debug!("another connection has taken the place of a quiet one"),
        () = open.overdue() => {
            if !connection.has_worked() {
                return tracing::debug!("a connection has brought no request");
            }
            None
        }
        () = tokio::time::sleep(limits.lasts) => None,
        () = stop.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            served.as_mut().graceful_shutdown();
            let ending = timeout(limits.head + limits.body, served);
            tokio::select! {
                ended = ending => ended,
                () = open.closed() => return,
            }
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}
