//! Unpacks a table while it is written: pieces in, pieces out, never the whole.
//!
//! What came over the wire is not trusted to be small: the window that a frame asks for, the size that it declares and the
//! size that it really has are bounded, and one frame is all there may be.

use std::io::{self, Read, Write};

use muster_proto::delivery::{Digest, LARGEST_TABLE};
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};

/// How far back a frame may refer: that much is in memory while it is unpacked. zstd's usual levels want 2 MiB.
pub const LARGEST_WINDOW: u64 = 8 * 1024 * 1024;

/// How much is unpacked at a time.
const PIECE: usize = 64 * 1024;

/// Why a blob cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no zstd, or a damaged one.
    #[error("the blob is not one whole zstd frame: {0}")]
    BadBlob(String),
    /// It wants more memory than it gets.
    #[error(
        "the blob's window of {0} bytes is larger than {LARGEST_WINDOW}; pack it at a lower level"
    )]
    WindowTooLarge(u64),
    /// It becomes too large.
    #[error("the table has more than {LARGEST_TABLE} bytes")]
    TooLarge,
    /// Its content is another.
    #[error("the table's digest is {found}, not {asked}")]
    DigestMismatch {
        /// What was ordered.
        asked: Digest,
        /// What came.
        found: Digest,
    },
    /// It could not be written.
    #[error("{0}")]
    Write(io::Error),
}

/// Unpacks a blob into a file and says how many bytes it has. What was written counts only if this is well.
pub fn unpack(packed: &[u8], asked: Digest, to: &mut impl Write) -> Result<u64, UnpackError> {
    let mut left = packed;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(LARGEST_WINDOW);
    decoder.init(&mut left).map_err(|error| match error {
        FrameDecoderError::WindowSizeTooBig { requested, .. } => {
            UnpackError::WindowTooLarge(requested)
        }
        other => UnpackError::BadBlob(other.to_string()),
    })?;
    if decoder.content_size() > LARGEST_TABLE {
        return Err(UnpackError::TooLarge);
    }
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut piece = vec![0; PIECE];
    let bad = |error: &dyn std::fmt::Display| UnpackError::BadBlob(error.to_string());
    loop {
        // A block has at most 128 KiB, and the window stays: no more than that is ever in memory.
        while decoder.can_collect() == 0 && !decoder.is_finished() {
            let one = BlockDecodingStrategy::UptoBlocks(1);
            decoder.decode_blocks(&mut left, one).map_err(|error| bad(&error))?;
        }
        let read = decoder.read(&mut piece).map_err(|error| bad(&error))?;
        let Some(some) = piece.get(..read).filter(|some| !some.is_empty()) else { break };
        bytes += some.len() as u64;
        if bytes > LARGEST_TABLE {
            return Err(UnpackError::TooLarge);
        }
        hasher.update(some);
        to.write_all(some).map_err(UnpackError::Write)?;
    }
    if !left.is_empty() {
        return Err(UnpackError::BadBlob(format!("{} bytes follow it", left.len())));
    }
    let found = Digest::of_hasher(hasher);
    if found != asked {
        return Err(UnpackError::DigestMismatch { asked, found });
    }
    Ok(bytes)
}
