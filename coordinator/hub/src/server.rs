//! The gRPC side: opens streams, reads them, and ends them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use muster_program::connections::{Connection, Source, Working};
use muster_proto::link::v1::link_server::{Link, LinkServer};
use muster_proto::link::{FromHub, LARGEST_MESSAGE, v1};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::accept;
use super::authenticate::AuthenticateError;
use super::queue::Queue;
use super::{Hub, Role, What, ended};

/// Streams of one node: one, another while its token changes, and what is left of broken ones.
const MOST_STREAMS: usize = 4;

/// Where callers come from that another server has let in.
const UNKNOWN: Source = Source::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// The messages to one agent.
type Outgoing = Pin<Box<dyn Stream<Item = Result<v1::FromHub, Status>> + Send>>;

/// Tells the reader of a stream that its writer is gone.
struct Writer(Arc<Queue>);

/// A stream's place among those of its node and of the hub, from the moment that its node is known.
struct StreamPermit {
    hub: Hub,
    node: String,
    _permit: OwnedSemaphorePermit,
    _working: Option<Working>,
}

// === impl Writer ===

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.gone();
    }
}

// === impl StreamPermit ===

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = self.hub.inner.streams.lock();
        if let Some(count) = streams.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.node);
            }
        }
    }
}

// === impl Hub ===

impl Hub {
    /// The service, to be put beside others.
    pub fn service(&self) -> LinkServer<Self> {
        LinkServer::new(self.clone())
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE)
    }

    /// Serves agents on a socket until it is stopped. Without TLS only for tests and loopback. Which certificate a new
    /// connection meets is up to the settings of TLS; their ALPN should be `h2`.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        let settings = &self.inner.settings;
        // No stream gets as old, see `peer::age`.
        let oldest = settings.stream_age.saturating_add(settings.stream_age / 4);
        let mut server = Server::builder()
            .max_concurrent_streams(4)
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(20)))
            .http2_max_header_list_size(32 * 1024)
            .http2_max_pending_accept_reset_streams(Some(16))
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(512 * 1024)
            // A peer that takes nothing holds its connection; this ends it.
            .max_connection_age(oldest.saturating_add(Duration::from_secs(60)))
            .max_connection_age_grace(Duration::from_secs(60));
        let hub = self.clone();
        let stopped = async move {
            stop.cancelled().await;
            hub.cut_all();
        };
        let metrics = &self.inner.metrics;
        let counts = (metrics.connections.clone(), metrics.idle_connections.clone());
        let (connections, idle) = (self.inner.connections.clone(), settings.idle_connection());
        let incoming = accept::incoming(listener, tls, connections, idle, counts);
        server.add_service(self.service()).serve_with_incoming_shutdown(incoming, stopped).await
    }

    /// What a hub that does not lead says, whoever asks: where the leader is. None if this one leads.
    fn redirect(&self) -> Option<Arc<Queue>> {
        let Role::Standby { leader } = &self.inner.state.lock().role else { return None };
        let queue = Arc::new(Queue::new(1));
        queue.fill(|outbox| outbox.redirect(leader.clone()));
        queue.finish();
        Some(queue)
    }

    /// What is said to an agent. What it says itself and nobody hears, `unheard`, ends with that.
    fn outgoing(&self, queue: Arc<Queue>, unheard: Option<Streaming<v1::FromAgent>>) -> Outgoing {
        let metrics = self.inner.metrics.clone();
        let state = (Writer(queue), unheard);
        Box::pin(futures::stream::unfold(state, move |(writer, unheard)| {
            let metrics = metrics.clone();
            async move {
                let message = writer.0.next().await?.map(|message| {
                    metrics.sent.inc();
                    if let FromHub::Chunk(chunk) = &message {
                        metrics.table_bytes.inc_by(chunk.bytes.len() as u64);
                    }
                    v1::FromHub::from(message)
                });
                Some((message, (writer, unheard)))
            }
        }))
    }

    pub(super) fn refuse(&self, status: Status, reason: &'static str) -> Status {
        self.inner.metrics.refuse_stream(reason);
        tracing::debug!(reason, "a stream is refused: {}", status.message());
        ended(status, reason)
    }

    fn permit_stream(
        &self,
        node: &str,
        connection: Option<Connection>,
    ) -> Result<StreamPermit, Status> {
        let mut streams = self.inner.streams.lock();
        let count = streams.get(node).copied().unwrap_or_default();
        if count >= MOST_STREAMS {
            let status = format!("node {node} has {count} streams already; it needs one");
            return Err(self.refuse(Status::resource_exhausted(status), "too-many-streams"));
        }
        let permit = self.inner.peers.clone().try_acquire_owned().map_err(|_| {
            self.refuse(Status::resource_exhausted("the hub has too many peers"), "hub-full")
        })?;
        streams.insert(node.to_owned(), count + 1);
        let working = connection.map(|connection| connection.working());
        Ok(StreamPermit {
            hub: self.clone(),
            node: node.to_owned(),
            _permit: permit,
            _working: working,
        })
    }

    async fn read(
        self,
        node: String,
        mut incoming: Streaming<v1::FromAgent>,
        queue: Arc<Queue>,
        permit: StreamPermit,
    ) {
        let _permit = permit;
        let mut peer = match self.greet(&node, &mut incoming, &queue).await {
            Ok(Some(peer)) => peer,
            Ok(None) => return queue.finish(),
            Err(status) => return queue.cut(status),
        };
        tracing::info!(node, session = peer.session, "agent connected");
        self.changed(&node, What::Session);
        let end = self.listen(&mut peer, &mut incoming).await;
        let closed = {
            let mut state = self.inner.state.lock();
            let closed = state.registry.close(&node, peer.session);
            if closed {
                state.queues.remove(&node);
                self.inner.metrics.peers.set(state.queues.len() as i64);
            }
            closed
        };
        tracing::info!(node, session = peer.session, "ended: {}", end.message());
        queue.cut(end);
        if closed {
            self.changed(&node, What::Session);
        }
    }
}

#[tonic::async_trait]
impl Link for Hub {
    type OpenStream = Outgoing;

    async fn open(
        &self,
        request: Request<Streaming<v1::FromAgent>>,
    ) -> Result<Response<Outgoing>, Status> {
        // Who does not lead asks nobody about tokens: whoever is led on by it shows its token there.
        if let Some(queue) = self.redirect() {
            return Ok(Response::new(self.outgoing(queue, Some(request.into_inner()))));
        }
        // None if another server serves the hub.
        let connection = request.extensions().get::<Connection>().cloned();
        let source = connection.as_ref().map_or(UNKNOWN, Connection::source);
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(|| {
            self.refuse(Status::unauthenticated("a bearer token is needed"), "token-missing")
        })?;
        let authenticated = self.inner.authenticate.authenticate(token, source).await;
        let node = authenticated.map_err(|denied| {
            let message = denied.to_string();
            let status = match denied {
                AuthenticateError::Token(_) => Status::unauthenticated(message),
                AuthenticateError::Account(_) | AuthenticateError::NoNode => {
                    Status::permission_denied(message)
                }
                AuthenticateError::Unknown(_) => Status::unavailable(message),
            };
            self.refuse(status, denied.reason())
        })?;
        let permit = self.permit_stream(&node, connection)?;
        let queue = Arc::new(Queue::new(self.inner.settings.most_orders));
        let outgoing = self.outgoing(queue.clone(), None);
        tokio::spawn(self.clone().read(node, request.into_inner(), queue, permit));
        Ok(Response::new(outgoing))
    }
}
