//! Packed tables on their way from the hub to a file.
//!
//! They come in parts, in order, one table at a time. A whole one stays while an order needs it, and a little
//! longer: the pods of one node share a table, and their orders come one by one.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use muster_proto::delivery::{Digest, LARGEST_PACKED};
use muster_proto::link::Chunk;

/// Above this nothing more is received until something is written.
const MOST_HELD: usize = 16 * 1024 * 1024;

/// So much is kept that nobody needs right now.
const MOST_IDLE: usize = 4 * 1024 * 1024;

/// And for so long.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Blobs {
    coming: Option<Coming>,
    /// The oldest first.
    whole: VecDeque<Whole>,
    needed: BTreeSet<Digest>,
}

#[derive(Debug)]
struct Coming {
    digest: Digest,
    size: u64,
    bytes: BytesMut,
}

#[derive(Debug)]
struct Whole {
    digest: Digest,
    packed: Bytes,
    used: Duration,
}

// === impl Blobs ===

impl Blobs {
    pub(super) fn take(&mut self, now: Duration, chunk: Chunk) -> Result<(), String> {
        let Chunk { digest, packed_size, offset, bytes, last } = chunk;
        if packed_size > LARGEST_PACKED {
            return Err(format!("a table of {packed_size} bytes; {LARGEST_PACKED} are allowed"));
        }
        let mut coming = match self.coming.take() {
            // Memory is taken as parts arrive, not as somebody claims.
            None => Coming { digest, size: packed_size, bytes: BytesMut::new() },
            Some(coming) if coming.digest == digest && coming.size == packed_size => coming,
            Some(coming) => return Err(format!("{digest} began before {} ended", coming.digest)),
        };
        if offset != coming.bytes.len() as u64 {
            let expected = coming.bytes.len();
            return Err(format!("part {offset} of {digest} came where {expected} was due"));
        }
        if offset + bytes.len() as u64 > packed_size {
            return Err(format!("{digest} is longer than its {packed_size} bytes"));
        }
        coming.bytes.extend_from_slice(&bytes);
        if last != (coming.bytes.len() as u64 == packed_size) {
            return Err(format!("the last part of {digest} is not at its end"));
        }
        if last {
            self.whole.retain(|other| other.digest != digest);
            self.whole.push_back(Whole { digest, packed: coming.bytes.freeze(), used: now });
            self.evict();
        } else {
            self.coming = Some(coming);
        }
        Ok(())
    }

    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.whole.iter().any(|whole| whole.digest == *digest)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Bytes> {
        let found = self.whole.iter().find(|whole| whole.digest == *digest);
        found.map(|whole| whole.packed.clone())
    }

    pub(super) fn held(&self) -> usize {
        let coming = self.coming.as_ref().map_or(0, |coming| coming.bytes.len());
        coming + self.whole.iter().map(|whole| whole.packed.len()).sum::<usize>()
    }

    /// Whether the needed ones leave room for another.
    pub(super) fn has_room(&self) -> bool {
        let needed = |whole: &&Whole| self.needed.contains(&whole.digest);
        let held: usize = self.whole.iter().filter(needed).map(|whole| whole.packed.len()).sum();
        held < MOST_HELD
    }

    /// Orders need these.
    pub(super) fn keep(&mut self, needed: BTreeSet<Digest>) {
        self.needed = needed;
        self.evict();
    }

    /// Its content is not what its name says; another may be sent.
    pub(super) fn forget(&mut self, digest: &Digest) {
        self.whole.retain(|whole| whole.digest != *digest);
    }

    /// What was on its way will begin anew.
    pub(super) fn new_stream(&mut self) {
        self.coming = None;
    }

    pub(super) fn tick(&mut self, now: Duration) {
        let needed = &self.needed;
        for whole in self.whole.iter_mut().filter(|whole| needed.contains(&whole.digest)) {
            whole.used = now;
        }
        self.whole.retain(|whole| now.saturating_sub(whole.used) < IDLE);
    }

    /// Drops the oldest that nobody needs. The newest always stays: its order comes next.
    fn evict(&mut self) {
        let needed = &self.needed;
        let mut idle: usize = 0;
        let mut newest = true;
        let mut kept = VecDeque::new();
        for whole in std::mem::take(&mut self.whole).into_iter().rev() {
            let free = !needed.contains(&whole.digest);
            if free {
                idle = idle.saturating_add(whole.packed.len());
            }
            if newest || !free || idle <= MOST_IDLE {
                kept.push_front(whole);
            }
            newest = false;
        }
        self.whole = kept;
    }
}
