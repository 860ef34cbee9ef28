//! Network cards that can do RDMA: one [`Nic`] per port, with the GID that a job should use.
//!
//! Everything is read from `/sys/class/infiniband`; nothing is asked of the cards themselves.

use std::path::Path;

use muster_proto::device::{Nic, PciAddress, PortState};

use crate::host::Host;
use crate::problem::Finding;

pub mod parse;
#[cfg(test)]
mod tests;

use parse::Gid;

const CLASS: &str = "/sys/class/infiniband";

/// How many cards are looked at, and ports of one.
const CARDS: usize = 256;
const PORTS: usize = 16;

/// How many GIDs of one port are looked at. Cards have tables of 256, most of them empty.
const GIDS: usize = 1024;

/// All ports of all cards, by name and port.
pub fn nics(host: &Host) -> (Vec<Nic>, Vec<Finding>) {
    let (mut nics, mut findings) = (Vec::new(), Vec::new());
    let names = host.list(CLASS).unwrap_or_else(|error| {
        findings.push(Finding::new(error.reason(), CLASS, &error));
        Vec::new()
    });
    if names.len() > CARDS {
        let message = format!("of {} cards only the first {CARDS} are read", names.len());
        findings.push(Finding::new("too-many", CLASS, message));
    }
    for name in names.iter().take(CARDS) {
        match parse::name(name) {
            Some(name) => card(host, &name, &mut nics, &mut findings),
            None => {
                let message = format!("{name:?} is no name of a card");
                findings.push(Finding::new("malformed", CLASS, message));
            }
        }
    }
    (nics, findings)
}

/// The ports of one card.
fn card(host: &Host, name: &str, nics: &mut Vec<Nic>, findings: &mut Vec<Finding>) {
    let base = format!("{CLASS}/{name}");
    let read = |file: &str| host.read(&format!("{base}/{file}")).unwrap_or_default();
    // `2: switch` forwards for others.
    if read("node_type").starts_with("2:") {
        return;
    }
    let place = host.resolve(&format!("{base}/device")).ok();
    // Cards in software have no PCI function.
    let pci: Option<PciAddress> =
        place.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
    let numa = read("device/numa_node").parse().ok();
    let ports = host.list(&format!("{base}/ports")).unwrap_or_else(|error| {
        findings.push(Finding::new(error.reason(), name, &error));
        Vec::new()
    });
    let mut ports: Vec<u32> = ports.iter().filter_map(|port| port.parse().ok()).collect();
    ports.sort_unstable();
    for port in ports.into_iter().take(PORTS) {
        let read = |file: &str| read(&format!("ports/{port}/{file}"));
        let said = read("state");
        let state = parse::state(&said);
        let layer = read("link_layer");
        let gids = gids(host, &format!("{base}/ports/{port}"));
        let chosen = parse::choose(&layer, &gids);
        let netdev = chosen
            .or_else(|| gids.first())
            .and_then(|gid| parse::name(&read(&format!("gid_attrs/ndevs/{}", gid.index))))
            .or_else(|| interface(host, &base, port));
        let subject = format!("{name}/{port}");
        match state {
            PortState::Up => {}
            PortState::Down => {
                let told = [said, read("phys_state")].map(|text| parse::plain(&text)).join(", ");
                let message =
                    format!("the port has no link ({told}); look at its cable and switch");
                findings.push(Finding::new("link-down", subject, message));
            }
            PortState::Unknown => {
                let message = format!("{:?} is no state of a port", parse::plain(&said));
                findings.push(Finding::new("malformed", subject, message));
            }
        }
        nics.push(Nic {
            name: name.to_owned(),
            port,
            pci,
            numa,
            netdev,
            state,
            link_layer: parse::plain(&layer),
            rate: parse::rate(&read("rate")),
            gid: chosen.map(|gid| (gid.index, gid.text())),
            ip: chosen.and_then(Gid::ip),
        });
    }
}

/// The GIDs of a port that are in use, by index.
fn gids(host: &Host, port: &str) -> Vec<Gid> {
    let names = host.list(&format!("{port}/gids")).unwrap_or_default();
    let mut indexes: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    indexes.sort_unstable();
    let read = |index: &u32| {
        let value = parse::gid(&host.read(&format!("{port}/gids/{index}")).ok()?)?;
        let kind = host.read(&format!("{port}/gid_attrs/types/{index}"));
        Some(Gid { index: *index, value, v2: kind.is_ok_and(|kind| parse::is_v2(&kind)) })
    };
    indexes.iter().take(GIDS).filter_map(read).collect()
}

/// The network interface of a card's port, for cards without GIDs.
fn interface(host: &Host, base: &str, port: u32) -> Option<String> {
    let names = host.list(&format!("{base}/device/net")).ok()?;
    let names: Vec<String> = names.iter().filter_map(|name| parse::name(name)).collect();
    if let [only] = names.as_slice() {
        return Some(only.clone());
    }
    // Ports of one function are told apart by their number, which counts from 0 here.
    let own = |name: &&String| {
        let said = host.read(&format!("{base}/device/net/{name}/dev_port"));
        said.is_ok_and(|said| said.parse() == Ok(port.saturating_sub(1)))
    };
    names.iter().find(own).cloned()
}
