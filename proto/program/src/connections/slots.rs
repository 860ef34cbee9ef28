//! How many requests are worked on at once, in all and of one source. Others wait their turn; one source with many of them makes
//! another wait no longer than a few of them take.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Source;

/// Places for requests. Copies share them.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most_per_source: usize,
    most_waiting: usize,
    all: Arc<Semaphore>,
    sources: Mutex<HashMap<Source, OfSource>>,
}

#[derive(Debug)]
struct OfSource {
    slots: Arc<Semaphore>,
    /// Requests that have a place or wait for one.
    requests: usize,
}

/// A place. Dropped, it is free.
#[derive(Debug)]
#[must_use = "the place is free when this is dropped"]
pub struct Slot {
    _of_all: OwnedSemaphorePermit,
    _of_source: OwnedSemaphorePermit,
    _request: SourceRequest,
}

/// Counts one request of a source.
#[derive(Debug)]
struct SourceRequest {
    source: Source,
    shared: Arc<Shared>,
}

/// Too many requests of the source wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests of the same source wait for their turn")]
pub struct TooMany;

// === impl Slots ===

impl Slots {
    /// So many at once, and so many of one source; that many of one source may wait besides.
    pub fn new(most: usize, most_per_source: usize, most_waiting: usize) -> Self {
        Self(Arc::new(Shared {
            most_per_source: most_per_source.min(Semaphore::MAX_PERMITS),
            most_waiting,
            all: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            sources: Mutex::default(),
        }))
    }

    /// Waits for a place: first among the requests of its source, then among all.
    pub async fn take(&self, source: Source) -> Result<Slot, TooMany> {
        let (request, slots) = self.count(source)?;
        // Neither is ever closed.
        let of_source = slots.acquire_owned().await.map_err(|_| TooMany)?;
        let of_all = Arc::clone(&self.0.all).acquire_owned().await.map_err(|_| TooMany)?;
        Ok(Slot { _of_all: of_all, _of_source: of_source, _request: request })
    }

    fn count(&self, source: Source) -> Result<(SourceRequest, Arc<Semaphore>), TooMany> {
        let Shared { most_per_source, most_waiting, sources, .. } = &*self.0;
        let mut sources = sources.lock();
        let new = || OfSource { slots: Arc::new(Semaphore::new(*most_per_source)), requests: 0 };
        let own = sources.entry(source).or_insert_with(new);
        if own.requests >= most_per_source.saturating_add(*most_waiting) {
            return Err(TooMany);
        }
        own.requests += 1;
        Ok((SourceRequest { source, shared: Arc::clone(&self.0) }, Arc::clone(&own.slots)))
    }
}

// === impl SourceRequest ===

impl Drop for SourceRequest {
    fn drop(&mut self) {
        let mut sources = self.shared.sources.lock();
        let Some(own) = sources.get_mut(&self.source) else { return };
        own.requests = own.requests.saturating_sub(1);
        if own.requests == 0 {
            sources.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn source(last: u8) -> Source {
        Source::of([10, 0, 0, last].into())
    }

    /// What comes of it at once.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_source_with_many_requests_leaves_room_for_another() {
        let slots = Slots::new(4, 2, 100);
        let first = now(slots.take(source(1))).unwrap().unwrap();
        let _second = now(slots.take(source(1))).unwrap().unwrap();
        assert!(now(slots.take(source(1))).is_none(), "it waits for its own");
        let _other = now(slots.take(source(2))).unwrap().unwrap();
        drop(first);
        assert!(now(slots.take(source(1))).is_some());
    }

    #[test]
    fn not_any_number_of_a_source_may_wait_and_one_that_is_gone_is_forgotten() {
        let slots = Slots::new(4, 1, 2);
        let held = now(slots.take(source(1))).unwrap().unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(slots.take(source(1)))).collect();
        for one in &mut waiting {
            assert!(now(one.as_mut()).is_none());
        }
        assert_eq!(now(slots.take(source(1))).unwrap().err(), Some(TooMany));
        assert!(now(slots.take(source(2))).unwrap().is_ok());
        drop(waiting);
        assert!(now(slots.take(source(1))).is_none(), "it waits");
        drop(held);
        assert!(slots.0.sources.lock().is_empty());
    }
}
