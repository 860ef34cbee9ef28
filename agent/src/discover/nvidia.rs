//! NVIDIA devices.
//!
//! ```text
//!   /proc/driver/nvidia, /dev, sysfs ──▶ files: which GPUs, their minors, health ─┐
//!   NVML (feature), else nvidia-smi ───▶ facts: NVLink, fabric, slices, lost ones ┴─▶ Part
//! ```
//!
//! Files are read every time. Facts are asked for when the driver or its GPUs change, and now and then. A GPU is
//! known by its PCI address and numbered in that order, as NVML does; its minor is another number. One that has
//! been here and is gone stays listed, as faulty, until the driver changes: a job that holds it should be told.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::device::{Chip, Device, Driver, Health, Join, Link, PciAddress, Vendor};

use super::Part;
use crate::host::Host;
use crate::problem::Finding;
use crate::tool::Tools;

mod facts;
mod files;
#[cfg(feature = "nvml")]
mod nvml;
pub mod parse;
mod smi;
#[cfg(test)]
mod tests;

use facts::{Facts, Told};
use files::{Files, Seen};

/// How long facts are believed.
const REFRESH: Duration = Duration::from_secs(600);

/// The NVIDIA GPUs of one node.
#[derive(Debug)]
pub struct Nvidia {
    refresh: Duration,
    /// GPUs that have been seen with the driver that is there now.
    known: BTreeMap<PciAddress, Device>,
    driver: Option<String>,
    told: Option<Answer>,
    #[cfg(feature = "nvml")]
    library: nvml::Library,
}

/// Facts, and what they depend on.
#[derive(Debug)]
struct Answer {
    facts: Facts,
    key: Key,
    /// None: asked in vain, or not for everything; ask again.
    at: Option<Timestamp>,
}

/// Facts hold as long as this is the same.
type Key = (Option<String>, Vec<(PciAddress, Option<u32>, Vec<String>)>);

// === impl Nvidia ===

impl Default for Nvidia {
    fn default() -> Self {
        Self::new()
    }
}

impl Nvidia {
    /// Nothing has been seen yet.
    pub fn new() -> Self {
        Self {
            refresh: REFRESH,
            known: BTreeMap::new(),
            driver: None,
            told: None,
            #[cfg(feature = "nvml")]
            library: nvml::Library::default(),
        }
    }

    /// The same, with facts that are believed for so long.
    #[must_use]
    pub fn refresh(mut self, refresh: Duration) -> Self {
        self.refresh = refresh;
        self
    }

    /// What files tell, in milliseconds, with what is remembered.
    pub fn files(&self, host: &Host) -> Part {
        self.part(files::read(host))
    }

    /// What files and the driver's library or tool tell.
    pub async fn look(&mut self, host: &Host, tools: &Tools, now: Timestamp) -> Part {
        let mut files = files::read(host);
        if files.driver != self.driver {
            self.known.clear();
            self.driver.clone_from(&files.driver);
        }
        let mut findings = Vec::new();
        let key = key(&files);
        let gpus: Vec<PciAddress> = key.1.iter().map(|(pci, ..)| *pci).collect();
        let fresh = self.told.as_ref().is_some_and(|told| {
            let age = |at: Timestamp| now.duration_since(at).unsigned_abs();
            told.key == key && told.at.is_some_and(|at| age(at) < self.refresh)
        });
        if gpus.is_empty() {
            self.told = None;
        } else if !fresh {
            let (facts, problems) = self.ask(host, tools, &gpus).await;
            let at = problems.is_empty().then_some(now);
            // A tool that fails now does not make untrue what it said before.
            match &mut self.told {
                Some(told) if told.key == key && facts.gpus.is_empty() => told.at = None,
                told => *told = Some(Answer { facts, key, at }),
            }
            findings = problems;
            if !files.made {
                // We may have been the driver's first user, for whom it makes its files.
                files = files::read(host);
            }
        }
        let mut part = self.part(files);
        part.findings.extend(findings);
        self.known = part.devices.iter().filter_map(|one| Some((one.pci?, one.clone()))).collect();
        part
    }

    #[cfg(not(feature = "nvml"))]
    async fn ask(&self, _: &Host, tools: &Tools, gpus: &[PciAddress]) -> (Facts, Vec<Finding>) {
        smi::ask(tools, gpus).await
    }

    /// The library knows all but the fabric.
    #[cfg(feature = "nvml")]
    async fn ask(&self, host: &Host, tools: &Tools, gpus: &[PciAddress]) -> (Facts, Vec<Finding>) {
        let (mut facts, findings) = match self.library.ask(host, gpus).await {
            Ok(facts) => (facts, Vec::new()),
            Err(nvml::NvmlUnheard::Absent) => return smi::ask(tools, gpus).await,
            Err(error) => {
                let (facts, mut findings) = smi::ask(tools, gpus).await;
                findings.push(Finding::new(error.reason(), "nvml", error));
                return (facts, findings);
            }
        };
        if let Ok((rows, _)) = smi::query(tools, &[]).await {
            for row in rows {
                if let Some(told) = facts.gpus.get_mut(&row.pci) {
                    told.fabric = row.fabric;
                }
            }
        }
        (facts, findings)
    }

