//! The table of the library's calls.
//!
//! `int` and C enumerations are of 32 bits on every machine that has such devices.

use std::ffi::c_void;

use libloading::Library;

use crate::Error;
use crate::call::{Room, check};
use crate::layout::SPOD_BYTES;

type Card = i32;
type Chip = i32;

/// `dcmi_get_device_info`: chip information, place in the super-pod.
const CHIP_INF: i32 = 12;
const SPOD_INFO: u32 = 1;

/// Declares the table: field, the symbol's name, its type.
macro_rules! table {
    ($($field:ident = $name:literal: $kind:ty;)*) => {
        /// The calls that this library has.
        pub(crate) struct Symbols {
            $($field: Option<$kind>,)*
        }

        impl Symbols {
            /// Looks all of them up. `library` must never be unloaded.
            pub(crate) fn of(library: &Library) -> Self {
                Self {$(
                    // SAFETY: the type is that of the published header, and the library stays loaded.
                    $field: unsafe { library.get::<$kind>($name) }.ok().map(|symbol| *symbol),
                )*}
            }
        }
    };
}

table! {
    init = "dcmi_init": unsafe extern "C" fn() -> i32;
    card_list = "dcmi_get_card_list": unsafe extern "C" fn(*mut i32, *mut i32, i32) -> i32;
    device_num = "dcmi_get_device_num_in_card": unsafe extern "C" fn(Card, *mut i32) -> i32;
    device_id = "dcmi_get_device_id_in_card":
        unsafe extern "C" fn(Card, *mut i32, *mut i32, *mut i32) -> i32;
    device_type = "dcmi_get_device_type": unsafe extern "C" fn(Card, Chip, *mut i32) -> i32;
    logic = "dcmi_get_device_logic_id": unsafe extern "C" fn(*mut i32, Card, Chip) -> i32;
    phy = "dcmi_get_device_phyid_from_logicid": unsafe extern "C" fn(u32, *mut u32) -> i32;
    info = "dcmi_get_device_chip_info": unsafe extern "C" fn(Card, Chip, *mut u8) -> i32;
    info_v2 = "dcmi_get_device_chip_info_v2": unsafe extern "C" fn(Card, Chip, *mut u8) -> i32;
    pcie = "dcmi_get_device_pcie_info_v2": unsafe extern "C" fn(Card, Chip, *mut u8) -> i32;
    health = "dcmi_get_device_health": unsafe extern "C" fn(Card, Chip, *mut u32) -> i32;
    network = "dcmi_get_device_network_health": unsafe extern "C" fn(Card, Chip, *mut u32) -> i32;
    address = "dcmi_get_device_ip":
        unsafe extern "C" fn(Card, Chip, i32, i32, *mut u8, *mut u8) -> i32;
    device_info = "dcmi_get_device_info":
        unsafe extern "C" fn(Card, Chip, i32, u32, *mut c_void, *mut u32) -> i32;
}

