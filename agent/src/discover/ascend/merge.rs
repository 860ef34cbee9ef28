//! Files and tools become one answer. Pure.
//!
//! Who is believed:
//!
//! ```text
//!   which devices   /dev/davinciN; who was seen and is gone stays, faulty
//!   health, place   npu-smi (or the library)        else unknown
//!   address         hccn_tool: what the driver has  else hccn.conf: what somebody wrote
//!   links           npu-smi's matrix                else what the generation is known to be
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_proto::device::{Chip, Device, Driver, Health, Neighbour, PortState, SuperPod, Vendor};

use super::files::{Files, HCCN_CONF};
use super::links;
use super::parse::info::Row;
use super::parse::mapping::Numbers;
use super::parse::spod::Spod;
use super::parse::topo::Topo;
use super::place::{by_name, place};
use crate::discover::SourceReport;
use crate::problem::Finding;

/// Why a device whose file vanished must not be given to anybody.
pub const GONE: &str = "device file is gone";
/// Why a device that the tool does not list must not be given to anybody.
pub const UNSEEN: &str = "not seen by the driver";

/// What tools and libraries said, so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Whether anybody was asked.
    pub asked: bool,
    /// The devices that were there when the rows were told.
    pub of: BTreeSet<u32>,
    /// The chips and their health.
    pub rows: Option<Vec<Row>>,
    /// The chips' physical and logical numbers.
    pub numbers: Option<Vec<Numbers>>,
    /// How they are joined; empty when the tool cannot tell.
    pub topo: Option<Topo>,
    /// Places in the super-pod, by NPU and chip.
    pub spod: BTreeMap<(u32, u32), Spod>,
    /// Addresses by physical id; `None`: the driver has none.
    pub ip: BTreeMap<u32, Option<IpAddr>>,
    /// Addresses on the super-pod's network.
    pub vnic: BTreeMap<u32, Option<IpAddr>>,
    /// Whether ports have a link.
    pub link: BTreeMap<u32, PortState>,
    /// What ports are plugged into; `None`: nobody said.
    pub lldp: BTreeMap<u32, Option<Neighbour>>,
}

// === impl Facts ===

impl Facts {
    /// The generation: the PCI bus knows it, else the tool's name for it.
    pub fn chip(&self, files: &Files) -> Chip {
        match files.chip() {
            Chip::Unknown => by_name(self.rows.as_deref().unwrap_or_default()),
            chip => chip,
        }
    }

    /// Forgets what was said of the ports of other devices than these. Rows and the matrix stay until they are told anew:
    /// they name the others as well.
    pub fn keep(&mut self, ids: &BTreeSet<u32>) {
        self.ip.retain(|id, _| ids.contains(id));
        self.vnic.retain(|id, _| ids.contains(id));
        self.link.retain(|id, _| ids.contains(id));
        self.lldp.retain(|id, _| ids.contains(id));
    }

    /// The rows by physical id; `None` when there are none or nobody can tell whose they are.
    pub fn placed(&self, files: &Files, seen: &BTreeSet<u32>) -> Option<BTreeMap<u32, &Row>> {
        let numbers = self.numbers.as_deref().unwrap_or_default();
        place(self.rows.as_deref()?, numbers, self.chip(files), &self.of, seen)
    }
}

/// The node's Ascend devices. `seen` are devices as they were when their files were last there.
pub fn merge(files: &Files, facts: &Facts, seen: &BTreeMap<u32, Device>) -> SourceReport {
    let mut findings = files.findings.clone();
    let seen_ids: BTreeSet<u32> = seen.keys().copied().collect();
    let chip = facts.chip(files);
    let placed = facts.placed(files, &seen_ids);
    if let (Some(rows), None) = (&facts.rows, &placed) {
        let (rows, ids) = (rows.len(), files.ids.len());
        findings.push(Finding::new(
            "devices-unmatched",
            "device numbers",
            format!("npu-smi lists {rows} chips, and {ids} device files are there; nothing tells which is which"),
        ));
    }
    let mut ids: BTreeSet<u32> = files.ids.union(&seen_ids).copied().collect();
    ids.extend(placed.iter().flat_map(BTreeMap::keys));

    let mut devices: Vec<Device> = Vec::with_capacity(ids.len());
    for id in ids {
        let present = files.ids.contains(&id);
        let mut device = match seen.get(&id) {
            Some(last) if !present => last.clone(),
            _ => Device::new(Vendor::Ascend, id, format!("/dev/davinci{id}")),
        };
        device.chip = if chip == Chip::Unknown { device.chip } else { chip };
        if let Some(row) = placed.as_ref().and_then(|placed| placed.get(&id)) {
            describe(&mut device, row, files, facts);
        } else if placed.is_some() && facts.of.contains(&id) {
            device.health = Health::Faulty(UNSEEN.to_owned());
        }
        if present {
            device.vnic_ip = facts.vnic.get(&id).copied().flatten();
            device.neighbour = facts.lldp.get(&id).cloned().flatten();
            device.port = facts.link.get(&id).copied().unwrap_or_default();
        } else {
            device.health = Health::Faulty(GONE.to_owned());
            device.logic_id = None;
            (device.ip, device.vnic_ip) = (None, None);
            device.port = PortState::Unknown;
        }
        devices.push(device);
    }

    addresses(&mut devices, files, facts, &mut findings);
    ports(&mut devices, &mut findings);
    let super_pod = super_pod(&mut devices, facts, &mut findings);
    let links = joined(&mut devices, chip, facts, &mut findings);
    gone(&devices, files, &mut findings);
    let version = files.version.iter();
    let drivers =
        version.map(|version| Driver { vendor: Vendor::Ascend, version: version.clone() });
    SourceReport {
        drivers: drivers.collect(),
        devices,
        links,
        super_pod,
        findings,
        ..SourceReport::default()
    }
}

