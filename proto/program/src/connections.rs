//! Who may connect to a listener: how many connections it has, in all and of one source, for how long, and which one ends when there
//! are too many.
//!
//! ```text
//!   accept ──address──▶ Connections::admit ──▶ OpenConnection, until it is dropped or closed()
//!                          │ full: another connection that is quiet is closed, and the newcomer is let in
//!                          └ full, and all others work: the newcomer is closed at once
//! ```
//!
//! It is decided at accept, before TLS. Nobody waits for a place: a queue behind silent callers is what an attacker wants.
//! A connection is quiet until a request has come as a whole, and again when that is answered: see [`Connection::working`].

mod slots;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use slots::{Slot, Slots, TooMany};
pub use source::Source;
use table::{Id, Refused, Table};

/// After an error of accept, such as too many open files, it is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Why connections are closed or refused.
const REASONS: [&str; 3] = ["source-full", "listener-full", "quiet"];

/// What callers of one listener may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once, handshakes included.
    pub most: usize,
    /// Those of one source at once.
    pub most_per_source: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a connection's first request may take.
    pub head: Duration,
    /// How long the whole body of a request may take after its head.
    pub body: Duration,
    /// How long a connection may be quiet after a request, the head of the next one included.
    pub idle: Duration,
    /// How old a connection gets; then it ends after the requests that it has.
    pub lasts: Duration,
}

/// The connections of one listener. Copies share them.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ConnectionLimits,
    known: Mutex<Known>,
    closed: Family<CloseReason, Counter>,
}

#[derive(Debug)]
struct Known {
    table: Table,
    closers: HashMap<Id, CancellationToken>,
}

/// Why a connection was closed by its listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CloseReason {
    /// `source-full`, `listener-full` or `quiet`.
    pub reason: &'static str,
}

/// A connection that was let in. Dropped, it makes room.
#[derive(Debug)]
pub struct OpenConnection {
    connection: Connection,
    closer: CancellationToken,
}

/// What the requests of a connection know of it.
#[derive(Clone, Debug)]
pub struct Connection {
    id: Id,
    source: Source,
    usage: Arc<Mutex<Usage>>,
    shared: Arc<Shared>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Requests that have come as a whole and are not answered yet.
    working: usize,
    /// Whether there was one.
    has_worked: bool,
    /// Since when there is none.
    quiet_since: Instant,
}

/// A request that has come as a whole. Until it is dropped, nobody closes its connection to make room.
#[derive(Debug)]
#[must_use = "the connection works as long as this is kept"]
pub struct Working(Connection);

// === impl Connections ===

impl Connections {
    /// None yet.
    pub fn new(limits: ConnectionLimits) -> Self {
        let table = Table::new(limits.most, limits.most_per_source);
        let closed = Family::<CloseReason, Counter>::default();
        // All of them are shown from the beginning.
        for reason in REASONS {
            drop(closed.get_or_create(&CloseReason { reason }));
        }
        let known = Mutex::new(Known { table, closers: HashMap::new() });
        Self(Arc::new(Shared { limits, known, closed }))
    }

    /// What callers may do.
    pub fn limits(&self) -> &ConnectionLimits {
        &self.0.limits
    }

    /// Connections that this listener closed so that others have room, by reason.
    pub fn closed(&self) -> Family<CloseReason, Counter> {
        self.0.closed.clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.known.lock().table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a connection in, if need be in the place of a quiet one. None: close it.
    pub fn admit(&self, source: Source) -> Option<OpenConnection> {
        let mut known = self.0.known.lock();
        let admitted = match known.table.admit(source) {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.0.count(refused.reason());
                return None;
            }
        };
        if let Some(closer) = admitted.closes.and_then(|id| known.closers.remove(&id)) {
            self.0.count("quiet");
            closer.cancel();
        }
        let closer = CancellationToken::new();
        known.closers.insert(admitted.id, closer.clone());
        drop(known);
        let usage = Usage { working: 0, has_worked: false, quiet_since: Instant::now() };
        let (usage, shared) = (Arc::new(Mutex::new(usage)), Arc::clone(&self.0));
        Some(OpenConnection {
            connection: Connection { id: admitted.id, source, usage, shared },
            closer,
        })
    }

    /// The next caller of a listener that is let in. Nobody is lost when this is dropped before it returns.
    pub async fn accept(&self, listener: &TcpListener) -> (TcpStream, OpenConnection) {
        loop {
            // A listener that is never out of callers would let in one after the other before any of them is read.
            tokio::task::yield_now().await;
            match listener.accept().await {
                Ok((socket, address)) => {
                    let Some(open) = self.admit(Source::of(address.ip())) else { continue };
                    // Without it answers are only slower.
                    let _ = socket.set_nodelay(true);
                    return (socket, open);
                }
                Err(error) => {
                    tracing::warn!("a connection cannot be accepted: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    fn count(&self, reason: &'static str) {
        self.closed.get_or_create(&CloseReason { reason }).inc();
    }
}

// === impl Refused ===

impl Refused {
    /// Why, for metrics.
    fn reason(self) -> &'static str {
        match self {
            Self::Source => "source-full",
            Self::Listener => "listener-full",
        }
    }
}

// === impl OpenConnection ===

impl OpenConnection {
    /// What its requests know of it.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns when another connection has taken its place: whoever serves it must drop its socket.
    pub async fn closed(&self) {
        self.closer.cancelled().await;
    }

    /// The same, for whoever polls.
    pub fn closer(&self) -> CancellationToken {
        self.closer.clone()
    }

    /// Returns when the connection has been quiet for too long: for a first request, as long as its head and body may take.
    pub async fn overdue(&self) {
        let limits = &self.connection.shared.limits;
        loop {
            let Usage { working, has_worked, quiet_since } = *self.connection.usage.lock();
            let patience = if has_worked { limits.idle } else { limits.head + limits.body };
            let since = if working > 0 { Instant::now() } else { quiet_since };
            if since + patience <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(since + patience).await;
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let Connection { id, shared, .. } = &self.connection;
        let mut known = shared.known.lock();
        known.closers.remove(id);
        known.table.remove(*id);
    }
}

// === impl Connection ===

impl Connection {
    /// Where it comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// What callers of its listener may do.
    pub fn limits(&self) -> &ConnectionLimits {
        &self.shared.limits
    }

    /// Whether a request has ever come as a whole.
    pub fn has_worked(&self) -> bool {
        self.usage.lock().has_worked
    }

    /// Since when it has nothing to do; none if it works.
    pub fn quiet_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.working == 0).then_some(usage.quiet_since)
    }

    /// A request has come as a whole, and is worked on until what is returned is dropped.
    pub fn working(&self) -> Working {
        let mut usage = self.usage.lock();
        usage.working += 1;
        usage.has_worked = true;
        if usage.working == 1 {
            self.shared.known.lock().table.set_working(self.id);
        }
        Working(self.clone())
    }
}

// === impl Working ===

impl Drop for Working {
    fn drop(&mut self) {
        let Connection { id, usage, shared, .. } = &self.0;
        let mut usage = usage.lock();
        usage.working = usage.working.saturating_sub(1);
        if usage.working == 0 {
            usage.quiet_since = Instant::now();
            shared.known.lock().table.set_idle(*id);
        }
    }
}
