//! `/etc/hccn.conf`: the addresses that somebody configured, `address_0=10.20.0.2`.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The configured addresses by physical id; `None` where the text after `=` is no address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    /// The last line of a device counts.
    pub addresses: BTreeMap<u32, Option<IpAddr>>,
}

/// The file. Lines in any order; keys that nobody needs here are passed over.
pub fn conf(text: &str) -> Conf {
    let mut addresses = BTreeMap::new();
    for line in super::lines(text) {
        let line = line.trim();
        let Some((key, value)) = line.split_once('=') else { continue };
        let Some((what, id)) = key.trim().rsplit_once('_') else { continue };
        if let ("address", Some(id)) = (what, super::id(id)) {
            addresses.insert(id, super::address(value));
        }
    }
    Conf { addresses }
}
