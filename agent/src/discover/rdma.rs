//! Network cards that can do RDMA: one [`Nic`] per port, with the GID that a job should use.
//!
//! Everything is read from `/sys/class/infiniband`; nothing is asked of the cards themselves. Tables of GIDs have
//! hundreds of places, so they are remembered for a minute while the port's state stays the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::device::{Nic, PciAddress, PortState};

use crate::host::Host;
use crate::problem::Finding;

mod folder;
pub mod parse;
#[cfg(test)]
mod tests;

use folder::Folder;
use parse::Gid;

const CLASS: &str = "/sys/class/infiniband";

/// How many cards are looked at, and ports of one.
const CARDS: usize = 256;
const PORTS: usize = 16;

/// How many GIDs of one port are looked at. Cards have tables of 256, most of them empty.
const GIDS: usize = 1024;

/// How many empty places mean that the rest is empty as well. The kernel fills the first that is free and each address
/// takes two, so that sixteen addresses must have been taken away before one is overlooked.
const EMPTY: usize = 32;

/// How long a table is believed.
const REFRESH: Duration = Duration::from_secs(60);

/// The cards of one node, with the tables of their ports.
#[derive(Clone, Debug, Default)]
pub struct Rdma {
    tables: BTreeMap<(String, u32), Table>,
}

/// The GIDs of a port that are in use, by index.
#[derive(Clone, Debug)]
struct Table {
    gids: Vec<Gid>,
    /// What the port said of its state and its link layer then.
    of: [String; 2],
    at: Timestamp,
}

/// All ports of all cards, by name and port, read now.
pub fn nics(host: &Host) -> (Vec<Nic>, Vec<Finding>) {
    Rdma::default().scan(host, Timestamp::UNIX_EPOCH)
}

// === impl Rdma ===

impl Rdma {
    /// The same, with what is remembered of tables. `now` tells how old that is.
    pub fn scan(&mut self, host: &Host, now: Timestamp) -> (Vec<Nic>, Vec<Finding>) {
        let mut known = std::mem::take(&mut self.tables);
        // What is not taken over is of cards that are gone, or too old.
        known.retain(|_, table| now.duration_since(table.at).unsigned_abs() < REFRESH);
        let mut gids = |port: &Folder, name: (&str, u32), of: [&str; 2]| {
            let name = (name.0.to_owned(), name.1);
            let same = known.remove(&name).filter(|table| table.of == of);
            let table = same.unwrap_or_else(|| Table {
                gids: gids(port),
                of: of.map(str::to_owned),
                at: now,
            });
            let gids = table.gids.clone();
            // A port without a usable GID is about to get one.
            if parse::choose(of[1], &gids).is_some() {
                self.tables.insert(name, table);
            }
            gids
        };
        all(host, &mut gids)
    }
}

/// Tells the GIDs of a port, by its name and what it said of its state and its link layer.
type Gids<'a> = dyn FnMut(&Folder, (&str, u32), [&str; 2]) -> Vec<Gid> + 'a;

fn all(host: &Host, gids: &mut Gids<'_>) -> (Vec<Nic>, Vec<Finding>) {
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
            Some(name) => card(host, &name, gids, &mut nics, &mut findings),
            None => {
                let message = format!("{name:?} is no name of a card");
                findings.push(Finding::new("malformed", CLASS, message));
            }
        }
    }
    (nics, findings)
}

/// The ports of one card.
fn card(
    host: &Host,
    name: &str,
    gids: &mut Gids<'_>,
    nics: &mut Vec<Nic>,
    findings: &mut Vec<Finding>,
) {
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
        let place = Folder::find(host, &format!("{base}/ports/{port}"));
        let read = |file: &str| place.read(file).unwrap_or_default();
        let said = read("state");
        let state = parse::state(&said);
        let layer = read("link_layer");
        let gids = gids(&place, (name, port), [&said, &layer]);
        let chosen = parse::choose(&layer, &gids);
        let netdev = chosen
            .or_else(|| gids.first())
            .and_then(|gid| {
                parse::name(&place.below("gid_attrs/ndevs").read(&gid.index.to_string())?)
            })
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
fn gids(port: &Folder) -> Vec<Gid> {
    let (values, kinds) = (port.below("gids"), port.below("gid_attrs/types"));
    let mut indexes: Vec<u32> =
        values.names().iter().filter_map(|name| name.parse().ok()).collect();
    indexes.sort_unstable();
    let (mut found, mut empty) = (Vec::new(), 0);
    for index in indexes.into_iter().take(GIDS) {
        let name = index.to_string();
        let Some(value) = values.read(&name).and_then(|text| parse::gid(&text)) else {
            empty += 1;
            if empty == EMPTY {
                break;
            }
            continue;
        };
        empty = 0;
        let v2 = kinds.read(&name).is_some_and(|kind| parse::is_v2(&kind));
        found.push(Gid { index, value, v2 });
    }
    found
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