/// What `npu-smi` says of a chip, and sysfs of its PCI function.
fn describe(device: &mut Device, row: &Row, files: &Files, facts: &Facts) {
    device.model.clone_from(&row.name);
    device.health = row.health.clone();
    device.card = Some((row.npu, row.chip));
    let numbers = facts.numbers.iter().flatten();
    let same = |n: &&Numbers| (n.npu, n.chip) == (row.npu, row.chip);
    device.logic_id = numbers.clone().find(same).and_then(|found| found.logic);
    device.pci = row.pci;
    let function = row.pci.and_then(|pci| files.functions.get(&pci));
    device.numa = function.and_then(|function| function.numa);
    device.cpus = function.and_then(|function| function.cpus.clone());
}

/// The address of each device. One that two devices have is published of neither: a table with it would be
/// refused, or worse.
fn addresses(devices: &mut [Device], files: &Files, facts: &Facts, findings: &mut Vec<Finding>) {
    let able = |device: &Device| device.chip.has_port() || device.chip == Chip::Unknown;
    let configured = files.conf.as_ref().map(|conf| &conf.addresses);
    let mut without = Vec::new();
    for device in devices.iter_mut().filter(|device| files.ids.contains(&device.id)) {
        if !able(device) {
            continue;
        }
        let id = device.id;
        let line = configured.and_then(|addresses| addresses.get(&id));
        if line == Some(&None) {
            findings.push(Finding::new(
                "address-malformed",
                format!("address_{id}"),
                format!("{HCCN_CONF}: what address_{id} says is no address of a port; correct it"),
            ));
        }
        let line = line.copied().flatten();
        let differs = |has: &str, says: IpAddr| {
            let message = format!(
                "davinci{id}: the driver has {has}, {HCCN_CONF} says {says}; set the address again or correct the file"
            );
            Finding::new("address-differs", format!("davinci{id} address"), message)
        };
        device.ip = match (facts.ip.get(&id), line) {
            (Some(Some(has)), Some(says)) if *has != says => {
                findings.push(differs(&has.to_string(), says));
                Some(*has)
            }
            (Some(None), Some(says)) => {
                findings.push(differs("none", says));
                None
            }
            (Some(has), _) => *has,
            (None, says) => says,
        };
        let known_port = device.chip.has_port();
        if device.ip.is_none() && line.is_none() && known_port {
            without.push(id);
        }
    }
    // An unreadable file is a finding already, and before tools were asked nobody can know.
    if facts.asked && !without.is_empty() {
        let which = list(&without);
        let all = devices.iter().all(|device| device.ip.is_none());
        findings.push(match files.conf_absent && all {
            true => Finding::new(
                "hccn-conf-absent",
                HCCN_CONF,
                format!("{HCCN_CONF} is not there and the driver has no address of {which}; configure the ports"),
            ),
            false => Finding::new(
                "address-absent",
                "device addresses",
                format!("{which}: neither the driver nor {HCCN_CONF} has an address"),
            ),
        });
    }
    unique(devices, "address", |device| &mut device.ip, findings);
    unique(devices, "super-pod address", |device| &mut device.vnic_ip, findings);
}

/// Takes an address that several devices have away from all of them.
fn unique(
    devices: &mut [Device],
    what: &str,
    field: impl Fn(&mut Device) -> &mut Option<IpAddr>,
    findings: &mut Vec<Finding>,
) {
    let mut owners: BTreeMap<IpAddr, Vec<u32>> = BTreeMap::new();
    for device in devices.iter_mut() {
        if let Some(ip) = *field(device) {
            owners.entry(ip).or_default().push(device.id);
        }
    }
    for (ip, ids) in owners.into_iter().filter(|(_, ids)| ids.len() > 1) {
        for device in devices.iter_mut().filter(|device| ids.contains(&device.id)) {
            *field(device) = None;
        }
        let message = format!("{} have the same {what} {ip}; none of them is used", list(&ids));
        findings.push(Finding::new("duplicate-address", format!("{what} {ip}"), message));
    }
}