/// The library takes signed numbers; ids are small.
fn int(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn need<T: Copy>(symbol: Option<T>, name: &'static str) -> Result<T, Error> {
    symbol.ok_or(Error::Missing(name))
}

// === impl Symbols ===

impl Symbols {
    pub(crate) fn init(&self) -> Result<(), Error> {
        let name = "dcmi_init";
        let call = need(self.init, name)?;
        // SAFETY: it takes nothing and may be called again.
        check(name, unsafe { call() })
    }

    /// How many cards there are, and the first `N`.
    pub(crate) fn card_list<const N: usize>(&self) -> Result<(i32, [i32; N]), Error> {
        let name = "dcmi_get_card_list";
        let call = need(self.card_list, name)?;
        let (mut count, mut list) = (0, [0; N]);
        // SAFETY: the list has room for the `N` entries that are announced.
        check(name, unsafe { call(&mut count, list.as_mut_ptr(), N as i32) })?;
        Ok((count, list))
    }

    /// How many chips a card has; the ids of its controllers are dropped.
    pub(crate) fn device_id_in_card(&self, card: u32) -> Result<i32, Error> {
        let name = "dcmi_get_device_id_in_card";
        let call = need(self.device_id, name)?;
        let (mut most, mut mcu, mut cpu) = (0, 0, 0);
        // SAFETY: three numbers are written to three numbers.
        check(name, unsafe { call(int(card), &mut most, &mut mcu, &mut cpu) })?;
        Ok(most)
    }

    /// How many units a card has.
    pub(crate) fn device_num_in_card(&self, card: u32) -> Result<i32, Error> {
        let name = "dcmi_get_device_num_in_card";
        let call = need(self.device_num, name)?;
        let mut count = 0;
        // SAFETY: one number is written to one number.
        check(name, unsafe { call(int(card), &mut count) })?;
        Ok(count)
    }

    /// 0 is a chip.
    pub(crate) fn device_type(&self, card: u32, chip: u32) -> Result<i32, Error> {
        let name = "dcmi_get_device_type";
        let call = need(self.device_type, name)?;
        let mut kind = 0;
        // SAFETY: one enumeration is written to one number of its size.
        check(name, unsafe { call(int(card), int(chip), &mut kind) })?;
        Ok(kind)
    }

    pub(crate) fn logic_id(&self, card: u32, chip: u32) -> Result<i32, Error> {
        let name = "dcmi_get_device_logic_id";
        let call = need(self.logic, name)?;
        let mut id = 0;
        // SAFETY: one number is written to one number; here the answer is the first argument.
        check(name, unsafe { call(&mut id, int(card), int(chip)) })?;
        Ok(id)
    }

    pub(crate) fn phy_id(&self, logic: u32) -> Result<u32, Error> {
        let name = "dcmi_get_device_phyid_from_logicid";
        let call = need(self.phy, name)?;
        let mut id = 0;
        // SAFETY: one number is written to one number.
        check(name, unsafe { call(logic, &mut id) })?;
        Ok(id)
    }

    pub(crate) fn health(&self, card: u32, chip: u32) -> Result<u32, Error> {
        let name = "dcmi_get_device_health";
        let call = need(self.health, name)?;
        let mut health = u32::MAX;
        // SAFETY: one number is written to one number.
        check(name, unsafe { call(int(card), int(chip), &mut health) })?;
        Ok(health)
    }

    pub(crate) fn network_health(&self, card: u32, chip: u32) -> Result<u32, Error> {
        let name = "dcmi_get_device_network_health";
        let call = need(self.network, name)?;
        let mut health = u32::MAX;
        // SAFETY: one enumeration is written to one number of its size.
        check(name, unsafe { call(int(card), int(chip), &mut health) })?;
        Ok(health)
    }

    pub(crate) fn chip_info(&self, card: u32, chip: u32) -> Result<Box<Room>, Error> {
        filled("dcmi_get_device_chip_info", self.info, card, chip)
    }

    pub(crate) fn chip_info_v2(&self, card: u32, chip: u32) -> Result<Box<Room>, Error> {
        filled("dcmi_get_device_chip_info_v2", self.info_v2, card, chip)
    }

    pub(crate) fn pcie_info(&self, card: u32, chip: u32) -> Result<Box<Room>, Error> {
        filled("dcmi_get_device_pcie_info_v2", self.pcie, card, chip)
    }

    /// The address of the first port of a kind. The kind of address is left at zero: IPv4.
    pub(crate) fn ip(&self, card: u32, chip: u32, port: i32) -> Result<Box<Room>, Error> {
        let name = "dcmi_get_device_ip";
        let call = need(self.address, name)?;
        let (mut ip, mut mask) = (Room::new(), Room::new());
        // SAFETY: two small structures are written to two rooms that are much larger.
        check(name, unsafe { call(int(card), int(chip), port, 0, ip.as_ptr(), mask.as_ptr()) })?;
        Ok(ip)
    }

    pub(crate) fn spod_info(&self, card: u32, chip: u32) -> Result<Box<Room>, Error> {
        let name = "dcmi_get_device_info";
        let call = need(self.device_info, name)?;
        let (mut room, mut size) = (Room::new(), SPOD_BYTES);
        let place = room.as_ptr().cast();
        // SAFETY: at most `size` bytes are promised, and the room is much larger.
        check(name, unsafe { call(int(card), int(chip), CHIP_INF, SPOD_INFO, place, &mut size) })?;
        // A library that wrote less has other fields in mind.
        if size < 16 { Err(Error::Odd(name)) } else { Ok(room) }
    }
}

/// A call that fills one structure.
fn filled(
    name: &'static str,
    call: Option<unsafe extern "C" fn(Card, Chip, *mut u8) -> i32>,
    card: u32,
    chip: u32,
) -> Result<Box<Room>, Error> {
    let call = need(call, name)?;
    let mut room = Room::new();
    // SAFETY: one structure is written to a room that is much larger.
    check(name, unsafe { call(int(card), int(chip), room.as_ptr()) })?;
    Ok(room)
}
