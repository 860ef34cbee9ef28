//! GPUs as the kernel and the driver show them in files.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::PciAddress;

use super::parse::{self, Information, MOST};
use super::smi::Smi;
use crate::discover::matrix::plain;
use crate::discover::pci::{Function, Scan};
use crate::host::Host;
use crate::problem::Finding;

const DRIVER: &str = "/proc/driver/nvidia";
/// NVIDIA's number on the PCI bus.
pub const VENDOR: u16 = 0x10de;

/// What the files say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    pub(super) driver: Option<String>,
    pub(super) gpus: BTreeMap<PciAddress, GpuFiles>,
    /// Whether the driver has made any device files yet. It does so for its first user.
    pub(super) made: bool,
    /// The tool to ask.
    pub(super) smi: Smi,
    pub(super) findings: Vec<Finding>,
}

/// What files say of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GpuFiles {
    /// On the PCI bus.
    pub function: Option<Function>,
    /// The kernel's driver that has it, `nvidia` or `vfio-pci`.
    pub bound: Option<String>,
    /// With the driver.
    pub information: Option<Information>,
    /// Whether its device file is there.
    pub file: bool,
    /// Names of its slices: they change while the driver runs.
    pub slices: Vec<String>,
}

/// Reads them; milliseconds. `scan` has NVIDIA's functions; what was wrong with it is not told here.
pub(super) fn read(host: &Host, scan: &Scan) -> Files {
    let mut findings = Vec::new();
    // Display (0300) and 3D (0302) controllers; switches between GPUs are bridges (0680) of the same vendor.
    let gpu = |function: &&Function| {
        function.vendor == VENDOR && [0x0300, 0x0302].contains(&(function.class >> 8))
    };
    // Parts of a GPU for virtual machines, which the driver does not count.
    let (parts, functions): (Vec<&Function>, Vec<&Function>) =
        scan.functions.iter().filter(gpu).partition(|function| is_virtual(host, function));
    let parts: BTreeSet<PciAddress> = parts.iter().map(|part| part.address).collect();
    let driver = match host.read(&format!("{DRIVER}/version")) {
        Ok(text) => parse::version(&text),
        Err(error) => {
            if !error.is_absent() {
                findings.push(Finding::new(error.reason(), "nvidia driver", error));
            }
            None
        }
    };
    let listed = host.list(&format!("{DRIVER}/gpus")).unwrap_or_else(|error| {
        findings.push(Finding::new(error.reason(), "nvidia driver", error));
        Vec::new()
    });
    let mut gpus: BTreeMap<PciAddress, GpuFiles> = BTreeMap::new();
    for function in functions {
        let bound = bound(host, function);
        let seen = GpuFiles { function: Some(function.clone()), bound, ..GpuFiles::default() };
        gpus.insert(function.address, seen);
    }
    for (name, address) in listed.iter().filter_map(|name| Some((name, name.parse().ok()?))) {
        if parts.contains(&address) {
            continue;
        }
        match host.read(&format!("{DRIVER}/gpus/{name}/information")) {
            Ok(text) => {
                gpus.entry(address).or_default().information = Some(parse::information(&text));
            }
            Err(error) if error.is_absent() => {}
            Err(error) => {
                findings.push(Finding::new(error.reason(), format!("gpu {address}"), error));
            }
        }
    }
    while gpus.len() > MOST as usize {
        gpus.pop_last();
    }
    let minors: BTreeSet<u32> = gpus.values().filter_map(GpuFiles::minor).collect();
    for seen in gpus.values_mut() {
        let Some(minor) = seen.minor() else { continue };
        seen.file = host.is_device(&format!("/dev/nvidia{minor}"));
        let slices = host.list(&format!("{DRIVER}/capabilities/gpu{minor}/mig"));
        seen.slices = slices.unwrap_or_default();
    }
    let made = host.is_device("/dev/nvidiactl")
        || minors.iter().any(|minor| host.is_device(&format!("/dev/nvidia{minor}")));
    Files { driver, gpus, made, smi: Smi::find(host), findings }
}

fn is_virtual(host: &Host, function: &Function) -> bool {
    host.resolve(&function.path.join("physfn").to_string_lossy()).is_ok()
}

fn bound(host: &Host, function: &Function) -> Option<String> {
    let driver = host.resolve(&function.path.join("driver").to_string_lossy()).ok()?;
    Some(plain(driver.file_name()?.to_str()?, 32))
}

// === impl GpuFiles ===

impl GpuFiles {
    /// The N of `/dev/nvidiaN`.
    pub fn minor(&self) -> Option<u32> {
        self.information.as_ref()?.minor
    }

    /// Whether the driver should answer for it.
    pub fn answers(&self) -> bool {
        self.information.as_ref().is_some_and(|information| !information.excluded)
    }

    /// Another driver that has it, `vfio-pci` for virtual machines or `nouveau`. A GPU that no driver has may
    /// have been lost.
    pub fn elsewhere(&self) -> Option<&str> {
        let other = self.bound.as_deref().filter(|driver| *driver != "nvidia");
        other.filter(|_| self.information.is_none())
    }
}
