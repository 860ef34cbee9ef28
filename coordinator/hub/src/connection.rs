//! Connections, before and beneath streams: how many there are, and how long one may be of no use.
//!
//! ```text
//!   accept ──▶ BoundedSocket ──TLS──▶ HTTP/2 ──▶ open ──token is good──▶ Connection::used ──▶ stream
//!     │            └── no stream of a known node for too long: reading and writing fail, and it ends
//!     └── only while there is room; who comes later waits in the socket's backlog
//! ```

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tonic::Extensions;

/// A connection that counts, and that ends when it is of no use.
#[derive(Debug)]
pub(super) struct BoundedSocket {
    socket: TcpStream,
    connection: Connection,
    limit: Duration,
    check: Pin<Box<Sleep>>,
    ended: Counter,
    _open: Open,
}

/// What the streams of a connection know of it.
#[derive(Clone, Debug)]
pub(super) struct Connection(Arc<Mutex<Usage>>);

#[derive(Debug)]
struct Usage {
    streams: usize,
    /// Since when there are none.
    idle: Instant,
}

/// A stream of a known node. Until it is dropped, its connection is of use.
#[derive(Debug)]
pub(super) struct Used(Connection);

/// Counts one connection.
#[derive(Debug)]
pub(super) struct Open {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

// === impl Connection ===

impl Connection {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Usage { streams: 0, idle: Instant::now() })))
    }

    /// The one that a request came on, with TLS or without; none if another server serves the hub.
    pub(super) fn of(request: &Extensions) -> Option<Self> {
        request.get::<Self>().cloned()
    }

    /// A stream of a known node begins.
    pub(super) fn used(&self) -> Used {
        self.0.lock().streams += 1;
        Used(self.clone())
    }

    /// Since when it has no stream.
    fn idle(&self) -> Option<Instant> {
        let usage = self.0.lock();
        (usage.streams == 0).then_some(usage.idle)
    }
}

// === impl Used ===

impl Drop for Used {
    fn drop(&mut self) {
        let mut usage = self.0.0.lock();
        usage.streams = usage.streams.saturating_sub(1);
        usage.idle = Instant::now();
    }
}

// === impl Open ===

impl Open {
    /// One more, which holds this permit.
    pub(super) fn new(gauge: Gauge, permit: OwnedSemaphorePermit) -> Self {
        gauge.inc();
        Self { gauge, _permit: permit }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

// === impl BoundedSocket ===

impl BoundedSocket {
    /// Ends when it was of no use for this long.
    pub(super) fn new(socket: TcpStream, limit: Duration, ended: Counter, open: Open) -> Self {
        let (connection, check) = (Connection::new(), Box::pin(tokio::time::sleep(limit)));
        Self { socket, connection, limit, check, ended, _open: open }
    }

    /// What its streams know of it.
    pub(super) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// An error when it has been of no use for too long; else its task is woken to look again.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.check.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let next = self.connection.idle().unwrap_or(now) + self.limit;
            if next <= now {
                self.ended.inc();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no agent speaks"));
            }
            self.check.as_mut().reset(next);
        }
        Ok(())
    }
}

impl AsyncRead for BoundedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
