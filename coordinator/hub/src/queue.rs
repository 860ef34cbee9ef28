//! What waits to be said to one peer.
//!
//! An [`Outbox`] holds orders, not bytes: a table's parts are cut when the stream asks for the next message, so a
//! peer costs the same memory whatever it is sent. A newer order for a place takes the older one's seat.
//! [`Queue`] is the same between two tasks.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_proto::delivery::{Delivery, Digest, Place};
use muster_proto::link::{FromHub, Welcome};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::blob::Blob;

/// Digests that are remembered as sent; beyond it they are sent again.
const MOST_SENT: usize = 4096;

/// An order to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Put a table somewhere.
    Deliver {
        /// What and where.
        delivery: Delivery,
        /// The table.
        blob: Arc<Blob>,
    },
    /// Take a table away.
    Retire {
        /// From where.
        place: Place,
        /// This generation and older ones.
        generation: u64,
    },
}

/// Too much waits: the peer does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} orders wait and the peer does not take them")]
pub struct QueueFull(pub usize);

/// What waits to be said.
#[derive(Debug)]
pub struct Outbox {
    epoch: u64,
    most: usize,
    first: VecDeque<FromHub>,
    pong: Option<u64>,
    sending: Option<(Arc<Blob>, usize)>,
    orders: VecDeque<Order>,
    sent: HashSet<Digest>,
}

/// An outbox between the task that fills it and the stream that empties it.
#[derive(Debug)]
pub struct Queue {
    inner: Mutex<Inner>,
    ready: Notify,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    end: Option<Status>,
    finished: bool,
    /// Since when something waits and nothing was taken.
    waits_since: Option<Instant>,
}

// === impl Order ===

impl Order {
    /// Where.
    pub fn place(&self) -> &Place {
        match self {
            Self::Deliver { delivery, .. } => &delivery.place,
            Self::Retire { place, .. } => place,
        }
    }
}

// === impl Outbox ===

impl Outbox {
    /// An empty one that holds at most so many orders.
    pub fn new(most: usize) -> Self {
        Self {
            epoch: 0,
            most,
            first: VecDeque::new(),
            pong: None,
            sending: None,
            orders: VecDeque::new(),
            sent: HashSet::new(),
        }
    }

    /// The first word, and what the peer lacks. The epoch goes with every order. The backlog does not count as
    /// slowness: it would be the same after another reconnect.
    pub fn welcome(&mut self, welcome: Welcome, backlog: Vec<Order>) {
        self.epoch = welcome.epoch;
        self.most = self.most.saturating_add(backlog.len());
        self.first.push_back(FromHub::Welcome(welcome));
        self.orders.extend(backlog);
    }

    /// The only word.
    pub fn redirect(&mut self, leader: Option<String>) {
        self.first.push_back(FromHub::Redirect(leader));
    }

    /// The answer to a ping; an answer that still waits is not needed any more.
    pub fn pong(&mut self, number: u64) {
        self.pong = Some(number);
    }

    /// An order. It takes the seat of another for the same place.
    pub fn push(&mut self, order: Order) -> Result<(), QueueFull> {
        if let Some(seat) = self.orders.iter_mut().find(|other| other.place() == order.place()) {
            *seat = order;
            return Ok(());
        }
        if self.orders.len() >= self.most {
            return Err(QueueFull(self.orders.len()));
        }
        self.orders.push_back(order);
        Ok(())
    }

    /// The peer does not have this content any more.
    pub fn forget(&mut self, digest: &Digest) {
        self.sent.remove(digest);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
            && self.pong.is_none()
            && self.sending.is_none()
            && self.orders.is_empty()
    }

    /// Whether orders wait.
    pub fn has_orders(&self) -> bool {
        self.sending.is_some() || !self.orders.is_empty()
    }

    /// What to say next.
    pub fn take(&mut self) -> Option<FromHub> {
        if let Some(message) = self.first.pop_front() {
            return Some(message);
        }
        if let Some(number) = self.pong.take() {
            return Some(FromHub::Pong(number));
        }
        if let Some((blob, offset)) = self.sending.take() {
            let chunk = blob.chunk(offset);
            if !chunk.last {
                self.sending = Some((blob, offset + chunk.bytes.len()));
            }
            return Some(FromHub::Chunk(chunk));
        }
        let epoch = self.epoch;
        match self.orders.front()? {
            Order::Deliver { blob, .. } if !self.sent.contains(&blob.digest()) => {
                if self.sent.len() >= MOST_SENT {
                    self.sent.clear();
                }
                self.sent.insert(blob.digest());
                self.sending = Some((blob.clone(), 0));
                self.take()
            }
            _ => match self.orders.pop_front()? {
                Order::Deliver { delivery, .. } => Some(FromHub::Deliver { epoch, delivery }),
                Order::Retire { place, generation } => {
                    Some(FromHub::Retire { epoch, place, generation })
                }
            },
        }
    }
}

// === impl Queue ===

impl Queue {
    /// An empty one that holds at most so many orders.
    pub fn new(most: usize) -> Self {
        let inner =
            Inner { outbox: Outbox::new(most), end: None, finished: false, waits_since: None };
        Self { inner: Mutex::new(inner), ready: Notify::new(), closed: CancellationToken::new() }
    }

    /// Puts something in, and wakes the stream.
    pub fn fill<T>(&self, fill: impl FnOnce(&mut Outbox) -> T) -> T {
        let filled = self.inner.lock().fill(fill);
        self.wake();
        filled
    }

