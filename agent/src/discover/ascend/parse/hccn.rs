//! `hccn_tool -i N -<topic> -g`: what one port says.
//!
//! Some versions end with success and print an error text. So a text that has not the key that was asked for is
//! no answer ([`None`]), while the key without a value, or no text at all, is the answer "nothing".

use std::net::IpAddr;

use muster_proto::device::{Neighbour, PortState};

/// `-ip` and `-vnic`: the address, if there is one.
pub fn ip(text: &str) -> Option<Option<IpAddr>> {
    if text.trim().is_empty() {
        return Some(None);
    }
    super::lines(text).find_map(|line| {
        // An IPv6 address has colons of its own: only the first is ours.
        let (key, value) = super::pair(&line)?;
        key.eq_ignore_ascii_case("ipaddr").then(|| super::address(value))
    })
}

/// `-link`: `link status: UP`.
pub fn link(text: &str) -> Option<PortState> {
    match value(text, "link status")?.to_ascii_uppercase().as_str() {
        "UP" => Some(PortState::Up),
        "DOWN" => Some(PortState::Down),
        _ => Some(PortState::Unknown),
    }
}

/// `-net_health`: whether the port reaches what it was told to try; `None` also while it is trying.
pub fn net_health(text: &str) -> Option<bool> {
    match value(text, "net health status")?.to_ascii_lowercase().as_str() {
        "success" => Some(true),
        "init" | "" => None,
        _ => Some(false),
    }
}

/// `-speed`: megabits per second.
pub fn speed(text: &str) -> Option<u32> {
    value(text, "speed")?.split_whitespace().next()?.parse().ok()
}

/// `-lldp`: the switch port at the other end. The switch is its name, else its MAC address.
pub fn lldp(text: &str) -> Option<Neighbour> {
    let mut section = String::new();
    let (mut mac, mut system, mut port) = (None, None, None);
    for line in super::lines(text) {
        let inner = line.trim();
        if let Some(head) = inner.strip_suffix("TLV") {
            section = head.trim().to_ascii_lowercase();
            continue;
        }
        let keyed = |wanted: &str| {
            let (key, value) = inner.split_once(':')?;
            (key.trim().eq_ignore_ascii_case(wanted)).then(|| super::name(value))
        };
        match section.as_str() {
            "chassis id" => mac = mac.or_else(|| keyed("MAC")),
            "port id" => port = port.or_else(|| keyed("Ifname")),
            "system name" if !inner.is_empty() => {
                system = system.or_else(|| Some(super::name(inner)));
            }
            _ => {}
        }
    }
    let told = |text: &String| !text.is_empty();
    let switch = system.filter(told).or_else(|| mac.filter(told))?;
    Some(Neighbour { switch, port: port.filter(told)? })
}

fn value(text: &str, wanted: &str) -> Option<String> {
    super::lines(text).find_map(|line| {
        let (key, value) = super::pair(&line)?;
        key.eq_ignore_ascii_case(wanted).then(|| value.to_owned())
    })
}
