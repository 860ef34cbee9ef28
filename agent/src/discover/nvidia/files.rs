//! GPUs as the kernel and the driver show them in files.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::PciAddress;

use super::parse::{self, Information, MOST};
use crate::discover::matrix::plain;
use crate::discover::pci::{self, Function};
use crate::host::Host;
use crate::problem::Finding;

const DRIVER: &str = "/proc/driver/nvidia";
const VENDOR: u16 = 0x10de;

/// What the files say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Files {
    pub driver: Option<String>,
    pub gpus: BTreeMap<PciAddress, Seen>,
    /// Whether the driver has made any device files yet. It does so for its first user.
    pub made: bool,
    pub findings: Vec<Finding>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
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

/// Reads them; milliseconds.
pub(super) fn read(host: &Host) -> Files {
    // Display (0300) and 3D (0302) controllers; switches between GPUs are bridges (0680) of the same vendor.
    let gpu = |vendor, class: u32| vendor == VENDOR && [0x0300, 0x0302].contains(&(class >> 8));
    let (functions, mut findings) = pci::matching(host, gpu);
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
    let mut gpus: BTreeMap<PciAddress, Seen> = BTreeMap::new();
    for function in functions {
        let (address, bound) = (function.address, bound(host, &function));
        gpus.insert(address, Seen { function: Some(function), bound, ..Seen::default() });
    }
    for (name, address) in listed.iter().filter_map(|name| Some((name, name.parse().ok()?))) {
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
    let minors: BTreeSet<u32> = gpus.values().filter_map(Seen::minor).collect();
    for seen in gpus.values_mut() {
        let Some(minor) = seen.minor() else { continue };
        seen.file = host.is_device(&format!("/dev/nvidia{minor}"));
        let slices = host.list(&format!("{DRIVER}/capabilities/gpu{minor}/mig"));
        seen.slices = slices.unwrap_or_default();
    }
    let made = host.is_device("/dev/nvidiactl")
        || minors.iter().any(|minor| host.is_device(&format!("/dev/nvidia{minor}")));
    Files { driver, gpus, made, findings }
}

fn bound(host: &Host, function: &Function) -> Option<String> {
    let driver = host.resolve(&function.path.join("driver").to_string_lossy()).ok()?;
    Some(plain(driver.file_name()?.to_str()?, 32))
}

// === impl Seen ===

impl Seen {
    /// The N of `/dev/nvidiaN`.
    pub fn minor(&self) -> Option<u32> {
        self.information.as_ref()?.minor
    }
}
