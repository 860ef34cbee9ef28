//! Where fields are in the library's structures. Numbers are of 32 bits.
//!
//! | structure | fields |
//! |---|---|
//! | `dcmi_chip_info`, `_v2` | texts of 32 bytes: type, name, version; then a number, then (v2) another text |
//! | `dcmi_pcie_info_all` | four ids, domain, bus, slot, function, 32 bytes |
//! | `dcmi_ip_addr` | 16 bytes of address, then the kind: 0 IPv4, 1 IPv6 |
//! | `dcmi_spod_info` | id, size, super-pod, server, 32 bytes |

use std::net::IpAddr;

use crate::call::Room;
use crate::{Pci, SuperPod};

/// How long `dcmi_spod_info` is; the library is told.
pub(crate) const SPOD_BYTES: u32 = 48;

const NAME: usize = 32;
const NAME_BYTES: usize = 32;

pub(crate) fn chip_name(room: &Room) -> String {
    let bytes: [u8; NAME_BYTES] = room.bytes(NAME);
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect()
}

pub(crate) fn pci(room: &Room) -> Option<Pci> {
    let [domain, bus, slot, function] = [16, 20, 24, 28].map(|at| room.u32(at));
    let small = |value: u32, below: u32| u8::try_from(value).ok().filter(|_| value < below);
    Some(Pci {
        // It is signed there, and -1 is none.
        domain: i32::try_from(domain).ok()?.try_into().ok()?,
        bus: small(bus, 256)?,
        slot: small(slot, 32)?,
        function: small(function, 8)?,
    })
}

pub(crate) fn ip(room: &Room) -> Option<IpAddr> {
    match room.u32(16) {
        0 => Some(room.bytes::<4>(0).into()),
        1 => Some(room.bytes::<16>(0).into()),
        _ => None,
    }
}

pub(crate) fn super_pod(room: &Room) -> SuperPod {
    let [sdid, size, id, server] = [0, 4, 8, 12].map(|at| room.u32(at));
    SuperPod { sdid, size, id, server }
}
