//! NVIDIA devices.
//!
//! ```text
//!   /proc/driver/nvidia, /dev, sysfs ──▶ files: which GPUs, their minors, health ─┐
//!   NVML (feature), else nvidia-smi ───▶ facts: lost ones; NVLink, fabric, slices ┴─▶ SourceReport
//! ```
//!
//! Files are read every time, and every look asks the driver which GPUs answer: the files of one that fell off the
//! bus stay. NVLink, fabric and slices are asked for when the driver or its GPUs change, while one is faulty, and now
//! and then.
//!
//! A GPU is known by its PCI address and numbered in that order, as NVML does; its minor is another number, and the
//! driver's own index is kept beside ours. GPUs that another driver has, and their virtual functions, are not ours to
//! count. One that has been here and is gone stays listed, as faulty, until the driver changes: a job that holds
//! it should be told.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::device::{Chip, Device, Driver, Health, Join, Link, PciAddress, Vendor};

use super::SourceReport;
use super::pci::{self, Scan};
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

pub use files::{Files, VENDOR};

use facts::{Facts, GpuFacts, News};
use files::GpuFiles;

/// How long slow facts are believed.
const REFRESH: Duration = Duration::from_secs(600);

/// The NVIDIA GPUs of one node.
#[derive(Debug)]
pub struct Nvidia {
    refresh: Duration,
    /// GPUs that have been seen with the driver that is there now.
    known: BTreeMap<PciAddress, Device>,
    driver: Option<String>,
    answer: Option<Answer>,
    #[cfg(feature = "nvml")]
    library: nvml::Library,
}

/// Facts, and what they depend on.
#[derive(Debug, Default)]
struct Answer {
    facts: Facts,
    key: Key,
    /// Since when all of them are known. None: asked in vain, or a GPU is faulty; ask again.
    at: Option<Timestamp>,
}

