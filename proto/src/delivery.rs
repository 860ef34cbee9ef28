//! What a table is called on its way to a pod: names, generations, digests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::device::Malformed;

/// No table is larger, unpacked. A table of 100,000 ranks has 10 MiB.
pub const LARGEST_TABLE: u64 = 64 * 1024 * 1024;

/// No table is larger on the wire.
pub const LARGEST_PACKED: u64 = 16 * 1024 * 1024;

/// Why an agent may refuse an order: every word that it says, sorted. Others are from newer agents, or from none.
pub const REASONS: &[&str] = &[
    "bad-blob",
    "bad-file",
    "bad-mode",
    "bad-uid",
    "bad-volume",
    "blob-missing",
    "busy",
    "denied",
    "digest-mismatch",
    "directory-swapped",
    "disk-full",
    "file-swapped",
    "generation-reused",
    "internal",
    "io",
    "kubelet-directory",
    "not-a-directory",
    "not-a-file",
    "not-a-member",
    "older-epoch",
    "older-generation",
    "pod-deleting",
    "quota",
    "read-only",
    "superseded",
    "symlink-in-path",
    "too-large",
    "unknown-pod",
    "volume-missing",
    "volume-not-mounted",
];

/// The SHA-256 of a table's bytes, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// A file in a volume of a pod: where a table goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Uid of the pod.
    pub pod_uid: String,
    /// Name of its emptyDir volume.
    pub volume: String,
    /// Name of the file.
    pub file: String,
}

/// A table that is where it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The pod, volume and file of the table.
    pub place: Place,
    /// Which generation of it.
    pub generation: u64,
    /// SHA-256 of the table's bytes.
    pub digest: Digest,
}

/// An order to put a table somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The pod, volume and file of the table.
    pub place: Place,
    /// Which generation; a lower one than what is there is refused.
    pub generation: u64,
    /// Its content, sent as a blob before.
    pub digest: Digest,
    /// Permissions of the file, at most 0o777.
    pub mode: u32,
    /// Group of the file (the pod's fsGroup); none: the group of the directory.
    pub group: Option<u32>,
}

/// Name of the file beside a table that holds its generation.
pub fn generation_file(file: &str) -> String {
    format!("{file}.generation")
}

/// How many bytes of what travels are its seal.
pub const SEAL: usize = 32;

/// Binds a packed table to its name: the SHA-256 of the table's digest and of the packed bytes, which follow it on the
/// wire. Whoever checks it need not hash the table itself, which is many times as long.
pub fn seal(digest: &Digest, packed: &[u8]) -> [u8; SEAL] {
    Sha256::new().chain_update(digest.0).chain_update(packed).finalize().into()
}

// === impl Digest ===

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of the bytes that a hasher has seen.
    pub fn of_hasher(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// As it is on the wire.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = Malformed;

    fn try_from(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = bytes.try_into().map_err(|_| Malformed::new("digest of 32 bytes", ""))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed::new("digest of 64 hexadecimal digits", text);
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or_else(malformed)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| malformed())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} volume {} file {}", self.pod_uid, self.volume, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_once_and_in_order() {
        assert!(REASONS.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_digest_survives_text_and_wire() {
        let digest = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::try_from(&digest.as_bytes()[..]), Ok(digest));
        assert!("ba".parse::<Digest>().is_err());
        assert!(Digest::try_from(&b"short"[..]).is_err());
    }
}
