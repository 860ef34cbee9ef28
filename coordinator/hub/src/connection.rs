//! Connections beneath streams: how long one may be of no use, and who makes room for others.
//!
//! ```text
//!   accept ──▶ BoundedSocket ──TLS──▶ HTTP/2 ──▶ open ──token is good──▶ Connection::working ──▶ stream
//!     │            └── no stream of a known node for too long, or another needs its place: reading and writing fail, and it ends
//!     └── a source with too many, or no room and nobody to make it: closed at once
//! ```

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use muster_program::connections::{Connection, OpenConnection};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// A connection that counts, and that ends when it is of no use or makes room.
#[derive(Debug)]
pub(super) struct BoundedSocket {
    socket: TcpStream,
    open: OpenConnection,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    limit: Duration,
    check: Pin<Box<Sleep>>,
    ended: Counter,
    gauge: Gauge,
}

// === impl BoundedSocket ===

impl BoundedSocket {
    /// Ends when it was of no use for this long.
    pub(super) fn new(
        socket: TcpStream,
        open: OpenConnection,
        limit: Duration,
        (gauge, ended): (Gauge, Counter),
    ) -> Self {
        gauge.inc();
        let (closed, check) =
            (Box::pin(open.closer().cancelled_owned()), Box::pin(tokio::time::sleep(limit)));
        Self { socket, open, closed, limit, check, ended, gauge }
    }

    /// What its streams know of it.
    pub(super) fn connection(&self) -> Connection {
        self.open.connection().clone()
    }

    /// An error when it has been of no use for too long or another needs its place; else its task is woken to look again.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it makes room"));
        }
        while self.check.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let next = self.open.connection().quiet_since().unwrap_or(now) + self.limit;
            if next <= now {
                self.ended.inc();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no agent speaks"));
            }
            self.check.as_mut().reset(next);
        }
        Ok(())
    }
}

impl Drop for BoundedSocket {
    fn drop(&mut self) {
        self.gauge.dec();
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
