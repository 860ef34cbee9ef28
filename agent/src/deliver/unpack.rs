//! Unpacks a table while it is written: pieces in, pieces out, never the whole.
//!
//! What travels is a seal and one LZ4 frame. The seal says that these are the bytes that the coordinator packed from the
//! table of this digest; it is checked before anything is unpacked. What came is still not trusted to be small: the size
//! that it says and the size that it has are bounded, a piece is in memory at a time, and one frame is all there may be.

use std::io::{self, BufRead, Write};

use lz4_flex::frame::FrameDecoder;
use muster_proto::delivery::{Digest, LARGEST_TABLE, SEAL, seal};

/// Why a blob cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no LZ4, or a damaged one.
    #[error("the blob is not one whole LZ4 frame behind a seal: {0}")]
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
    let bad = |error: &dyn std::fmt::Display| UnpackError::BadBlob(error.to_string());
    let Some((sealed, packed)) = blob.split_at_checked(SEAL) else {
        return Err(bad(&format!("it has {} bytes", blob.len())));
    };
    if *sealed != seal(&asked, packed) {
        return Err(UnpackError::DigestMismatch { asked });
    }
    // LZ4 does not say the size of nothing.
    let size = declared(packed).unwrap_or(0);
    if size > LARGEST_TABLE {
        return Err(UnpackError::TooLarge);
    }
    let mut decoder = FrameDecoder::new(packed);
    let mut bytes = 0;
    loop {
        let piece = decoder.fill_buf().map_err(|error| bad(&error))?;
        let read = piece.len();
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if bytes > size {
            return Err(bad(&format!("it has more than the {size} bytes that it says")));
        }
        to.write_all(piece).map_err(UnpackError::Write)?;
        decoder.consume(read);
    }
    let left = decoder.into_inner();
    if !left.is_empty() {
        return Err(bad(&format!("{} bytes follow it", left.len())));
    }
    // The decoder does not ask for the end.
    if bytes != size || !packed.ends_with(&END) {
        return Err(bad(&format!("it ends after {bytes} of {size} bytes")));
    }
    Ok(bytes)
}

/// The last bytes of a frame.
const END: [u8; 4] = [0; 4];

/// The size that a frame says it has: behind four bytes of magic, one of flags and one of limits, if the flags say so.
fn declared(frame: &[u8]) -> Option<u64> {
    let flags = frame.get(4)?;
    let size = frame.get(6..14)?.try_into().ok()?;
    (flags & 0b1000 != 0).then(|| u64::from_le_bytes(size))
}
