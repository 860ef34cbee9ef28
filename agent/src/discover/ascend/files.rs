//! What the node's files say of Ascend devices: enough for a first answer, read in milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Chip, PciAddress};

use super::parse::{MOST, conf, install};
use crate::discover::pci::{self, Scan};
use crate::host::{Host, HostError};
use crate::problem::Finding;

/// Where the driver is unless the installation says otherwise.
const DRIVER: &str = "/usr/local/Ascend/driver";
const INSTALLATION: &str = "/etc/ascend_install.info";
/// The configured addresses.
pub const HCCN_CONF: &str = "/etc/hccn.conf";
/// 1024 devices with all their lines.
const HCCN_CONF_LIMIT: usize = 256 * 1024;
/// Huawei's number on the PCI bus.
pub const VENDOR: u16 = 0x19e5;

/// The files' word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    /// The N of each `/dev/davinciN`.
    pub ids: BTreeSet<u32>,
    /// Whether the driver's own device file is there.
    pub manager: bool,
    /// The driver's version.
    pub version: Option<String>,
    /// The driver's directory.
    pub driver: String,
    /// The configured addresses, when the file could be read.
    pub conf: Option<conf::Conf>,
    /// Whether that file is simply not there.
    pub conf_absent: bool,
    /// PCI functions that are NPUs.
    pub functions: BTreeMap<PciAddress, Function>,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

/// One PCI function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The chip's generation, by its PCI id.
    pub chip: Chip,
    /// The memory that is near it.
    pub numa: Option<u32>,
    /// The cores that are near it.
    pub cpus: Option<String>,
}

// === impl Files ===

impl Files {
    /// Reads them. What cannot be read is a finding and missing in the answer.
    pub fn read(host: &Host) -> Self {
        let mut scan = pci::scan(host, &[VENDOR]);
        let mut files = Self::read_with(host, &scan);
        files.findings.splice(0..0, scan.findings.drain(..));
        files
    }

    /// The same with a scan of the PCI bus that others use as well; its findings are theirs to tell.
    pub fn read_with(host: &Host, scan: &Scan) -> Self {
        let mut files = Self { driver: DRIVER.to_owned(), ..Self::default() };
        files.device_files(host);
        files.functions(scan);
        if files.is_empty() {
            return files;
        }
        if let Some(text) = files.text(host, INSTALLATION, crate::host::SMALL) {
            files.driver = install::driver(&text).unwrap_or(files.driver);
        }
        let version = format!("{}/version.info", files.driver);
        files.version =
            files.text(host, &version, crate::host::SMALL).and_then(|text| install::version(&text));
        let before = files.findings.len();
        files.conf = files.text(host, HCCN_CONF, HCCN_CONF_LIMIT).map(|text| conf::conf(&text));
        files.conf_absent = files.conf.is_none() && files.findings.len() == before;
        files.state();
        files
    }

    /// Whether nothing here is Ascend's.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && !self.manager && self.functions.is_empty()
    }

    /// The generation of the node's chips. Generations are never mixed, so the first decides.
    pub fn chip(&self) -> Chip {
        self.functions.values().next().map_or(Chip::Unknown, |function| function.chip)
    }

    /// A file's text; nothing when it is not there, and a finding when it cannot be had.
    fn text(&mut self, host: &Host, path: &str, limit: usize) -> Option<String> {
        host.read_at_most(path, limit).map_err(|error| self.note(path, &error)).ok()
    }

    fn note(&mut self, subject: &str, error: &HostError) {
        if !error.is_absent() {
            self.findings.push(Finding::new(error.reason(), subject, error));
        }
    }

    fn device_files(&mut self, host: &Host) {
        let names = host.list("/dev").unwrap_or_else(|error| {
            self.note("/dev", &error);
            Vec::new()
        });
        self.manager = names.iter().any(|name| name == "davinci_manager");
        let numbers = names.iter().filter_map(|name| {
            // `vdavinci100` is a slice of a chip, `davinci_manager` and `davinci007` are none.
            let id: u32 = name.strip_prefix("davinci")?.parse().ok()?;
            let plain = *name == format!("davinci{id}") && (id as usize) < MOST;
            (plain && host.is_device(&format!("/dev/{name}"))).then_some(id)
        });
        self.ids = numbers.collect();
    }

    fn functions(&mut self, scan: &Scan) {
        for function in scan.functions.iter().filter(|function| function.vendor == VENDOR) {
            // The same vendor makes engines and network cards of other kinds.
            let Some(chip) = generation(function.device) else { continue };
            if self.functions.len() < MOST {
                let (numa, cpus) = (function.numa, function.cpus.clone());
                self.functions.insert(function.address, Function { chip, numa, cpus });
            }
        }
    }

    /// Says what state a node without device files is in.
    fn state(&mut self) {
        if !self.ids.is_empty() {
            return;
        }
        let (chips, driver) = (self.functions.len(), &self.driver);
        self.findings.push(match self.manager {
            true => Finding::new(
                "driver-without-chips",
                "/dev/davinci_manager",
                format!("the driver is loaded and shows no chip; {chips} are on the PCI bus"),
            ),
            false => Finding::new(
                "driver-absent",
                driver.clone(),
                format!("{chips} chips are on the PCI bus and no driver is loaded for them"),
            ),
        });
    }
}

/// The generation of a PCI device id.
fn generation(device: u16) -> Option<Chip> {
    Some(match device {
        0xd100 => Chip::Ascend310,
        0xd107 => Chip::Ascend310b,
        0xd500 => Chip::Ascend310p,
        0xd801 => Chip::Ascend910a,
        0xd802 => Chip::Ascend910b,
        0xd803 => Chip::AscendA3,
        0xd806 => Chip::AscendA5,
        _ => return None,
    })
}
