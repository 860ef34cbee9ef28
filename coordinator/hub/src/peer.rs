//! One agent's stream, from Hello to its end.

use std::sync::Arc;
use std::time::Duration;

use muster_proto::link::{
    Ack, AckOutcome, FromAgent, Hello, PROTOCOL, Welcome, inventory_digest, v1,
};
use prost::Message as _;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::pace::Pace;
use super::queue::{Order, Queue};
use super::registry::Pods;
use super::{Hub, Role, What, ended};

/// Orders that are said again at once; the others wait for the next ping.
const RETRIES: usize = 256;

/// A stream after Hello.
pub(super) struct Peer {
    pub(super) node: String,
    pub(super) session: u64,
    queue: Arc<Queue>,
    /// When orders were said again.
    retried: Option<Instant>,
}

// === impl Hub ===

impl Hub {
    /// Hears Hello and answers it. None: another hub leads, and the agent was told.
    pub(super) async fn greet(
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
        let (session, queue) = (opened.session, queue.clone());
        Ok(Some(Peer { node, session, queue, retried: None }))
    }

    fn check(&self, message: v1::FromAgent) -> Result<FromAgent, Status> {
        self.inner.metrics.received.inc();
        FromAgent::try_from(message).map_err(|invalid| {
            self.refuse(Status::invalid_argument(invalid.to_string()), "invalid-message")
        })
    }

    /// Hears an agent until its stream ends; says why it did.
    pub(super) async fn listen(
        &self,
        peer: &mut Peer,
        incoming: &mut Streaming<v1::FromAgent>,
    ) -> Status {
        let settings = &self.inner.settings;
        let began = Instant::now();
        let oldest = age(settings.stream_age, peer.session);
        let mut received = began;
        let mut pace = Pace::new(settings.most_messages, settings.most_bytes, began);
        let mut watch = tokio::time::interval(settings.ping_every.min(settings.stalled_after) / 2);
        let gone = || Status::cancelled("the stream is gone");
        loop {
            let message = tokio::select! {
                () = peer.queue.closed() => return gone(),
                _ = watch.tick() => {
                    if received.elapsed() > settings.ping_every * 3 {
                        let status = Status::deadline_exceeded("the agent says nothing any more");
                        return self.refuse(status, "silent");
                    }
                    if peer.queue.stalled() > settings.stalled_after {
                        let status = Status::resource_exhausted("the agent takes nothing any more");
                        return self.refuse(status, "slow");
                    }
                    if began.elapsed() > oldest {
                        let status = Status::unavailable("the stream is old: show the token again");
                        return ended(status, "renew");
                    }
                    continue;
                }
                message = incoming.message() => match message {
                    Ok(Some(message)) => message,
                    Ok(None) => return Status::cancelled("the agent has left"),
                    Err(status) => return status,
                },
            };
            received = Instant::now();
            let bytes = message.encoded_len();
            let outcome = self.check(message).and_then(|message| self.receive(peer, message));
            if let Err(status) = outcome {
                return status;
            }
            // Whoever talks too much is heard later; the stream itself makes it wait.
            if let Some(until) = pace.received(received, bytes) {
                tokio::select! {
                    () = peer.queue.closed() => return gone(),
                    () = tokio::time::sleep_until(until) => {}
                }
                // It was not the agent that was silent.
                received = Instant::now();
            }
        }
    }

    fn receive(&self, peer: &mut Peer, message: FromAgent) -> Result<(), Status> {
        let Peer { node, session, queue, .. } = peer;
        match message {
            FromAgent::Hello(_) => {
                let status = Status::invalid_argument("Hello is said once");
                return Err(self.refuse(status, "invalid-message"));
            }
            FromAgent::Ping(number) => {
                queue.fill(|outbox| outbox.pong(number));
                self.retry(peer);
            }
            // What names an inventory or pods is computed here, where nobody else waits for it.
            FromAgent::Inventory(inventory) => {
                self.inner.metrics.inventories.inc();
                let digest = inventory_digest(&inventory);
                let inventory = Arc::new(*inventory);
                let mut state = self.inner.state.lock();
                let news = state.registry.set_inventory(node, *session, inventory, digest);
                drop(state);
                if news {
                    self.changed(node, What::Inventory);
                }
            }
            FromAgent::Pods(change) => {
                // Only this stream changes them meanwhile, unless another replaces it; then it is not heard.
                let before = self.inner.state.lock().registry.pods_before(node, *session);
                let Some(pods) = Pods::after(before.as_ref(), change) else {
                    let status = Status::invalid_argument("too many pods for one node");
                    return Err(self.refuse(status, "invalid-message"));
                };
                let news = self.inner.state.lock().registry.set_pods(node, *session, pods);
                if news {
                    self.changed(node, What::Pods);
                }
            }
            FromAgent::Ack(ack) => self.acked(peer, ack),
        }
        Ok(())
    }

    /// Says again what was refused for a reason that may be gone, but not as often as an agent likes to ping.
    fn retry(&self, peer: &mut Peer) {
        let Peer { node, session, queue, retried } = peer;
        if retried.is_some_and(|at| at.elapsed() < self.inner.settings.ping_every / 2)
            || queue.has_orders()
        {
            return;
        }
        *retried = Some(Instant::now());
        let mut state = self.inner.state.lock();
        let most = self.inner.settings.most_orders.min(RETRIES);
        for order in state.registry.retry(node, *session, most) {
            self.tell(&state, node, *session, order);
        }
    }

    fn acked(&self, peer: &Peer, ack: Ack) {
        let Peer { node, session, queue, .. } = peer;
        match &ack.outcome {
            AckOutcome::Delivered(_) => {
                self.inner.metrics.delivered.inc();
            }
            AckOutcome::Retired => {}
            AckOutcome::Refused { reason, message } => {
                self.inner.metrics.refuse_order(reason);
                tracing::info!(node, place = %ack.place, reason, "refused: {message}");
            }
        }
        {
            let mut state = self.inner.state.lock();
            if let Some(order) = state.registry.ack(node, *session, ack) {
                if let Order::Deliver { delivery, .. } = &order {
                    queue.fill(|outbox| outbox.forget(&delivery.digest));
                }
                self.tell(&state, node, *session, order);
            }
        }
        self.changed(node, What::Tables);
    }
}

/// How old a stream may get: four to six fifths of what is set, so that agents that came together leave one by one.
pub(super) fn age(set: Duration, session: u64) -> Duration {
    // Multiples of the golden ratio lie evenly on a circle, however many there are.
    let share = session.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    let fifth = set / 5;
    let step = fifth.saturating_mul(2) / (1 << 16);
    let more = step.saturating_mul(u32::try_from(share).unwrap_or_default());
    fifth.saturating_mul(4).saturating_add(more)
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_began_together_do_not_end_together() {
        let set = Duration::from_secs(3600);
        let mut ages: Vec<_> = (1..=1000).map(|session| age(set, session)).collect();
        ages.sort();
        assert!(ages[0] >= set * 4 / 5 && ages[999] <= set * 6 / 5, "{ages:?}");
        // A thousand in 24 minutes: never more than a handful in the same ten seconds.
        let crowd = |from: &Duration| {
            ages.iter()
                .filter(|age| (*from..*from + Duration::from_secs(10)).contains(*age))
                .count()
        };
        assert!(ages.iter().map(crowd).max() < Some(16));
    }
}
