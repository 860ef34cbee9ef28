//! Tables as they travel: packed once, whoever gets them.
//!
//! A table's lines differ in a few digits, so what LZ4 makes of one is itself a pattern that repeats: packed a second time
//! it is about a fifth as long. An agent unpacks that in little more than the time of the first pass alone.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use muster_proto::delivery::{Digest, LARGEST_PACKED, LARGEST_TABLE, SEAL, seal};
use muster_proto::link::{Chunk, LARGEST_CHUNK};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

/// A level that looks for long repeats: a fifth fewer bytes than the fastest, unpacked in half the time.
const LEVEL: u32 = 4;

/// A packed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    digest: Digest,
    packed: Bytes,
}

/// A table that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// As it is.
    #[error("the table has {0} bytes; {LARGEST_TABLE} are allowed")]
    Table(usize),
    /// As it is sent.
    #[error("the packed table has {0} bytes; {LARGEST_PACKED} are allowed")]
    Packed(usize),
    /// The packer said no.
    #[error("the table cannot be packed: {0}")]
    Unpackable(String),
}

/// Tables that somebody still holds, by content.
#[derive(Debug, Default)]
pub struct Blobs {
    known: Mutex<HashMap<Digest, Weak<Blob>>>,
}

// === impl PackError ===

impl PackError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Table(_) | Self::Packed(_) => "table-too-large",
            Self::Unpackable(_) => "table-unpackable",
        }
    }
}

// === impl Blob ===

impl Blob {
    /// Packs a table.
    pub fn pack(table: &[u8]) -> Result<Self, PackError> {
        if table.len() as u64 > LARGEST_TABLE {
            return Err(PackError::Table(table.len()));
        }
        let digest = Digest::of(table);
        let unpackable = |error: std::io::Error| PackError::Unpackable(error.to_string());
        let frame = twice(table).map_err(unpackable)?;
        let packed = [&seal(&digest, &frame), frame.as_slice()].concat();
        if packed.len() as u64 > LARGEST_PACKED {
            return Err(PackError::Packed(packed.len()));
        }
        Ok(Self { digest, packed: packed.into() })
    }

    /// Bytes under a name that need not be theirs: what a hub never sends, to test that agents notice.
    #[doc(hidden)]
    pub fn forged(digest: Digest, packed: Bytes) -> Self {
        Self { digest, packed }
    }

    /// The table.
    pub fn table(&self) -> Option<Vec<u8>> {
        let mut table = Vec::new();
        let frame = self.packed.get(SEAL..)?;
        let outer = lz4::Decoder::new(frame).ok()?;
        let inner = lz4::Decoder::new(outer).ok()?;
        inner.take(LARGEST_TABLE).read_to_end(&mut table).ok()?;
        Some(table)
    }

    /// Of the table.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What travels.
    pub fn packed(&self) -> &Bytes {
        &self.packed
    }

    /// How many bytes travel.
    pub fn packed_size(&self) -> usize {
        self.packed.len()
    }

    /// The part that begins here; shares the bytes.
    pub fn chunk(&self, offset: usize) -> Chunk {
        let offset = offset.min(self.packed.len());
        let end = offset.saturating_add(LARGEST_CHUNK).min(self.packed.len());
        Chunk {
            digest: self.digest,
            packed_size: self.packed.len() as u64,
            offset: offset as u64,
            bytes: self.packed.slice(offset..end),
            last: end == self.packed.len(),
        }
    }
}

/// The inner frame is made of blocks that an agent writes as they are, each for itself; the outer one of small blocks that
/// know the one before. An agent has one block of each in memory at a time.
fn twice(table: &[u8]) -> std::io::Result<Vec<u8>> {
    let inner = frame(table, lz4::BlockSize::Max256KB, lz4::BlockMode::Independent)?;
    frame(&inner, lz4::BlockSize::Max64KB, lz4::BlockMode::Linked)
}

fn frame(content: &[u8], size: lz4::BlockSize, mode: lz4::BlockMode) -> std::io::Result<Vec<u8>> {
    let mut packer = lz4::EncoderBuilder::new()
        .level(LEVEL)
        .block_size(size)
        .block_mode(mode)
        .checksum(lz4::ContentChecksum::NoChecksum)
        .content_size(content.len() as u64)
        .build(Vec::new())?;
    packer.write_all(content)?;
    let (frame, ended) = packer.finish();
    ended.map(|()| frame)
}

// === impl Blobs ===

impl Blobs {
    /// Packs a table unless somebody holds it packed already; counts those that it packs.
    pub fn pack(&self, table: &[u8], packed: &Counter) -> Result<Arc<Blob>, PackError> {
        if table.len() as u64 > LARGEST_TABLE {
            return Err(PackError::Table(table.len()));
        }
        let digest = Digest::of(table);
        if let Some(blob) = self.known.lock().get(&digest).and_then(Weak::upgrade) {
            return Ok(blob);
        }
        let blob = Arc::new(Blob::pack(table)?);
        packed.inc();
        let mut known = self.known.lock();
        known.retain(|_, blob| blob.strong_count() > 0);
        known.insert(digest, Arc::downgrade(&blob));
        Ok(blob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_packed_once_and_forgotten_when_nobody_holds_it() {
        let (blobs, packed) = (Blobs::default(), Counter::default());
        let one = blobs.pack(b"table", &packed).unwrap();
        assert!(Arc::ptr_eq(&one, &blobs.pack(b"table", &packed).unwrap()));
        assert_eq!(packed.get(), 1);
        drop(one);
        blobs.pack(b"other", &packed).unwrap();
        assert!(!blobs.known.lock().contains_key(&Digest::of(b"table")));
    }

    #[test]
    fn parts_make_the_whole_and_unpack_to_the_table() {
        let table: Vec<u8> =
            (0..300_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let blob = Blob::pack(&table).unwrap();
        let mut packed = Vec::new();
        loop {
            let chunk = blob.chunk(packed.len());
            assert_eq!(chunk.offset, packed.len() as u64);
            packed.extend_from_slice(&chunk.bytes);
            if chunk.last {
                break;
            }
            assert_eq!(chunk.bytes.len(), LARGEST_CHUNK);
        }
        assert!(packed.len() > 2 * LARGEST_CHUNK);
        let (sealed, frame) = packed.split_at(SEAL);
        assert_eq!(sealed, seal(&blob.digest(), frame));
        assert_eq!(blob.table().unwrap(), table);
        assert_eq!(Digest::of(&table), blob.digest());
    }

    #[test]
    fn an_empty_table_is_one_last_part() {
        let blob = Blob::pack(b"").unwrap();
        assert!(blob.chunk(0).last);
    }
}
