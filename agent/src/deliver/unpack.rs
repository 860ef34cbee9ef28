//! Unpacks a table while it is written: pieces in, pieces out, never the whole.
//!
//! What travels is a seal and one LZ4 frame in another. The seal says that these are the bytes that the coordinator packed
//! from the table of this digest; it is checked before anything is unpacked. What came is still not trusted to be small:
//! the size that it says and the size that it has are bounded, a piece of each frame is in memory at a time, and one frame
//! in one frame is all there may be.

use std::io::{self, BufRead, Read, Write};

use lz4_flex::frame::FrameDecoder;
use muster_proto::delivery::{Digest, LARGEST_TABLE, SEAL, seal};

/// Why a blob cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no LZ4, or a damaged one.
    #[error("the blob is not one whole LZ4 frame in another behind a seal: {0}")]
    BadBlob(String),
    /// It becomes too large.
    #[error("the table has more than {LARGEST_TABLE} bytes")]
    TooLarge,
    /// Its content is another.
    #[error("the blob is not that of the table {asked}, or it was damaged on its way")]
    DigestMismatch {
        /// What was ordered.
        asked: Digest,
    },
    /// It could not be written.
    #[error("{0}")]
    Write(io::Error),
}

/// Unpacks a blob into a file and says how many bytes it has. What was written counts only if this is well.
pub fn unpack(blob: &[u8], asked: Digest, to: &mut impl Write) -> Result<u64, UnpackError> {
    let Some((sealed, packed)) = blob.split_at_checked(SEAL) else {
        return Err(bad(format!("it has {} bytes", blob.len())));
    };
    if *sealed != seal(&asked, packed) {
        return Err(UnpackError::DigestMismatch { asked });
    }
    if is_whole(packed) != Some(true) {
        return Err(bad("it has no end, or something follows it"));
    }
    let mut outer = FrameDecoder::new(packed);
    let mut head = Vec::with_capacity(HEAD);
    outer.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(bad)?;
    if head.len() < SHORTEST {
        return Err(bad(format!("the inner frame has {} bytes", head.len())));
    }
    // LZ4 does not say the size of nothing.
    let size = declared(&head).unwrap_or(0);
    if size > LARGEST_TABLE {
        return Err(UnpackError::TooLarge);
    }
    let mut inner = FrameDecoder::new(head.as_slice().chain(outer));
    let mut bytes = 0;
    loop {
        let piece = inner.fill_buf().map_err(bad)?;
        let read = piece.len();
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if bytes > size {
            return Err(bad(format!("it has more than the {size} bytes that it says")));
        }
        to.write_all(piece).map_err(UnpackError::Write)?;
        inner.consume(read);
    }
    if bytes != size {
        return Err(bad(format!("it ends after {bytes} of {size} bytes")));
    }
    if inner.into_inner().read(&mut [0]).map_err(bad)? > 0 {
        return Err(bad("something follows the inner frame"));
    }
    Ok(bytes)
}

fn bad(what: impl ToString) -> UnpackError {
    UnpackError::BadBlob(what.to_string())
}

/// The longest head of a frame that says its size and names no dictionary.
const HEAD: usize = 15;

/// The shortest frame: one of nothing, with its end.
const SHORTEST: usize = 11;

/// The size that a frame says it has: behind four bytes of magic, one of flags and one of limits, if the flags say so.
fn declared(frame: &[u8]) -> Option<u64> {
    let flags = frame.get(4)?;
    let size = frame.get(6..14)?.try_into().ok()?;
    (flags & 0b1000 != 0).then(|| u64::from_le_bytes(size))
}

/// Whether these bytes are one frame with its end, which the decoder does not ask for: a head, blocks behind their
/// lengths, one of no length.
fn is_whole(frame: &[u8]) -> Option<bool> {
    let flags = *frame.get(4)?;
    let part = |bit: u8, length: usize| if flags & bit == 0 { 0 } else { length };
    let mut at = 7 + part(0b1000, 8) + part(0b1, 4);
    loop {
        let length: [u8; 4] = frame.get(at..at.checked_add(4)?)?.try_into().ok()?;
        at += 4;
        match u32::from_le_bytes(length) {
            0 => break,
            // The first bit says that the block is as it was.
            length => at += usize::try_from(length & 0x7fff_ffff).ok()? + part(0b1_0000, 4),
        }
    }
    Some(at + part(0b100, 4) == frame.len())
}