    /// Puts an order in; the stream sees it when it is woken. For a stream that has ended it is dropped: the peer gets
    /// it when it comes back.
    pub fn push(&self, order: Order) -> Result<(), QueueFull> {
        let mut inner = self.inner.lock();
        if inner.finished {
            return Ok(());
        }
        inner.fill(|outbox| outbox.push(order))
    }

    /// Something is there to be said.
    pub fn wake(&self) {
        self.ready.notify_one();
    }

    /// Ends the stream at once; what waits is dropped.
    pub fn cut(&self, status: Status) {
        {
            let mut inner = self.inner.lock();
            inner.outbox = Outbox::new(0);
            inner.waits_since = None;
            if !inner.finished {
                inner.end = Some(status);
            }
            inner.finished = true;
        }
        self.ready.notify_one();
        self.closed.cancel();
    }

    /// Ends the stream when all is said.
    pub fn finish(&self) {
        self.inner.lock().finished = true;
        self.ready.notify_one();
    }

    /// When the stream is cut or gone.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// How long something has waited without anything being taken.
    pub fn stalled(&self) -> Duration {
        self.inner.lock().waits_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether orders wait.
    pub fn has_orders(&self) -> bool {
        self.inner.lock().outbox.has_orders()
    }

    /// The next word; waits for it. None when the stream has ended.
    pub async fn next(&self) -> Option<Result<FromHub, Status>> {
        loop {
            {
                let mut inner = self.inner.lock();
                if let Some(message) = inner.outbox.take() {
                    let waits = !inner.outbox.is_empty();
                    inner.waits_since = waits.then(Instant::now);
                    return Some(Ok(message));
                }
                if let Some(status) = inner.end.take() {
                    return Some(Err(status));
                }
                if inner.finished {
                    return None;
                }
            }
            self.ready.notified().await;
        }
    }

    /// The peer is gone.
    pub(super) fn gone(&self) {
        self.closed.cancel();
    }
}

// === impl Inner ===

impl Inner {
    fn fill<T>(&mut self, fill: impl FnOnce(&mut Outbox) -> T) -> T {
        let filled = fill(&mut self.outbox);
        if self.waits_since.is_none() && !self.outbox.is_empty() {
            self.waits_since = Some(Instant::now());
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str) -> Place {
        Place { pod_uid: "u".into(), volume: "v".into(), file: file.into() }
    }

    fn order(file: &str, generation: u64, blob: &Arc<Blob>) -> Order {
        let (digest, place) = (blob.digest(), place(file));
        let delivery = Delivery { place, generation, digest, mode: 0o644, group: None };
        Order::Deliver { delivery, blob: blob.clone() }
    }

    fn words(outbox: &mut Outbox) -> Vec<String> {
        let word = |message| match message {
            FromHub::Chunk(chunk) => {
                format!("chunk {}{}", chunk.offset, if chunk.last { " last" } else { "" })
            }
            FromHub::Deliver { delivery, .. } => {
                format!("deliver {} {}", delivery.place.file, delivery.generation)
            }
            FromHub::Retire { place, generation, .. } => {
                format!("retire {} {generation}", place.file)
            }
            FromHub::Pong(number) => format!("pong {number}"),
            other => format!("{other:?}"),
        };
        std::iter::from_fn(|| outbox.take()).map(word).collect()
    }

    #[test]
    fn a_content_goes_once_before_the_first_order_that_needs_it() {
        let blob = Arc::new(Blob::forged(Digest::of(b"x"), vec![7; 100_000].into()));
        let mut outbox = Outbox::new(8);
        outbox.push(order("a", 1, &blob)).unwrap();
        outbox.push(order("b", 1, &blob)).unwrap();
        outbox.pong(4);
        outbox.pong(5);
        assert_eq!(
            words(&mut outbox),
            ["pong 5", "chunk 0", "chunk 65536 last", "deliver a 1", "deliver b 1"]
        );
        outbox.push(order("c", 1, &blob)).unwrap();
        assert_eq!(words(&mut outbox), ["deliver c 1"]);
        outbox.forget(&blob.digest());
        outbox.push(order("c", 2, &blob)).unwrap();
        assert_eq!(words(&mut outbox).len(), 3);
    }

    #[test]
    fn a_newer_order_takes_the_seat_of_an_older_one() {
        let (old, new) =
            (Arc::new(Blob::pack(b"old").unwrap()), Arc::new(Blob::pack(b"new").unwrap()));
        let mut outbox = Outbox::new(2);
        outbox.push(order("a", 1, &old)).unwrap();
        outbox.push(order("b", 1, &new)).unwrap();
        outbox.push(order("a", 2, &new)).unwrap();
        assert_eq!(outbox.push(order("c", 1, &new)), Err(QueueFull(2)));
        outbox.push(Order::Retire { place: place("b"), generation: 1 }).unwrap();
        assert_eq!(words(&mut outbox), ["chunk 0 last", "deliver a 2", "retire b 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_seen_to_stall() {
        let queue = Queue::new(2);
        assert_eq!(queue.stalled(), Duration::ZERO);
        queue.fill(|outbox| outbox.pong(1));
        queue.push(Order::Retire { place: place("a"), generation: 1 }).unwrap();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(queue.stalled(), Duration::from_secs(5));
        queue.next().await.unwrap().unwrap();
        assert_eq!(queue.stalled(), Duration::ZERO);
        queue.cut(Status::aborted("slow"));
        assert!(queue.next().await.unwrap().is_err());
        assert!(queue.next().await.is_none());
        queue.push(Order::Retire { place: place("a"), generation: 1 }).unwrap();
        assert_eq!(queue.stalled(), Duration::ZERO);
    }
}
