//! Connections, before and beneath streams: how many there are, and how long one may be of no use.
//!
//! ```text
//!   accept ──▶ Connection ──TLS──▶ HTTP/2 ──▶ open ──token is good──▶ Line::used ──▶ stream
//!     │            └── no stream of a known node for too long: reading and writing fail, and it ends
//!     └── only while there is room; who comes later waits in the socket's backlog
//! ```

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tonic::Extensions;
use tonic::transport::server::Connected;

/// After an error of accept, such as too many open files, it is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A connection that counts, and that ends when it is of no use.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    line: Line,
    limit: Duration,
    check: Pin<Box<Sleep>>,
    ended: Counter,
    _open: Open,
}

/// What the streams of a connection know of it.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Mutex<Usage>>);

#[derive(Debug)]
struct Usage {
    streams: usize,
    /// Since when there are none.
    idle: Instant,
}

/// A stream of a known node. Until it is dropped, its connection is of use.
#[derive(Debug)]
pub(super) struct Used(Line);

/// Counts one connection.
#[derive(Debug)]
struct Open {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

/// The connections of a socket, at most so many at once.
pub(super) fn incoming(
    listener: TcpListener,
    most: usize,
    limit: Duration,
    (gauge, ended): (Gauge, Counter),
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    futures::stream::unfold((listener, room), move |(listener, room)| {
        let (gauge, ended) = (gauge.clone(), ended.clone());
        async move {
            // It is never closed.
            let permit = room.clone().acquire_owned().await.ok()?;
            let socket = loop {
                match listener.accept().await {
                    Ok((socket, _)) => break socket,
                    Err(error) => {
                        tracing::warn!("a connection cannot be accepted: {error}");
                        tokio::time::sleep(ACCEPT_AGAIN).await;
                    }
                }
            };
            // Without it messages are only slower.
            let _ = socket.set_nodelay(true);
            gauge.inc();
            let connection = Connection {
                socket,
                line: Line::new(),
                limit,
                check: Box::pin(tokio::time::sleep(limit)),
                ended,
                _open: Open { gauge, _permit: permit },
            };
            Some((Ok(connection), (listener, room)))
        }
    })
}

// === impl Line ===

impl Line {
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

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

// === impl Connection ===

impl Connection {
    /// An error when it has been of no use for too long; else its task is woken to look again.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.check.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let next = self.line.idle().unwrap_or(now) + self.limit;
            if next <= now {
                self.ended.inc();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no agent speaks"));
            }
            self.check.as_mut().reset(next);
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = Line;

    fn connect_info(&self) -> Line {
        self.line.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
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
