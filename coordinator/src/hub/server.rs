//! The gRPC side: opens streams, reads them, and ends them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use muster_proto::link::v1::link_server::{Link, LinkServer};
use muster_proto::link::{
    Ack, FromAgent, FromHub, Hello, LARGEST_MESSAGE, Outcome, PROTOCOL, Welcome, v1,
};
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::authenticate::Denied;
use super::queue::Queue;
use super::{Hub, Role, What, ended};

/// The messages to one agent.
type Outgoing = Pin<Box<dyn Stream<Item = Result<v1::FromHub, Status>> + Send>>;

/// Tells the reader of a stream that its writer is gone.
struct Writer(Arc<Queue>);

/// A stream after Hello.
struct Peer {
    node: String,
    session: u64,
    queue: Arc<Queue>,
}

// === impl Writer ===

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.gone();
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

    /// Serves agents on a socket until it is stopped. Without TLS only for tests and loopback.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<ServerTlsConfig>,
        stop: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        let mut server = Server::builder()
            .max_concurrent_streams(4)
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(20)))
            .http2_max_header_list_size(32 * 1024)
            .http2_max_pending_accept_reset_streams(Some(16))
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(512 * 1024)
            // A peer that takes nothing holds its connection; this ends it.
            .max_connection_age(self.inner.settings.stream_age + Duration::from_secs(60))
            .max_connection_age_grace(Duration::from_secs(60))
            .tcp_nodelay(true);
        if let Some(tls) = tls {
            server = server.tls_config(tls.timeout(Duration::from_secs(10)))?;
        }
        let hub = self.clone();
        let stopped = async move {
            stop.cancelled().await;
            hub.cut_all();
        };
        let incoming = TcpListenerStream::new(listener);
        server.add_service(self.service()).serve_with_incoming_shutdown(incoming, stopped).await
    }

    fn refuse(&self, status: Status, reason: &'static str) -> Status {
        self.inner.metrics.refuse_stream(reason);
        tracing::debug!(reason, "a stream is refused: {}", status.message());
        ended(status, reason)
    }

    async fn read(
        self,
        node: String,
        mut incoming: Streaming<v1::FromAgent>,
        queue: Arc<Queue>,
        permit: OwnedSemaphorePermit,
    ) {
        let _permit = permit;
        let peer = match self.greet(&node, &mut incoming, &queue).await {
            Ok(Some(peer)) => peer,
            Ok(None) => return queue.finish(),
            Err(status) => return queue.cut(status),
        };
        tracing::info!(node, session = peer.session, "linked");
        self.changed(&node, What::Session);
        let end = self.listen(&peer, &mut incoming).await;
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

    /// Hears Hello and answers it. None: another hub leads, and the agent was told.
    async fn greet(
        &self,
        node: &str,
        incoming: &mut Streaming<v1::FromAgent>,
        queue: &Arc<Queue>,
    ) -> Result<Option<Peer>, Status> {
        let first = tokio::time::timeout(self.inner.settings.hello_within, incoming.message());
        let first = first
            .await
            .map_err(|_| self.refuse(Status::deadline_exceeded("no Hello came"), "no-hello"))??;
        let first = first.ok_or_else(|| Status::cancelled("the agent has left"))?;
        let FromAgent::Hello(hello) = self.check(first)? else {
            let status = Status::invalid_argument("the first message must be Hello");
            return Err(self.refuse(status, "invalid-message"));
        };
        if hello.protocol != PROTOCOL {
            let status = Status::failed_precondition(format!(
                "protocol {} is spoken here, not {}",
                PROTOCOL, hello.protocol
            ));
            return Err(self.refuse(status, "protocol-version"));
        }
        if hello.node != node {
            let status = Status::permission_denied(format!(
                "the token is bound to node {node}, and the agent speaks for another"
            ));
            return Err(self.refuse(status, "other-node"));
        }
        self.admit(hello, queue)
    }

    fn admit(&self, hello: Hello, queue: &Arc<Queue>) -> Result<Option<Peer>, Status> {
        let settings = &self.inner.settings;
        let mut state = self.inner.state.lock();
        let epoch = match &state.role {
            Role::Leader { epoch } => *epoch,
            Role::Standby { leader } => {
                queue.fill(|outbox| outbox.redirect(leader.clone()));
                return Ok(None);
            }
        };
        if !state.registry.knows(&hello.node) && state.registry.len() >= settings.most_peers {
            return Err(self.refuse(Status::resource_exhausted("too many nodes"), "hub-full"));
        }
        let node = hello.node.clone();
        let opened = state.registry.open(hello, now());
        let old = state.queues.insert(node.clone(), (opened.session, queue.clone()));
        if let Some((_, old)) = old {
            old.cut(ended(Status::aborted("a newer stream of this node has come"), "replaced"));
        }
        self.inner.metrics.peers.set(state.queues.len() as i64);
        let welcome = Welcome {
            epoch,
            version: settings.version.clone(),
            inventory: opened.inventory,
            pods: opened.pods,
            ping_every: settings.ping_every,
        };
        queue.fill(|outbox| outbox.welcome(welcome, opened.orders));
        Ok(Some(Peer { node, session: opened.session, queue: queue.clone() }))
    }

    fn check(&self, message: v1::FromAgent) -> Result<FromAgent, Status> {
        self.inner.metrics.received.inc();
        FromAgent::try_from(message).map_err(|invalid| {
            self.refuse(Status::invalid_argument(invalid.to_string()), "invalid-message")
        })
    }

    /// Hears an agent until its stream ends; says why it did.
    async fn listen(&self, peer: &Peer, incoming: &mut Streaming<v1::FromAgent>) -> Status {
        let settings = &self.inner.settings;
        let began = Instant::now();
        let mut heard = began;
        let (mut window, mut messages) = (began, 0u32);
        let mut watch = tokio::time::interval(settings.ping_every.min(settings.stalled_after) / 2);
        loop {
            let message = tokio::select! {
                () = peer.queue.closed() => return Status::cancelled("the stream is gone"),
                _ = watch.tick() => {
                    if heard.elapsed() > settings.ping_every * 3 {
                        let status = Status::deadline_exceeded("the agent says nothing any more");
                        return self.refuse(status, "silent");
                    }
                    if peer.queue.stalled() > settings.stalled_after {
                        let status = Status::resource_exhausted("the agent takes nothing any more");
                        return self.refuse(status, "slow");
                    }
                    if began.elapsed() > settings.stream_age {
                        let status = Status::unavailable("the stream is old: show the token again");
                        return ended(status, "old");
                    }
                    continue;
                }
                message = incoming.message() => match message {
                    Ok(Some(message)) => message,
                    Ok(None) => return Status::cancelled("the agent has left"),
                    Err(status) => return status,
                },
            };
            heard = Instant::now();
            let outcome = self.check(message).and_then(|message| self.hear(peer, message));
            if let Err(status) = outcome {
                return status;
            }
            messages += 1;
            if heard - window >= Duration::from_secs(1) {
                (window, messages) = (heard, 0);
            } else if messages >= settings.most_messages {
                // Whoever talks too much is heard later; the stream itself makes it wait.
                tokio::time::sleep_until(window + Duration::from_secs(1)).await;
                (window, messages) = (Instant::now(), 0);
            }
        }
    }

    fn hear(&self, peer: &Peer, message: FromAgent) -> Result<(), Status> {
        let Peer { node, session, queue } = peer;
        match message {
            FromAgent::Hello(_) => {
                let status = Status::invalid_argument("Hello is said once");
                return Err(self.refuse(status, "invalid-message"));
            }
            FromAgent::Ping(number) => queue.fill(|outbox| outbox.pong(number)),
            FromAgent::Inventory(inventory) => {
                self.inner.metrics.inventories.inc();
                let mut state = self.inner.state.lock();
                let news = state.registry.set_inventory(node, *session, *inventory);
                drop(state);
                if news {
                    self.changed(node, What::Inventory);
                }
            }
            FromAgent::Pods(change) => {
                let news = self.inner.state.lock().registry.change_pods(node, *session, change);
                match news {
                    Some(true) => self.changed(node, What::Pods),
                    Some(false) => {}
                    None => {
                        let status = Status::invalid_argument("too many pods for one node");
                        return Err(self.refuse(status, "invalid-message"));
                    }
                }
            }
            FromAgent::Ack(ack) => self.acked(peer, ack),
        }
        Ok(())
    }

    fn acked(&self, peer: &Peer, ack: Ack) {
        let Peer { node, session, queue } = peer;
        match &ack.outcome {
            Outcome::Delivered(_) => {
                self.inner.metrics.delivered.inc();
            }
            Outcome::Retired => {}
            Outcome::Refused { reason, message } => {
                self.inner.metrics.refuse_order(reason);
                tracing::info!(node, place = %ack.place, reason, "refused: {message}");
            }
        }
        {
            let mut state = self.inner.state.lock();
            if let Some(order) = state.registry.ack(node, *session, ack) {
                if let super::queue::Order::Deliver { delivery, .. } = &order {
                    queue.fill(|outbox| outbox.forget(&delivery.digest));
                }
                self.tell(&state, node, *session, order);
            }
        }
        self.changed(node, What::Tables);
    }
}

