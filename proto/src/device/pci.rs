//! Where a device is plugged in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Malformed;

/// A PCI function, `0000:c1:00.0`: four digits of domain, lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// Domain; virtual ones need more than 16 bits.
    pub domain: u32,
    /// Bus within the domain.
    pub bus: u8,
    /// Slot, 0 to 31.
    pub slot: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

// === impl PciAddress ===

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, slot, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = Malformed;

    /// Takes `0000:c1:00.0`, `00000000:C1:00.0` and `c1:00.0`.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed::new("PCI address", text);
        let hex = |part: &str, most: usize| match part.len() {
            1.. if part.len() <= most && part.bytes().all(|b| b.is_ascii_hexdigit()) => {
                u32::from_str_radix(part, 16).map_err(|_| malformed())
            }
            _ => Err(malformed()),
        };
        let (rest, function) = text.rsplit_once('.').ok_or_else(malformed)?;
        let mut parts = rest.rsplitn(3, ':');
        let slot = hex(parts.next().unwrap_or_default(), 2)?;
        let bus = hex(parts.next().unwrap_or_default(), 2)?;
        let domain = parts.next().map_or(Ok(0), |part| hex(part, 8))?;
        let function = hex(function, 1)?;
        let byte = |value: u32, below: u32| match u8::try_from(value) {
            Ok(byte) if value < below => Ok(byte),
            _ => Err(malformed()),
        };
        Ok(Self {
            domain,
            bus: byte(bus, 256)?,
            slot: byte(slot, 32)?,
            function: byte(function, 8)?,
        })
    }
}

impl Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
