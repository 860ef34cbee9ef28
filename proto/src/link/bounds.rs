//! Counts the entries of a message's lists before they are made.
//!
//! An empty entry has two bytes on the wire and hundreds in memory: a message of 4 MiB could become a gigabyte. So the
//! bytes are walked first, and nothing is decoded that has more entries than are allowed.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

use super::reader::Invalid;
use super::{
    MOST_ADDRESSES, MOST_DEVICES, MOST_HELD, MOST_LINKS, MOST_NICS, MOST_PARTS, MOST_PODS,
    MOST_TABLES, v1,
};

/// A list of a message: the fields that lead to it from outside, its name, and how many entries it may have in the
/// whole message.
type List = (&'static [u32], &'static str, usize);

/// A message with lists.
pub(super) trait Bounded: Message + Default {
    /// The lists of a message, and how long each may be.
    const LISTS: &'static [List];
}

impl Bounded for v1::Hello {
    const LISTS: &'static [List] = &[(&[8], "delivered", MOST_TABLES)];
}

impl Bounded for v1::Inventory {
    const LISTS: &'static [List] = &[
        (&[2], "drivers", MOST_PARTS),
        (&[3], "devices", MOST_DEVICES),
        (&[3, 23], "devices.mig", 8 * MOST_DEVICES),
        (&[4], "nics", MOST_NICS),
        (&[5], "links", MOST_LINKS),
        (&[7], "addresses", MOST_ADDRESSES),
    ];
}

impl Bounded for v1::PodsChanged {
    const LISTS: &'static [List] = &[
        (&[2], "upserts", MOST_PODS),
        (&[2, 4], "upserts.devices", 4 * MOST_HELD),
        (&[3], "gone", MOST_PODS),
    ];
}

/// Reads a message whose lists are not too long.
pub(super) fn decode<M: Bounded>(bytes: &[u8]) -> Result<M, Invalid> {
    let malformed = |error: DecodeError| Invalid::new("message", error);
    for (path, name, most) in M::LISTS {
        let there = count(bytes, path).map_err(malformed)?;
        if there > *most {
            return Err(Invalid::new(name, format!("has {there} entries; {most} are allowed")));
        }
    }
    M::decode(bytes).map_err(malformed)
}

/// How many entries there are at the end of this path of fields.
fn count(mut bytes: &[u8], path: &[u32]) -> Result<usize, DecodeError> {
    let Some((wanted, rest)) = path.split_first() else { return Ok(1) };
    let mut there = 0;
    while !bytes.is_empty() {
        let (field, kind) = decode_key(&mut bytes)?;
        if field != *wanted || kind != WireType::LengthDelimited {
            skip_field(kind, field, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let Some((entry, after)) = bytes.split_at_checked(length) else {
            // Decoding will say what is wrong with it.
            return Ok(there);
        };
        there += count(entry, rest)?;
        bytes = after;
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_is_refused_before_it_is_made() {
        // Empty devices: field 3, length 0.
        let devices = [0x1a, 0x00].repeat(MOST_DEVICES + 1);
        let refused = decode::<v1::Inventory>(&devices).unwrap_err();
        assert_eq!(refused.to_string(), "devices has 1025 entries; 1024 are allowed");
        assert!(decode::<v1::Inventory>(&devices[2..]).is_ok());
        // One pod with very many empty devices: field 4, length 0.
        let held = [0x22, 0x00].repeat(4 * MOST_HELD + 1);
        let pod = v1::PodsChanged::default().encode_to_vec();
        assert!(decode::<v1::PodsChanged>(&pod).is_ok());
        let mut wire = vec![0x12];
        prost::encoding::encode_varint(held.len() as u64, &mut wire);
        wire.extend(held);
        let refused = decode::<v1::PodsChanged>(&wire).unwrap_err();
        assert_eq!(refused.field, "upserts.devices");
    }

    #[test]
    fn what_is_cut_off_is_malformed() {
        for bytes in [&[0x1a][..], &[0x1a, 0x05, 0x00], &[0xff; 12]] {
            assert_eq!(decode::<v1::Inventory>(bytes).unwrap_err().field, "message");
        }
    }
}
