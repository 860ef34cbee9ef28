//! The door: who knocks is let in as [`Connections`] decides, and shakes hands beside the others.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use muster_program::connections::{Connection, Connections};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::connection::BoundedSocket;

/// What gRPC speaks on: a connection, with TLS around it or without.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(BoundedSocket),
    Tls(Box<TlsStream<BoundedSocket>>),
}

struct Door {
    listener: TcpListener,
    connections: Connections,
    tls: Option<TlsAcceptor>,
    /// None: it failed. They end when the door does.
    handshakes: JoinSet<Option<Wire>>,
    /// How long a connection may be of no use.
    limit: Duration,
    counts: (Gauge, Counter),
}

/// The connections of a socket, handshakes included.
pub(super) fn incoming(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    connections: Connections,
    limit: Duration,
    counts: (Gauge, Counter),
) -> impl Stream<Item = io::Result<Wire>> {
    let (tls, handshakes) = (tls.map(TlsAcceptor::from), JoinSet::new());
    let door = Door { listener, connections, tls, handshakes, limit, counts };
    futures::stream::unfold(door, |mut door| async move {
        let wire = door.next().await;
        Some((Ok(wire), door))
    })
}

// === impl Door ===

impl Door {
    async fn next(&mut self) -> Wire {
        let Self { listener, connections, tls, handshakes, limit, counts } = self;
        loop {
            let (socket, open) = tokio::select! {
                Some(done) = handshakes.join_next() => match done {
                    Ok(Some(wire)) => return wire,
                    Ok(None) | Err(_) => continue,
                },
                accepted = connections.accept(listener) => accepted,
            };
            let socket = BoundedSocket::new(socket, open, *limit, counts.clone());
            match tls.clone() {
                None => return Wire::Plain(socket),
                Some(tls) => {
                    drop(handshakes.spawn(shake(tls, socket, connections.limits().handshake)));
                }
            }
        }
    }
}

async fn shake(tls: TlsAcceptor, socket: BoundedSocket, limit: Duration) -> Option<Wire> {
    match tokio::time::timeout(limit, tls.accept(socket)).await {
        Ok(Ok(stream)) => return Some(Wire::Tls(Box::new(stream))),
        Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
        Err(_) => tracing::debug!("a handshake took longer than {limit:?}"),
    }
    None
}

// === impl Wire ===

impl Connected for Wire {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        match self {
            Self::Plain(socket) => socket.connection(),
            Self::Tls(stream) => stream.get_ref().0.connection(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
