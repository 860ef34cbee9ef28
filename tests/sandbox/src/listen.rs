//! The server on a socket: HTTP/1.1 and HTTP/2 on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::service::InProcess;
use crate::tls::Identity;

/// A client that sends its request's head slower than this is cut off.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// A bound port that serves until it is stopped.
#[derive(Debug)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

// === impl Listener ===

impl Listener {
    /// Binds a loopback port (0: any free one) and serves, over TLS if there is an identity.
    pub async fn start(
        api: Arc<Api>,
        port: u16,
        identity: Option<&Identity>,
    ) -> std::io::Result<Self> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = socket.local_addr()?;
        let stop = api.stop.child_token();
        let tls = identity.map(|identity| TlsAcceptor::from(identity.config.clone()));
        let task = tokio::spawn(accept(socket, api, tls, stop.clone()));
        Ok(Self { address, stop, task })
    }

    /// Stops listening and cuts all connections.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the listener ended badly");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(
    socket: TcpListener,
    api: Arc<Api>,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    // Dropping the set ends the connections.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let _best_effort = stream.set_nodelay(true);
        let service = TowerToHyperService::new(InProcess::new(api.clone()));
        let tls = tls.clone();
        connections.spawn(async move {
            let Some(tls) = tls else { return serve(stream, service).await };
            match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, service).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        });
    }
}

async fn serve<S>(stream: S, service: TowerToHyperService<InProcess>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection ended early");
    }
}
