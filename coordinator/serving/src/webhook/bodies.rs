//! How much memory the bodies of requests may take together, and whose reading ends when it is too much: that of the source that
//! takes most, its oldest first. A caller that sends little is never refused because others send much.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_program::connections::Source;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The bodies that are being read. Copies share them.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    most: usize,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    total: usize,
    sources: HashMap<Source, usize>,
    /// Oldest first.
    all: BTreeMap<u64, Part>,
}

/// What has come of one body.
#[derive(Debug)]
struct Part {
    source: Source,
    bytes: usize,
    is_whole: bool,
    refused: CancellationToken,
}

/// A body that is being read, or has been. Dropped, its memory is free.
#[derive(Debug)]
pub(super) struct Reading {
    id: u64,
    bodies: Bodies,
    refused: CancellationToken,
}

// === impl Bodies ===

impl Bodies {
    /// None yet; all together have at most that many bytes.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Arc::default() }
    }

    /// A caller begins to send a body.
    pub fn begin(&self, source: Source) -> Reading {
        let refused = CancellationToken::new();
        let part = Part { source, bytes: 0, is_whole: false, refused: refused.clone() };
        let mut kept = self.kept.lock();
        let id = kept.next;
        kept.next += 1;
        kept.all.insert(id, part);
        Reading { id, bodies: self.clone(), refused }
    }
}

// === impl Kept ===

impl Kept {
    fn take_back(&mut self, source: Source, bytes: usize) {
        self.total = self.total.saturating_sub(bytes);
        if let Some(own) = self.sources.get_mut(&source) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// The body to be refused: one that has not come as a whole.
    fn greediest(&self) -> Option<u64> {
        let partial = || self.all.iter().filter(|(_, part)| !part.is_whole && part.bytes > 0);
        let of = |part: &Part| self.sources.get(&part.source).copied().unwrap_or_default();
        let most = partial().map(|(_, part)| of(part)).max()?;
        partial().find(|(_, part)| of(part) == most).map(|(id, _)| *id)
    }

    fn refuse(&mut self, id: u64) {
        let Some(part) = self.all.remove(&id) else { return };
        self.take_back(part.source, part.bytes);
        part.refused.cancel();
    }
}

// === impl Reading ===

impl Reading {
    /// More of it has come. If that is too much for all, somebody's reading ends.
    pub fn grow(&self, bytes: usize) {
        let mut kept = self.bodies.kept.lock();
        let Some(part) = kept.all.get_mut(&self.id) else { return };
        part.bytes = part.bytes.saturating_add(bytes);
        let source = part.source;
        kept.total = kept.total.saturating_add(bytes);
        let own = kept.sources.entry(source).or_default();
        *own = own.saturating_add(bytes);
        while kept.total > self.bodies.most {
            let greediest = kept.greediest().unwrap_or(self.id);
            kept.refuse(greediest);
        }
    }

    /// It has come as a whole, and will be worked on.
    pub fn finish(&self) {
        if let Some(part) = self.bodies.kept.lock().all.get_mut(&self.id) {
            part.is_whole = true;
        }
    }

    /// Returns when it must not be read any further.
    pub async fn refused(&self) {
        self.refused.cancelled().await;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut kept = self.bodies.kept.lock();
        if let Some(part) = kept.all.remove(&self.id) {
            kept.take_back(part.source, part.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::of([10, 0, 0, last].into())
    }

    fn total(bodies: &Bodies) -> usize {
        bodies.kept.lock().total
    }

    #[test]
    fn whoever_takes_most_is_refused_when_it_is_too_much() {
        let bodies = Bodies::new(100);
        let (few, old, new) =
            (bodies.begin(source(1)), bodies.begin(source(2)), bodies.begin(source(2)));
        few.grow(10);
        old.grow(40);
        new.grow(40);
        // The smallest caller asks for what is no longer there.
        few.grow(20);
        assert!(old.refused.is_cancelled() && !few.refused.is_cancelled());
        assert!(!new.refused.is_cancelled());
        assert_eq!(total(&bodies), 70);
        drop((few, old, new));
        assert_eq!((total(&bodies), bodies.kept.lock().sources.len()), (0, 0));
    }

    #[test]
    fn what_has_come_as_a_whole_is_worked_on() {
        let bodies = Bodies::new(100);
        let (whole, late) = (bodies.begin(source(1)), bodies.begin(source(2)));
        whole.grow(90);
        whole.finish();
        late.grow(11);
        assert!(late.refused.is_cancelled() && !whole.refused.is_cancelled());
        assert_eq!(total(&bodies), 90);
        drop(late);
        assert_eq!(total(&bodies), 90, "it was given back once");
    }
}
