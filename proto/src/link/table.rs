//! Places, deliveries and acks on the wire.

use super::reader::{Invalid, digest, part, text};
use super::{Ack, AckOutcome, LARGEST_CHUNK, v1};
use crate::delivery::{Delivered, Delivery, LARGEST_PACKED, Place};

/// Longest name of a directory entry.
const LONGEST_ENTRY: usize = 255;

/// A name that is one entry of a directory, whoever joins it to a path.
fn entry(field: &str, name: String) -> Result<String, Invalid> {
    if name.is_empty() || name.len() > LONGEST_ENTRY {
        let problem = format!("has {} bytes; 1 to {LONGEST_ENTRY} are allowed", name.len());
        return Err(Invalid::new(field, problem));
    }
    if name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(Invalid::new(field, format!("{name:?} is no name of a file or directory")));
    }
    Ok(name)
}

fn place(wire: Option<v1::Place>) -> Result<Place, Invalid> {
    part("place", wire)?.try_into().map_err(|invalid: Invalid| invalid.within("place"))
}

fn mode(mode: u32) -> Result<u32, Invalid> {
    match mode {
        0..=0o777 => Ok(mode),
        _ => Err(Invalid::new("mode", format!("is {mode:o}; 777 is the largest"))),
    }
}

// === impl Place ===

impl From<&Place> for v1::Place {
    fn from(place: &Place) -> Self {
        let Place { pod_uid, volume, file } = place.clone();
        Self { pod_uid, volume, file }
    }
}

impl TryFrom<v1::Place> for Place {
    type Error = Invalid;

    fn try_from(wire: v1::Place) -> Result<Self, Invalid> {
        Ok(Self {
            pod_uid: entry("pod_uid", wire.pod_uid)?,
            volume: entry("volume", wire.volume)?,
            file: entry("file", wire.file)?,
        })
    }
}

// === impl Delivered ===

impl From<&Delivered> for v1::Delivered {
    fn from(delivered: &Delivered) -> Self {
        Self {
            place: Some((&delivered.place).into()),
            generation: delivered.generation,
            digest: delivered.digest.as_bytes().to_vec(),
        }
    }
}

impl TryFrom<v1::Delivered> for Delivered {
    type Error = Invalid;

    fn try_from(wire: v1::Delivered) -> Result<Self, Invalid> {
        Ok(Self {
            place: place(wire.place)?,
            generation: wire.generation,
            digest: digest("digest", &wire.digest)?,
        })
    }
}

// === impl Delivery ===

impl v1::Deliver {
    /// The order of a hub of this epoch.
    pub(super) fn order(epoch: u64, delivery: &Delivery) -> Self {
        Self {
            epoch,
            place: Some((&delivery.place).into()),
            generation: delivery.generation,
            digest: delivery.digest.as_bytes().to_vec(),
            mode: delivery.mode,
            group: delivery.group,
        }
    }
}

impl TryFrom<v1::Deliver> for Delivery {
    type Error = Invalid;

    fn try_from(wire: v1::Deliver) -> Result<Self, Invalid> {
        Ok(Self {
            place: place(wire.place)?,
            generation: wire.generation,
            digest: digest("digest", &wire.digest)?,
            mode: mode(wire.mode)?,
            group: wire.group,
        })
    }
}

// === impl Retire ===

impl v1::Retire {
    /// Where, and which generation.
    pub(super) fn read(self) -> Result<(Place, u64), Invalid> {
        Ok((place(self.place)?, self.generation))
    }
}

// === impl Ack ===

impl From<&Ack> for v1::Ack {
    fn from(ack: &Ack) -> Self {
        use v1::ack::Outcome as Wire;
        let outcome = match ack.outcome.clone() {
            AckOutcome::Delivered(digest) => Wire::Delivered(digest.as_bytes().to_vec()),
            AckOutcome::Retired => Wire::Retired(true),
            AckOutcome::Refused { reason, message } => {
                Wire::Refused(v1::Refused { reason, message })
            }
        };
        Self {
            place: Some((&ack.place).into()),
            generation: ack.generation,
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<v1::Ack> for Ack {
    type Error = Invalid;

    fn try_from(wire: v1::Ack) -> Result<Self, Invalid> {
        use v1::ack::Outcome as Wire;
        let outcome = match part("outcome", wire.outcome)? {
            Wire::Delivered(bytes) => AckOutcome::Delivered(digest("delivered", &bytes)?),
            Wire::Retired(_) => AckOutcome::Retired,
            Wire::Refused(v1::Refused { reason, message }) => AckOutcome::Refused {
                reason: text("refused.reason", reason)?,
                message: text("refused.message", message)?,
            },
        };
        Ok(Self { place: place(wire.place)?, generation: wire.generation, outcome })
    }
}

// === impl Chunk ===

impl From<super::Chunk> for v1::BlobChunk {
    fn from(chunk: super::Chunk) -> Self {
        let super::Chunk { digest, packed_size, offset, bytes, last } = chunk;
        Self { digest: digest.as_bytes().to_vec(), packed_size, offset, bytes, last }
    }
}

impl TryFrom<v1::BlobChunk> for super::Chunk {
    type Error = Invalid;

    fn try_from(wire: v1::BlobChunk) -> Result<Self, Invalid> {
        let v1::BlobChunk { digest: name, packed_size, offset, bytes, last } = wire;
        if packed_size > LARGEST_PACKED {
            let problem = format!("is {packed_size}; {LARGEST_PACKED} is the largest");
            return Err(Invalid::new("packed_size", problem));
        }
        if bytes.len() > LARGEST_CHUNK {
            let problem = format!("has {} bytes; {LARGEST_CHUNK} are allowed", bytes.len());
            return Err(Invalid::new("bytes", problem));
        }
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > packed_size || last != (end == packed_size)) {
            let problem = format!("{offset} and {} bytes do not fit {packed_size}", bytes.len());
            return Err(Invalid::new("offset", problem));
        }
        Ok(Self { digest: digest("digest", &name)?, packed_size, offset, bytes, last })
    }
}