#[tonic::async_trait]
impl Link for Hub {
    type OpenStream = Outgoing;

    async fn open(
        &self,
        request: Request<Streaming<v1::FromAgent>>,
    ) -> Result<Response<Outgoing>, Status> {
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(|| {
            self.refuse(Status::unauthenticated("a bearer token is needed"), "token-missing")
        })?;
        let authenticated = self.inner.authenticate.authenticate(token).await;
        let node = authenticated.map_err(|denied| {
            let message = denied.to_string();
            let status = match denied {
                Denied::Token(_) => Status::unauthenticated(message),
                Denied::Account(_) | Denied::NoNode => Status::permission_denied(message),
                Denied::Unknown(_) => Status::unavailable(message),
            };
            self.refuse(status, denied.reason())
        })?;
        let permit = self.inner.peers.clone().try_acquire_owned().map_err(|_| {
            self.refuse(Status::resource_exhausted("the hub has too many peers"), "hub-full")
        })?;
        let queue = Arc::new(Queue::new(self.inner.settings.most_orders));
        let writer = Writer(queue.clone());
        tokio::spawn(self.clone().read(node, request.into_inner(), queue, permit));
        let metrics = self.inner.metrics.clone();
        let outgoing = futures::stream::unfold(writer, move |writer| {
            let metrics = metrics.clone();
            async move {
                let message = writer.0.next().await?.map(|message| {
                    metrics.sent.inc();
                    if let FromHub::Chunk(chunk) = &message {
                        metrics.table_bytes.inc_by(chunk.bytes.len() as u64);
                    }
                    v1::FromHub::from(message)
                });
                Some((message, writer))
            }
        });
        Ok(Response::new(Box::pin(outgoing)))
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
