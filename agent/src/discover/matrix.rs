//! An inventory as text for a terminal: a table of devices and the topology as a matrix.
//!
//! The matrix has the form that people know from the vendors' own tools. What drivers and tools have written is made
//! `plain` first: a model's name cannot move anybody's cursor.

use std::collections::BTreeSet;
use std::fmt::Write;

use muster_proto::device::{Device, End, Health, Inventory, Join, Nic, PortState};

mod grid;
mod plain;
#[cfg(test)]
mod tests;

use grid::Grid;
pub(crate) use plain::{plain, uncoloured};

/// How wide the table is at most.
const WIDTH: usize = 100;

/// How wide a model's name is at most, and at least when there is no room.
const MODEL: (usize, usize) = (28, 8);

/// How many NICs the matrix shows: virtual functions can be hundreds.
const NICS: usize = 32;

/// The devices, then what does not fit into one line: reasons, UUIDs and slices.
pub fn table(inventory: &Inventory) -> String {
    if inventory.devices.is_empty() {
        return "no devices\n".to_owned();
    }
    let super_devices = inventory.devices.iter().any(|one| one.super_device_id.is_some());
    let mut grid = Grid::default();
    let mut head = vec!["ID", "MODEL", "HEALTH", "PORT", "ADDRESS", "PCI", "NUMA"];
    head.extend(super_devices.then_some("SUPER-DEVICE"));
    grid.row(head);
    for one in &inventory.devices {
        let mut row = vec![
            one.end().to_string(),
            shown(plain(&one.model, WIDTH)),
            one.health.word().to_owned(),
            port(one.port).to_owned(),
            shown(one.ip),
            shown(one.pci),
            shown(one.numa),
        ];
        row.extend(super_devices.then(|| shown(one.super_device_id)));
        grid.row(row);
    }
    grid.shrink(1, MODEL, WIDTH);
    let mut text = grid.to_string();
    let mut block = |lines: Vec<String>| {
        if !lines.is_empty() {
            text.push('\n');
        }
        for line in lines {
            text.push_str(&plain_line(&line));
        }
    };
    block(inventory.devices.iter().filter_map(reason).collect());
    block(inventory.devices.iter().flat_map(names).collect());
    text
}

/// The topology. The inventory must be in order.
pub fn matrix(inventory: &Inventory) -> String {
    let nics: Vec<(End, &Nic)> =
        inventory.nics.iter().zip(0..).map(|(nic, at)| (End::Nic(at), nic)).take(NICS).collect();
    let devices = inventory.devices.iter().map(Device::end);
    let ends: Vec<End> = devices.chain(nics.iter().map(|(end, _)| *end)).collect();
    let affinity = inventory.devices.iter().map(|one| (shown(one.cpus.as_ref()), shown(one.numa)));
    let affinity = affinity.chain(nics.iter().map(|(_, nic)| (String::new(), shown(nic.numa))));
    if ends.is_empty() {
        return String::new();
    }
    let mut grid = Grid::default();
    let names = ends.iter().map(ToString::to_string);
    let last = ["CPU Affinity", "NUMA Affinity"].map(str::to_owned);
    grid.row([String::new()].into_iter().chain(names).chain(last));
    let mut words = BTreeSet::new();
    for (row, (cpus, numa)) in ends.iter().zip(affinity) {
        let mut cells = vec![row.to_string()];
        for column in &ends {
            let join = (row != column).then(|| inventory.join(*row, *column));
            cells.push(join.map_or("X".to_owned(), |join| join.to_string()));
            words.extend(join);
        }
        cells.extend([plain(&cpus, WIDTH), numa]);
        grid.row(cells);
    }
    let mut text = grid.to_string();
    text.push_str("\nLegend:\n  X        itself\n");
    let meant: BTreeSet<(Join, &str, &str)> = words.into_iter().map(meaning).collect();
    for (_, word, meaning) in meant {
        // Writing into a String cannot fail.
        let _written = writeln!(text, "  {word:<8} {meaning}");
    }
    if !nics.is_empty() {
        text.push_str("\nNICs:\n");
    }
    for (end, nic) in &nics {
        text.push_str(&plain_line(&format!("  {}: {}", end, described(nic))));
    }
    if let more @ 1.. = inventory.nics.len().saturating_sub(NICS) {
        let _written = writeln!(text, "  and {more} more");
    }
    text
}

/// A word of the matrix and what it means. All counts of NVLinks have one line.
fn meaning(join: Join) -> (Join, &'static str, &'static str) {
    let (word, meaning) = match join {
        Join::Sio => ("SIO", "the other die of one package"),
        Join::Hccs => ("HCCS", "a direct HCCS link"),
        Join::HccsSwitch => ("HCCS_SW", "HCCS by way of a switch"),
        Join::NvLink(_) => return (Join::NvLink(0), "NV#", "so many NVLinks together"),
        Join::Pix => ("PIX", "within one PCIe switch"),
        Join::Pxb => ("PXB", "by several PCIe switches, not by a host bridge"),
        Join::Phb => ("PHB", "by one PCIe host bridge"),
        Join::Node => ("NODE", "by host bridges of one NUMA node"),
        Join::Sys => ("SYS", "from one NUMA node to another"),
        Join::Na => ("NA", "not known"),
    };
    (join, word, meaning)
}

fn described(nic: &Nic) -> String {
    let name = match nic.port {
        1 => nic.name.clone(),
        port => format!("{}:{port}", nic.name),
    };
    let rate = nic.rate.map(|rate| format!("{rate} Gb/s"));
    let more = [nic.netdev.clone(), nic.ip.map(|ip| ip.to_string()), rate];
    let more = more.into_iter().flatten().chain([format!("link {}", port(nic.state))]);
    format!("{name} ({})", more.collect::<Vec<_>>().join(", "))
}

fn reason(device: &Device) -> Option<String> {
    match &device.health {
        Health::Degraded(why) | Health::Faulty(why) => {
            Some(format!("{} is {}: {why}", device.end(), device.health.word()))
        }
        Health::Ok | Health::Unknown => None,
    }
}

/// The long names of a GPU.
fn names(device: &Device) -> Vec<String> {
    let end = device.end();
    let fabric = device.fabric.as_ref();
    let clique = fabric.map(|its| format!(" clique {}.{}", its.cluster_uuid, its.clique_id));
    let uuid = device
        .uuid
        .iter()
        .map(|uuid| format!("{end}: {uuid}{}", clique.clone().unwrap_or_default()));
    let slices = device.mig.iter().map(|mig| format!("{end}: {} {}", mig.uuid, mig.profile));
    uuid.chain(slices).collect()
}

fn port(state: PortState) -> &'static str {
    match state {
        PortState::Up => "up",
        PortState::Down => "down",
        PortState::Unknown => "-",
    }
}

fn shown(value: impl Cell) -> String {
    value.text().filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// What a cell can show.
trait Cell {
    fn text(&self) -> Option<String>;
}

impl Cell for String {
    fn text(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl<T: ToString> Cell for Option<T> {
    fn text(&self) -> Option<String> {
        self.as_ref().map(ToString::to_string)
    }
}

/// A line of text, with the blanks that it begins with.
fn plain_line(line: &str) -> String {
    let indent = line.len() - line.trim_start_matches(' ').len();
    format!("{:indent$}{}\n", "", plain(line, WIDTH - indent.min(WIDTH)))
}
