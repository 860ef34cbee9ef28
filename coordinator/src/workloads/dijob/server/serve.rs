//! Connections: how many, for how long.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DiServer;

/// After an error of accept, such as too many open files, it is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

// === impl DiServer ===

impl DiServer {
    /// Serves until stopped; requests that are there then are still answered.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let room = Arc::new(Semaphore::new(self.settings.most_connections));
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = async {
                    let slot = room.clone().acquire_owned().await;
                    (listener.accept().await, slot)
                } => accepted,
            };
            let (Ok((stream, peer)), Ok(slot)) = accepted else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            // Without it answers are only slower.
            let _ = stream.set_nodelay(true);
            let (server, stop) = (Arc::clone(&self), stop.clone());
            tasks.spawn(async move {
                server.metrics.connections.inc();
                // A listener of both families writes IPv4 as IPv6.
                server.clone().converse(stream, peer.ip().to_canonical(), stop).await;
                server.metrics.connections.dec();
                drop(slot);
            });
        }
        tasks.close();
        let _ended = tokio::time::timeout(self.settings.patience, tasks.wait()).await;
    }

    /// One connection, until its end.
    async fn converse(self: Arc<Self>, stream: TcpStream, peer: IpAddr, stop: CancellationToken) {
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.lasts)
            .max_buf_size(64 * 1024);
        let own = Arc::clone(&self);
        let service =
            hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let server = Arc::clone(&own);
                async move {
                    let answer = server.answer(request.map(Body::new), peer).await;
                    Ok::<_, std::convert::Infallible>(answer)
                }
            });
        let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = &mut served => {}
            () = stop.cancelled() => {
                served.as_mut().graceful_shutdown();
                let _ended = tokio::time::timeout(self.settings.patience, served).await;
            }
        }
    }
}
