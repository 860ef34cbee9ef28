//! Ascend's management library, `libdcmi.so`: the few calls that the agent makes.
//!
//! This crate is the only place with unsafe code. It opens the library at run time, calls it, and hands out plain
//! values. It decides nothing.
//!
//! ```text
//!   Dcmi::open(path) ─▶ cards ─▶ chips of a card ─▶ numbers, name, PCI, health, addresses, super-pod
//! ```
//!
//! What is certain and what is not:
//!
//! - Calls and layouts are those of the published header `dcmi_interface_api.h`. The order of fields of the super-pod's
//!   place and of the PCI place has been the same in all copies of it; newer ones only use reserved bytes.
//! - Every answer is written into a room much larger than the structure that is expected, zeroed before, so
//!   that a library with longer structures cannot write past it.
//! - A call that this version of the library does not have is [`Error::Missing`]; the others work.
//! - Nobody promises that the library may be called from several threads. Call it from one at a time.
//! - The library starts threads of its own, so it is never unloaded.

mod call;
mod layout;
mod symbols;

use std::mem::ManuallyDrop;
use std::net::IpAddr;
use std::path::Path;

use symbols::Symbols;

/// How many cards a node may have.
pub const CARDS: usize = 64;

/// How many chips a card may have.
pub const CHIPS: usize = 4;

/// Ascend's management library, loaded at run time.
pub struct Dcmi {
    symbols: Symbols,
    /// Never dropped: the library's own threads may still run, and the symbols point into it.
    _library: ManuallyDrop<libloading::Library>,
}

/// Why the library has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened.
    #[error("{path}: {error}")]
    Open {
        /// Where it was looked for.
        path: String,
        /// What the loader said.
        error: libloading::Error,
    },
    /// This version of it does not have the call.
    #[error("the library has no {0}")]
    Missing(&'static str),
    /// The device does not support the call.
    #[error("{0} is not supported by this device")]
    NotSupported(&'static str),
    /// The device is not ready.
    #[error("{0}: the device is not ready")]
    NotReady(&'static str),
    /// It said no.
    #[error("{call} returned {code}")]
    Code {
        /// What was called.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
    /// It said something that cannot be.
    #[error("{0} returned something that cannot be")]
    Odd(&'static str),
}

/// How a chip is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The device works.
    Ok,
    /// Somebody should look at it.
    Warning,
    /// It has failed in part.
    Alarm,
    /// It has failed.
    Critical,
    /// The chip is not there or has not started.
    Unknown,
}

/// A port of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// On the super-pod's own network.
    Vnic = 0,
    /// The one with a cable.
    Roce = 1,
}

/// A PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pci {
    /// PCI domain, 0 on most machines.
    pub domain: u32,
    /// PCI bus within the domain.
    pub bus: u8,
    /// Slot, 0 to 31.
    pub slot: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

/// A die's place in its super-pod, as the library has it: all ones stand for "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperPod {
    /// What names the die.
    pub sdid: u32,
    /// How large the super-pod is.
    pub size: u32,
    /// Number of the super-pod.
    pub id: u32,
    /// The node's number in it.
    pub server: u32,
}

// === impl Error ===

impl Error {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } => "library-unusable",
            Self::Missing(_) => "library-too-old",
            Self::NotSupported(_) => "not-supported",
            Self::NotReady(_) => "device-not-ready",
            Self::Code { .. } => "library-failed",
            Self::Odd(_) => "library-garbled",
        }
    }

    /// Whether the device or this version of the library simply has no such thing.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NotSupported(_))
    }
}

// === impl Dcmi ===

impl Dcmi {
    /// Opens the library at this path and starts it. The caller must trust the file: opening it runs its code.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Open { path: path.display().to_string(), error };
        // SAFETY: opening runs the library's initialisers; the caller trusts the file. It stays open forever.
        let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        let library = ManuallyDrop::new(library);
        let dcmi = Self { symbols: Symbols::of(&library), _library: library };
        dcmi.symbols.init()?;
        Ok(dcmi)
    }

    /// Numbers of the cards that the library finds.
    pub fn cards(&self) -> Result<Vec<u32>, Error> {
        let (count, list) = self.symbols.card_list::<CARDS>()?;
        let count = usize::try_from(count).map_err(|_| Error::Odd("dcmi_get_card_list"))?;
        let cards = list.iter().take(count);
        Ok(cards.filter_map(|card| u32::try_from(*card).ok()).collect())
    }

    /// The chips of a card, without its controllers.
    pub fn chips(&self, card: u32) -> Result<Vec<u32>, Error> {
        let count = match self.symbols.device_id_in_card(card) {
            Err(error) if error.is_absence() => self.symbols.device_num_in_card(card)?,
            count => count?,
        };
        let count = u32::try_from(count).unwrap_or(0).min(CHIPS as u32);
        // Where the library cannot tell what a unit is, all of them are chips.
        let is_chip =
            |chip: &u32| self.symbols.device_type(card, *chip).map_or(true, |kind| kind == 0);
        Ok((0..count).filter(is_chip).collect())
    }

    /// The chip's place among those that are ready.
    pub fn logic_id(&self, card: u32, chip: u32) -> Result<u32, Error> {
        let id = self.symbols.logic_id(card, chip)?;
        u32::try_from(id).map_err(|_| Error::Odd("dcmi_get_device_logic_id"))
    }

    /// The physical id of a ready chip.
    pub fn phy_id(&self, logic: u32) -> Result<u32, Error> {
        self.symbols.phy_id(logic)
    }

    /// What the vendor calls the chip: `910B3`.
    pub fn name(&self, card: u32, chip: u32) -> Result<String, Error> {
        let room = match self.symbols.chip_info_v2(card, chip) {
            Err(error) if error.is_absence() => self.symbols.chip_info(card, chip)?,
            room => room?,
        };
        Ok(layout::chip_name(&room))
    }

    /// Where the chip is plugged in.
    pub fn pci(&self, card: u32, chip: u32) -> Result<Pci, Error> {
        let room = self.symbols.pcie_info(card, chip)?;
        layout::pci(&room).ok_or(Error::Odd("dcmi_get_device_pcie_info_v2"))
    }

    /// How the chip is.
    pub fn health(&self, card: u32, chip: u32) -> Result<Health, Error> {
        Ok(match self.symbols.health(card, chip)? {
            0 => Health::Ok,
            1 => Health::Warning,
            2 => Health::Alarm,
            3 => Health::Critical,
            _ => Health::Unknown,
        })
    }

    /// Whether the chip's port reaches what it was told to try; `None` while it is trying.
    pub fn network_health(&self, card: u32, chip: u32) -> Result<Option<bool>, Error> {
        Ok(match self.symbols.network_health(card, chip)? {
            0 => Some(true),
            6 | 8 => None,
            _ => Some(false),
        })
    }

    /// The address of a port, as the driver has it; it may be `0.0.0.0`.
    pub fn ip(&self, card: u32, chip: u32, port: Port) -> Result<IpAddr, Error> {
        let room = self.symbols.ip(card, chip, port as i32)?;
        layout::ip(&room).ok_or(Error::Odd("dcmi_get_device_ip"))
    }

    /// The die's place in its super-pod.
    pub fn super_pod(&self, card: u32, chip: u32) -> Result<SuperPod, Error> {
        Ok(layout::super_pod(&*self.symbols.spod_info(card, chip)?))
    }
}

impl std::fmt::Debug for Dcmi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dcmi").finish_non_exhaustive()
    }
}
