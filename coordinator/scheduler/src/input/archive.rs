//! Takes one file out of a zip archive, which is how KAI hands out snapshots.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
/// The end record's size, and the longest comment after it.
const END_SIZE: usize = 22;
const LONGEST_COMMENT: usize = 65_535;
/// A size that stands elsewhere (zip64).
const ELSEWHERE: usize = 0xffff_ffff;

/// Why an archive cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// A record is cut off or damaged.
    #[error("it is cut off or damaged ({0}); fetch the snapshot again")]
    Damaged(&'static str),
    /// It does not hold the file.
    #[error("it holds no {0}; pack the snapshot under that name")]
    Missing(String),
    /// The file is packed in a way that is not known.
    #[error("method {0} of packing is not known; pack it with `zip`")]
    Method(u16),
    /// The file unfolds to more than is allowed.
    #[error("it unfolds to more than {0} bytes; leave out what is not asked about")]
    TooLarge(usize),
}

/// Whether bytes are a zip archive.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&LOCAL) || bytes.starts_with(&END)
}

/// The content of one file of an archive.
pub(super) fn unpack(bytes: &[u8], name: &str, limit: usize) -> Result<Vec<u8>, ArchiveError> {
    let from = bytes.len().saturating_sub(END_SIZE + LONGEST_COMMENT);
    let tail = bytes.get(from..).unwrap_or_default();
    let end = tail.windows(4).rposition(|window| window == END);
    let end = from + end.ok_or(ArchiveError::Damaged("no end record"))?;
    let (count, mut at) = (u16_at(bytes, end + 10)?, u32_at(bytes, end + 16)?);
    for _ in 0..count {
        if bytes.get(at..at.saturating_add(4)) != Some(&CENTRAL) {
            return Err(ArchiveError::Damaged("directory"));
        }
        let lengths = [u16_at(bytes, at + 28)?, u16_at(bytes, at + 30)?, u16_at(bytes, at + 32)?];
        let [name_len, extra, comment] = lengths.map(usize::from);
        let entry = at + 46;
        if bytes.get(entry..entry + name_len) == Some(name.as_bytes()) {
            return content(bytes, at, limit);
        }
        at = entry + name_len + extra + comment;
    }
    Err(ArchiveError::Missing(name.to_owned()))
}

/// The content of the file whose directory entry is at `entry`.
fn content(bytes: &[u8], entry: usize, limit: usize) -> Result<Vec<u8>, ArchiveError> {
    let method = u16_at(bytes, entry + 10)?;
    let (packed, unpacked) = (u32_at(bytes, entry + 20)?, u32_at(bytes, entry + 24)?);
    if packed == ELSEWHERE || unpacked == ELSEWHERE || unpacked > limit {
        return Err(ArchiveError::TooLarge(limit));
    }
    let local = u32_at(bytes, entry + 42)?;
    let skip = [u16_at(bytes, local.saturating_add(26))?, u16_at(bytes, local.saturating_add(28))?];
    let start = local + 30 + usize::from(skip[0]) + usize::from(skip[1]);
    let data = bytes.get(start..start.saturating_add(packed));
    let data = data.ok_or(ArchiveError::Damaged("content"))?;
    match method {
        0 => Ok(data.to_vec()),
        8 => {
            let content = decompress_to_vec_with_limit(data, unpacked);
            let content = content.map_err(|_| ArchiveError::Damaged("packed content"))?;
            (content.len() == unpacked).then_some(content).ok_or(ArchiveError::Damaged("size"))
        }
        other => Err(ArchiveError::Method(other)),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ArchiveError> {
    match bytes.get(at..at.saturating_add(2)) {
        Some(&[low, high]) => Ok(u16::from_le_bytes([low, high])),
        _ => Err(ArchiveError::Damaged("a number")),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize, ArchiveError> {
    match bytes.get(at..at.saturating_add(4)) {
        Some(&[a, b, c, d]) => usize::try_from(u32::from_le_bytes([a, b, c, d]))
            .map_err(|_| ArchiveError::Damaged("a number")),
        _ => Err(ArchiveError::Damaged("a number")),
    }
}
