//! What the driver's files and `nvidia-smi` write.
//!
//! Pure: text in, values out. What comes out is bounded, whatever the text.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Fabric, Join, Mig, PciAddress};

use crate::discover::matrix::{plain, uncoloured};

/// How many GPUs one node may have; more is nonsense.
pub const MOST: u32 = 256;

/// How many slices one GPU may have.
const SLICES: usize = 64;

/// How long a model's name may be.
const MODEL: usize = 96;

/// What `/proc/driver/nvidia/gpus/<address>/information` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// `NVIDIA H100 80GB HBM3`.
    pub model: String,
    /// `GPU-…`, once the driver knows it.
    pub uuid: Option<String>,
    /// The N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Whether the administrator took it out of use.
    pub excluded: bool,
}

/// One line of `nvidia-smi --query-gpu=index,uuid,pci.bus_id,name[,fabric…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The tool's number of it.
    pub index: u32,
    /// The UUID, `GPU-…`.
    pub uuid: Option<String>,
    /// Where it is plugged in.
    pub pci: PciAddress,
    /// `NVIDIA H100 80GB HBM3`.
    pub model: String,
    /// The NVLink domain across nodes.
    pub fabric: Option<Fabric>,
}

/// Joins of GPUs by NVLink, by the tool's indexes, and the GPUs that it named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The GPUs that have a row.
    pub gpus: BTreeSet<u32>,
    /// Pairs of them, the smaller first, and how many links they have.
    pub joins: BTreeMap<(u32, u32), u8>,
}

/// The driver's version: the first word of numbers in the first line.
pub fn version(text: &str) -> Option<String> {
    let line = text.lines().next()?.strip_prefix("NVRM version:")?;
    let numbered = |word: &&str| {
        let mut parts = word.split('.');
        let numbers =
            parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        numbers && word.contains('.') && word.len() <= 32
    };
    line.split_ascii_whitespace().find(numbered).map(str::to_owned)
}

/// `Key: \t value` lines. Values may have colons.
pub fn information(text: &str) -> Information {
    let mut found = Information::default();
    for (key, value) in text.lines().take(64).filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key.trim() {
            "Model" => found.model = plain(value, MODEL),
            "GPU UUID" => found.uuid = uuid(value, "GPU-"),
            "Device Minor" => found.minor = value.parse().ok().filter(|minor| *minor < MOST),
            "GPU Excluded" => found.excluded = value == "Yes",
            _ => {}
        }
    }
    found
}

/// A UUID; question marks stand for one that the driver does not know yet.
pub fn uuid(text: &str, prefix: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.strip_prefix(prefix)?;
    // Old drivers name slices `MIG-GPU-<uuid>/1/0`.
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'/';
    ((1..=80).contains(&rest.len()) && rest.bytes().all(fits)).then(|| text.to_owned())
}

/// The lines of a query that are lines of a query, and how many are not.
pub fn rows(text: &str) -> (Vec<Row>, usize) {
    let mut other = 0;
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match row(line) {
            Some(row) if rows.len() < MOST as usize => rows.push(row),
            _ => other += 1,
        }
    }
    (rows, other)
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, id, pci, model, fabric @ ..] = cells.as_slice() else { return None };
    Some(Row {
        index: index.parse().ok().filter(|index| *index < MOST)?,
        uuid: uuid(id, "GPU-"),
        pci: pci.parse().ok()?,
        model: plain(model, MODEL),
        fabric: match fabric {
            [cluster, clique] => self::fabric(cluster, clique),
            _ => None,
        },
    })
}

/// GPUs of which a line of a query says that they are gone: `[GPU is lost]` instead of a value. Values that
/// are not there for other reasons (`[N/A]`, `[Unknown Error]`) are no faults.
pub fn faults(text: &str) -> BTreeMap<PciAddress, String> {
    let fault = |cell: &&str| {
        let said = cell.strip_prefix('[')?.strip_suffix(']')?.to_ascii_lowercase();
        let gone = said.contains("is lost") || said.contains("reset");
        gone.then(|| plain(&said, 64))
    };
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        Some((cells.get(2)?.parse().ok()?, cells.iter().find_map(fault)?))
    };
    text.lines().filter_map(of).take(MOST as usize).collect()
}

/// A domain across nodes. `N/A` and zeros are none.
pub fn fabric(cluster: &str, clique: &str) -> Option<Fabric> {
    let hex = cluster.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let named = cluster.len() == 36 && hex && cluster.bytes().any(|b| b != b'0' && b != b'-');
    let clique_id = clique.parse().ok()?;
    named.then(|| Fabric { cluster_uuid: cluster.to_ascii_lowercase(), clique_id })
}

/// The slices of each GPU that is listed, of `nvidia-smi -L`:
///
/// ```text
/// GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
///   MIG 1g.10gb     Device  0: (UUID: MIG-…)
/// ```
pub fn slices(text: &str) -> BTreeMap<u32, Vec<Mig>> {
    let mut found: BTreeMap<u32, Vec<Mig>> = BTreeMap::new();
    let mut gpu = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("GPU ") {
            let number = rest.split(':').next().and_then(|number| number.parse().ok());
            gpu = number.filter(|number| *number < MOST);
            found.extend(gpu.filter(|gpu| !found.contains_key(gpu)).map(|gpu| (gpu, Vec::new())));
        } else if let (Some(gpu), Some(slice)) = (gpu, slice(line)) {
            let slices = found.entry(gpu).or_default();
            if slices.len() < SLICES {
                slices.push(slice);
            }
        }
    }
    found
}

fn slice(line: &str) -> Option<Mig> {
    let (profile, rest) =
        line.trim().strip_prefix("MIG ")?.trim().split_once(char::is_whitespace)?;
    let (_, id) = rest.split_once("(UUID:")?;
    let uuid = uuid(id.trim().strip_suffix(')')?, "MIG-")?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    let known = (1..=32).contains(&profile.len()) && profile.bytes().all(fits);
    known.then(|| Mig { uuid, profile: profile.to_owned() })
}

/// The NVLink cells of `nvidia-smi topo -m`. Its other words are those of PCI paths, which we read ourselves.
pub fn topology(text: &str) -> Topology {
    let mut found = Topology::default();
    let mut columns: Vec<Option<u32>> = Vec::new();
    for line in uncoloured(text).lines().take(2 * MOST as usize) {
        let mut cells = line.split('\t').map(str::trim);
        match cells.next().unwrap_or_default() {
            "" if columns.is_empty() && line.contains("GPU") => {
                columns = cells.take(2 * MOST as usize).map(gpu).collect();
            }
            first => {
                let Some(row) = gpu(first) else { continue };
                found.gpus.insert(row);
                for (column, cell) in columns.iter().zip(cells) {
                    if let (Some(column), Ok(Join::NvLink(count @ 1..))) = (*column, cell.parse())
                        && column != row
                    {
                        found.joins.insert((row.min(column), row.max(column)), count);
                    }
                }
            }
        }
    }
    found
}

/// The number in `GPU7`.
fn gpu(text: &str) -> Option<u32> {
    text.strip_prefix("GPU")?.parse().ok().filter(|number| *number < MOST)
}

#[cfg(test)]
mod tests;