/// A port without a link is somebody's work.
fn ports(devices: &mut [Device], findings: &mut Vec<Finding>) {
    for device in devices.iter_mut().filter(|device| device.port == PortState::Down) {
        let id = device.id;
        if device.health == Health::Ok {
            device.health = Health::Degraded("link down".to_owned());
        }
        let message = format!("the port of davinci{id} has no link; look at cable and switch");
        findings.push(Finding::new("link-down", format!("davinci{id} port"), message));
    }
}

/// What names each die in the super-pod, and the node's place there.
fn super_pod(
    devices: &mut [Device],
    facts: &Facts,
    findings: &mut Vec<Finding>,
) -> Option<SuperPod> {
    let mut places: Vec<SuperPod> = Vec::new();
    for device in devices.iter_mut() {
        let Some((card, spod)) = device.card.and_then(|card| Some((card, facts.spod.get(&card)?)))
        else {
            continue;
        };
        device.super_device_id = spod.sdid;
        if let (Some(sdid), Some(server)) = (spod.sdid, spod.server) {
            let expected = number(server, card, device.id);
            if expected != Some(sdid) {
                let id = device.id;
                let message = format!(
                    "davinci{id} has super device id {sdid}, which server {server}, NPU {} and die {} do not make",
                    card.0, card.1
                );
                let subject = format!("davinci{id} super device id");
                findings.push(Finding::new("super-device-id-odd", subject, message));
            }
        }
        if let (Some(id), Some(server_index)) = (spod.id, spod.server) {
            places.push(SuperPod { id, server_index, size: spod.size });
        }
    }
    let first = places.first().copied()?;
    if places.iter().all(|place| *place == first) {
        return Some(first);
    }
    findings.push(Finding::new(
        "super-pod-differs",
        "super-pod",
        "the devices of this node name different super-pods or servers; none is used",
    ));
    None
}

/// A super device id is made of server, NPU, die and physical id.
fn number(server: u32, (npu, die): (u32, u32), phy: u32) -> Option<u32> {
    let fits = server < 1 << 10 && npu < 1 << 4 && die < 1 << 2 && phy < 1 << 16;
    fits.then_some(server << 22 | npu << 18 | die << 16 | phy)
}

/// Links, islands, and cores from the matrix where sysfs had none.
fn joined(
    devices: &mut [Device],
    chip: Chip,
    facts: &Facts,
    findings: &mut Vec<Finding>,
) -> Vec<muster_proto::device::Link> {
    let topo = facts.topo.as_ref().filter(|topo| !topo.numbers.is_empty());
    let all: Vec<u32> = devices.iter().map(|device| device.id).collect();
    let listed = |device: &&Device| device.health != Health::Faulty(GONE.to_owned());
    let present: Vec<u32> = devices.iter().filter(listed).map(|device| device.id).collect();
    let cards: Vec<u32> = devices.iter().filter_map(|device| Some(device.card?.0)).collect();
    let npus = cards.iter().collect::<BTreeSet<_>>().len();
    let numbered = topo.and_then(|topo| {
        // Numbers of chips: a card is one chip, or there are more numbers than cards.
        let of_chips = npus > 0 && (npus == cards.len() || topo.numbers.len() > npus);
        let mut candidates = [&present, &all].into_iter();
        let numbers = candidates.find_map(|ids| links::renumber(topo, ids, of_chips))?;
        Some((topo, numbers))
    });
    let links = match &numbered {
        Some((topo, numbers)) => {
            for (number, id) in numbers {
                let device = devices.iter_mut().find(|device| device.id == *id);
                if let Some(device) = device.filter(|device| device.cpus.is_none()) {
                    device.cpus = topo.cpus.get(number).cloned();
                }
            }
            links::from_matrix(topo, numbers)
        }
        None => links::known(chip, devices),
    };
    if let (Some(topo), None) = (topo, &numbered) {
        let (told, there) = (topo.numbers.len(), all.len());
        findings.push(Finding::new(
            "topology-unmatched",
            "device topology",
            format!(
                "the matrix of npu-smi is of {told} devices, and {there} are here; it is not used"
            ),
        ));
    }
    let islands = links::islands(&links);
    for device in devices.iter_mut() {
        device.island = islands.get(&device.id).copied();
    }
    links
}

/// A device file that vanished is somebody's work too.
fn gone(devices: &[Device], files: &Files, findings: &mut Vec<Finding>) {
    for device in devices.iter().filter(|device| !files.ids.contains(&device.id)) {
        let path = &device.path;
        let message =
            format!("{path} is gone; the device fell off the bus or its driver let it go");
        findings.push(Finding::new("device-file-gone", path.clone(), message));
    }
}

/// Names of devices for a message: `davinci0, davinci1`.
pub fn list(ids: &[u32]) -> String {
    let names: Vec<String> = ids.iter().take(16).map(|id| format!("davinci{id}")).collect();
    match ids.len().checked_sub(names.len()) {
        Some(more @ 1..) => format!("{} and {more} more", names.join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
