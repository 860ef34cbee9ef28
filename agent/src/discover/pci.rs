//! PCI functions, and how far apart two of them are.
//!
//! The kernel shows every function below the bridges that lead to it. Two functions are as near as the last bridge
//! that they share:
//!
//! ```text
//!   pci0000:15 ── 15:01.0 ── 16:00.0 ─┬─ 17:00.0 ── 18:00.0   a GPU ┐
//!   root          root port  switch   └─ 19:00.0 ── 1a:00.0   a NIC ┘ PIX: one switch
//!                                        downstream ports
//! ```

use std::path::{Path, PathBuf};

use muster_proto::device::{Join, PciAddress};

use crate::host::{Host, HostError};
use crate::problem::Finding;

pub mod parse;
#[cfg(test)]
mod tests;

const DEVICES: &str = "/sys/bus/pci/devices";

/// How many functions are looked at.
const MOST: usize = 4096;

/// One PCI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it is plugged in.
    pub address: PciAddress,
    /// Who made it, `0x10de`.
    pub vendor: u16,
    /// What it is, in its maker's numbers.
    pub device: u16,
    /// What it is in everybody's numbers, `0x030200`.
    pub class: u32,
    /// The memory that is near it, where the machine tells.
    pub numa: Option<u32>,
    /// The cores that are near it, `0-55,112-167`.
    pub cpus: Option<String>,
    /// Its real directory on the node, below all bridges that lead to it.
    pub path: PathBuf,
}

/// Functions that were read once, for all who want some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The functions, by address.
    pub functions: Vec<Function>,
    /// What was wrong with others. Whoever shares a scan takes these once.
    pub findings: Vec<Finding>,
}

/// The functions of these makers, in one walk over the bus. A bus has hundreds of others.
pub fn scan(host: &Host, makers: &[u16]) -> Scan {
    let (functions, findings) = matching(host, |vendor, _| makers.contains(&vendor));
    Scan { functions, findings }
}

/// All functions, by address.
pub fn functions(host: &Host) -> (Vec<Function>, Vec<Finding>) {
    matching(host, |_, _| true)
}

/// The functions whose vendor and class are wanted, by address. Of the others nothing more is read.
pub fn matching(host: &Host, wanted: impl Fn(u16, u32) -> bool) -> (Vec<Function>, Vec<Finding>) {
    let (mut found, mut findings) = (Vec::new(), Vec::new());
    let names = host.list(DEVICES).unwrap_or_else(|error| {
        findings.push(Finding::new(error.reason(), DEVICES, &error));
        Vec::new()
    });
    if names.len() > MOST {
        let message = format!("of {} PCI functions only the first {MOST} are read", names.len());
        findings.push(Finding::new("too-many", DEVICES, message));
    }
    for name in names.iter().take(MOST) {
        // What has no address is no function.
        let Ok(address) = name.parse() else { continue };
        match read(host, address, &wanted) {
            Ok(function) => found.extend(function),
            // It was unplugged in between.
            Err(Unread::Host(error)) if error.is_absent() => {}
            Err(error) => {
                findings.push(Finding::new(error.reason(), format!("pci {address}"), error));
            }
        }
    }
    found.sort_by_key(|function| function.address);
    (found, findings)
}

/// The function at this address.
pub fn function(host: &Host, address: PciAddress) -> Option<Function> {
    read(host, address, |_, _| true).ok().flatten()
}

/// How far apart two functions are.
///
/// Each further switch on the way adds an upstream and a downstream port to the path, so two functions of one switch have
/// at most one bridge each, their downstream port, after the last that they share.
pub fn distance(a: &Function, b: &Function) -> Join {
    let ((root_a, below_a), (root_b, below_b)) = (split(&a.path), split(&b.path));
    let shared = below_a.iter().zip(&below_b).take_while(|(a, b)| a == b).count();
    let single = |below: &[&str]| below.len().saturating_sub(shared) <= 2;
    match root_a.is_some() && root_a == root_b {
        true if shared == 0 => Join::Phb,
        true if single(&below_a) && single(&below_b) => Join::Pix,
        true => Join::Pxb,
        false if near(a, b) => Join::Node,
        false => Join::Sys,
    }
}

/// Whether two functions are near the same memory. Where a machine does not tell, the cores decide: a kernel
/// that knows no NUMA node says that every core is near.
fn near(a: &Function, b: &Function) -> bool {
    match (a.numa, b.numa) {
        (Some(a), Some(b)) => a == b,
        _ => a.cpus.is_some() && a.cpus == b.cpus,
    }
}

/// The host bridge and the names below it, outermost first.
fn split(path: &Path) -> (Option<&Path>, Vec<&str>) {
    let mut below = Vec::new();
    let mut here = path;
    while let Some(name) = here.file_name().and_then(|name| name.to_str()) {
        // `pci0000:15`; some bridges have a host bridge of their own below them, the last one counts.
        if name.strip_prefix("pci").is_some_and(|rest| rest.contains(':')) {
            below.reverse();
            return (Some(here), below);
        }
        below.push(name);
        let Some(parent) = here.parent() else { break };
        here = parent;
    }
    below.reverse();
    (None, below)
}

/// Why a function is not known.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Malformed(#[from] muster_proto::device::Malformed),
}

impl Unread {
    fn reason(&self) -> &'static str {
        match self {
            Self::Host(error) => error.reason(),
            Self::Malformed(_) => "malformed",
        }
    }
}

fn read(
    host: &Host,
    address: PciAddress,
    wanted: impl Fn(u16, u32) -> bool,
) -> Result<Option<Function>, Unread> {
    let path = host.resolve(&format!("{DEVICES}/{address}"))?;
    let file = |name: &str| host.read(&path.join(name).to_string_lossy());
    let vendor = parse::id(&file("vendor")?)?;
    let class = parse::class(&file("class")?)?;
    if !wanted(vendor, class) {
        return Ok(None);
    }
    let device = parse::id(&file("device")?)?;
    // Old kernels and some virtual machines do not have these two.
    let numa = file("numa_node").ok().and_then(|text| parse::numa(&text));
    let cpus = file("local_cpulist").ok().and_then(|text| parse::cpus(&text));
    Ok(Some(Function { address, vendor, device, class, numa, cpus, path }))
}