    /// Everything together; pure but for what is remembered.
    fn part(&self, files: Files) -> Part {
        let nothing = Facts::default();
        // Facts about a driver that is gone are none.
        let told = self.told.as_ref().filter(|told| told.key.0 == files.driver);
        let facts = told.map_or(&nothing, |told| &told.facts);
        let remembered = (files.driver == self.driver).then_some(&self.known);
        let mut all: BTreeMap<PciAddress, Option<&Seen>> =
            remembered.into_iter().flatten().map(|(pci, _)| (*pci, None)).collect();
        all.extend(files.gpus.iter().map(|(pci, seen)| (*pci, Some(seen))));
        let islands = facts::islands(facts.joins.keys());
        let mut findings = files.findings.clone();
        let mut devices = Vec::new();
        for ((pci, seen), id) in all.iter().zip(0..) {
            let known = remembered.and_then(|known| known.get(pci));
            let told = facts.gpus.get(pci);
            let mut device = match (seen, known) {
                (Some(seen), known) => device(*pci, id, seen, told, known, files.made),
                (None, Some(known)) => gone(known, id),
                (None, None) => continue,
            };
            device.island = islands.get(pci).copied();
            if let Some(index) = told.and_then(|told| told.index).filter(|index| *index != id) {
                let message = format!(
                    "the driver counts this GPU as {index}, in order of PCI addresses it is {id}: \
                     name GPUs by UUID until the GPU that is not counted is replaced"
                );
                findings.push(Finding::new("index-differs", format!("gpu {pci}"), message));
            }
            if let Health::Faulty(reason) = &device.health {
                findings.push(Finding::new("faulty", format!("gpu {pci}"), reason));
            }
            devices.push(device);
        }
        if files.driver.is_none() && !devices.is_empty() {
            let message = "there are GPUs but no NVIDIA driver; load the nvidia module";
            findings.push(Finding::new("no-driver", "nvidia driver", message));
        }
        let ids: BTreeMap<PciAddress, &Device> =
            devices.iter().filter_map(|device| Some((device.pci?, device))).collect();
        let link = |((a, b), count): (&(PciAddress, PciAddress), &u8)| {
            let (a, b) = (ids.get(a)?.end(), ids.get(b)?.end());
            Some(Link { a: a.min(b), b: a.max(b), join: Join::NvLink(*count) })
        };
        let links = facts.joins.iter().filter_map(link).collect();
        let driver = |version| Driver { vendor: Vendor::Nvidia, version };
        let drivers = files.driver.into_iter().map(driver).collect();
        Part { drivers, devices, links, findings, ..Part::default() }
    }
}

fn key(files: &Files) -> Key {
    let with_driver = files.gpus.iter().filter(|(_, seen)| seen.information.is_some());
    let gpus = with_driver.map(|(pci, seen)| (*pci, seen.minor(), seen.slices.clone()));
    (files.driver.clone(), gpus.collect())
}

/// A GPU that is there.
fn device(
    pci: PciAddress,
    id: u32,
    seen: &Seen,
    told: Option<&Told>,
    known: Option<&Device>,
    made: bool,
) -> Device {
    let information = seen.information.clone().unwrap_or_default();
    let minor = information.minor.or(known.and_then(|known| known.minor));
    let path = minor.map_or_else(String::new, |minor| format!("/dev/nvidia{minor}"));
    let mut device = Device::new(Vendor::Nvidia, id, path);
    device.chip = Chip::NvidiaGpu;
    let models =
        [Some(&information.model), told.map(|told| &told.model), known.map(|one| &one.model)];
    device.model =
        models.into_iter().flatten().find(|one| !one.is_empty()).cloned().unwrap_or_default();
    device.uuid =
        information.uuid.clone().or_else(|| told?.uuid.clone()).or_else(|| known?.uuid.clone());
    device.minor = minor;
    device.pci = Some(pci);
    device.numa = seen.function.as_ref().and_then(|function| function.numa);
    device.cpus = seen.function.as_ref().and_then(|function| function.cpus.clone());
    device.fabric = told.and_then(|told| told.fabric.clone());
    device.mig = told.map(|told| told.mig.clone()).unwrap_or_default();
    device.health = match &seen.information {
        None if known.is_some() => faulty("the driver has lost it"),
        None => match seen.bound.as_deref().filter(|driver| *driver != "nvidia") {
            Some(other) => Health::Faulty(format!("{other} has it, not the NVIDIA driver")),
            None => faulty("the NVIDIA driver does not have it"),
        },
        Some(information) if information.excluded => faulty("the driver excludes it"),
        Some(_) => match told.and_then(|told| told.fault.clone()) {
            Some(fault) => Health::Faulty(fault),
            None if seen.file => Health::Ok,
            None if made || known.is_some() => faulty("device file is gone"),
            // The driver makes its files for its first user, who has not come yet.
            None => Health::Unknown,
        },
    };
    device
}

/// A GPU that was there.
fn gone(known: &Device, id: u32) -> Device {
    Device { id, health: faulty("it is gone from the PCI bus"), ..known.clone() }
}

fn faulty(reason: &str) -> Health {
    Health::Faulty(reason.to_owned())
}