/// Slow facts hold as long as this is the same.
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
            answer: None,
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

    /// Reads all files, in milliseconds; a sick driver can make it hang.
    pub fn read(host: &Host) -> Files {
        let mut scan = pci::scan(host, &[files::VENDOR]);
        let mut files = files::read(host, &scan);
        files.findings.splice(0..0, scan.findings.drain(..));
        files
    }

    /// The same with a scan of the PCI bus that others use as well; its findings are theirs to tell.
    pub fn read_with(host: &Host, scan: &Scan) -> Files {
        files::read(host, scan)
    }

    /// What files tell, with what is remembered.
    pub fn scan_files(&self, host: &Host) -> SourceReport {
        self.report(Self::read(host))
    }

    /// The same of files that have been read.
    pub fn scan_files_with(&self, files: Files) -> SourceReport {
        self.report(files)
    }

    /// What files and the driver's library or tool tell.
    pub async fn scan_all(&mut self, host: &Host, tools: &Tools, now: Timestamp) -> SourceReport {
        self.scan_all_with(Self::read(host), host, tools, now).await
    }

    /// The same of files that have been read. Reads no more of them on the caller's thread.
    pub async fn scan_all_with(
        &mut self,
        mut files: Files,
        host: &Host,
        tools: &Tools,
        now: Timestamp,
    ) -> SourceReport {
        if files.driver != self.driver {
            self.known.clear();
            self.answer = None;
            self.driver.clone_from(&files.driver);
        }
        let mut findings = Vec::new();
        let key = key(&files);
        let answering = files.gpus.iter().filter(|(_, seen)| seen.answers());
        let gpus: Vec<PciAddress> = answering.map(|(pci, _)| *pci).collect();
        if !gpus.is_empty() {
            let fresh = self.answer.as_ref().is_some_and(|answer| {
                let age = |at: Timestamp| now.duration_since(at).unsigned_abs();
                answer.key == key && answer.at.is_some_and(|at| age(at) < self.refresh)
            });
            let news;
            (news, findings) = self.ask(host, tools, &files, &gpus, !fresh).await;
            let Answer { mut facts, at, .. } = self.answer.take().unwrap_or_default();
            facts.learn(news);
            facts.keep(|pci| files.gpus.contains_key(pci) || self.known.contains_key(pci));
            let at = if fresh { at } else { Some(now) };
            let at = at.filter(|_| findings.is_empty() && !facts.faulty());
            self.answer = Some(Answer { facts, key, at });
            if !files.made {
                // We may have been the driver's first user, for whom it makes its files.
                let host = host.clone();
                let again = tokio::task::spawn_blocking(move || Self::read(&host)).await;
                files = again.unwrap_or(files);
            }
        }
        let mut report = self.report(files);
        report.findings.extend(findings);
        self.known =
            report.devices.iter().filter_map(|one| Some((one.pci?, one.clone()))).collect();
        report
    }

    #[cfg(not(feature = "nvml"))]
    async fn ask(
        &self,
        _: &Host,
        tools: &Tools,
        files: &Files,
        gpus: &[PciAddress],
        all: bool,
    ) -> (News, Vec<Finding>) {
        files.smi.ask(tools, gpus, all).await
    }

    /// The library knows all but the fabric.
    #[cfg(feature = "nvml")]
    async fn ask(
        &self,
        host: &Host,
        tools: &Tools,
        files: &Files,
        gpus: &[PciAddress],
        all: bool,
    ) -> (News, Vec<Finding>) {
        let mut news = match self.library.ask(host, gpus, all).await {
            Ok(news) => news,
            Err(nvml::NvmlUnheard::Absent) => return files.smi.ask(tools, gpus, all).await,
            Err(error) => {
                let (news, mut findings) = files.smi.ask(tools, gpus, all).await;
                findings.push(Finding::new(error.reason(), "nvml", error));
                return (news, findings);
            }
        };
        if all && let Ok(fabrics) = files.smi.fabrics(tools).await {
            news.fabrics = fabrics;
        }
        (news, Vec::new())
    }

    /// Everything together; pure but for what is remembered.
    fn report(&self, files: Files) -> SourceReport {
        let nothing = Facts::default();
        // Facts about a driver that is gone are none.
        let answer = self.answer.as_ref().filter(|answer| answer.key.0 == files.driver);
        let facts = answer.map_or(&nothing, |answer| &answer.facts);
        let remembered = (files.driver == self.driver).then_some(&self.known);
        let mut all: BTreeMap<PciAddress, Option<&GpuFiles>> =
            remembered.into_iter().flatten().map(|(pci, _)| (*pci, None)).collect();
        let mut findings = files.findings.clone();
        for (pci, seen) in &files.gpus {
            match seen.elsewhere() {
                // It has never been ours.
                Some(driver) if !all.contains_key(pci) => {
                    // Who gives a GPU to virtual machines means it.
                    if !driver.contains("vfio") {
                        let message = format!(
                            "{driver} has it, not the NVIDIA driver: it is left out; unload {driver} to use it"
                        );
                        findings.push(Finding::new("other-driver", format!("gpu {pci}"), message));
                    }
                }
                _ => {
                    all.insert(*pci, Some(seen));
                }
            }
        }
        let islands = facts::islands(facts.joins.keys());
        let mut devices = Vec::new();
        for ((pci, seen), id) in all.iter().zip(0..) {
            let known = remembered.and_then(|known| known.get(pci));
            let gpu_facts = facts.gpus.get(pci);
            let mut device = match (seen, known) {
                (Some(seen), known) => device(*pci, id, seen, gpu_facts, known, files.made),
                (None, Some(known)) => gone(known, id),
                (None, None) => continue,
            };
            device.island = islands.get(pci).copied();
            device.driver_index = gpu_facts.and_then(|gpu_facts| gpu_facts.index);
            if let Some(index) =
                gpu_facts.and_then(|gpu_facts| gpu_facts.index).filter(|index| *index != id)
            {
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
        SourceReport { drivers, devices, links, findings, ..SourceReport::default() }
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
    seen: &GpuFiles,
    gpu_facts: Option<&GpuFacts>,
    known: Option<&Device>,
    made: bool,
) -> Device {
    let information = seen.information.clone().unwrap_or_default();
    let minor = information.minor.or(known.and_then(|known| known.minor));
    let path = minor.map_or_else(String::new, |minor| format!("/dev/nvidia{minor}"));
    let mut device = Device::new(Vendor::Nvidia, id, path);
    device.chip = Chip::NvidiaGpu;
    let models = [
        Some(&information.model),
        gpu_facts.map(|gpu_facts| &gpu_facts.model),
        known.map(|one| &one.model),
    ];
    device.model =
        models.into_iter().flatten().find(|one| !one.is_empty()).cloned().unwrap_or_default();
    device.uuid = information
        .uuid
        .clone()
        .or_else(|| gpu_facts?.uuid.clone())
        .or_else(|| known?.uuid.clone());
    device.minor = minor;
    device.pci = Some(pci);
    device.numa = seen.function.as_ref().and_then(|function| function.numa);
    device.cpus = seen.function.as_ref().and_then(|function| function.cpus.clone());
    device.fabric = gpu_facts.and_then(|gpu_facts| gpu_facts.fabric.clone());
    device.mig = gpu_facts.map(|gpu_facts| gpu_facts.mig.clone()).unwrap_or_default();
    device.health = match &seen.information {
        None => match seen.elsewhere() {
            Some(other) => Health::Faulty(format!("{other} has it, not the NVIDIA driver")),
            None if known.is_some() => faulty("the driver has lost it"),
            None => faulty("the NVIDIA driver does not have it"),
        },
        Some(information) if information.excluded => faulty("the driver excludes it"),
        Some(_) => match gpu_facts.and_then(|gpu_facts| gpu_facts.fault.clone()) {
            Some(fault) => Health::Faulty(fault),
            // A file says that the GPU was there once; only the driver can say that it works.
            None if seen.file && gpu_facts.is_none() => Health::Unknown,
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
