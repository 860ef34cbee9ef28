//! All sources of one node, and how what they say becomes one inventory.
//!
//! ```text
//!   read (files) ──┬─▶ scan_files ──────────────────────▶ Found
//!                  └─▶ ask (tools, async) ─▶ scan_all ──▶ Found
//! ```

use muster_proto::device::{HostAddress, Inventory, Nic};

use super::ascend::{self, Ascend};
use super::nvidia::{self, Nvidia};
use super::rdma::Rdma;
use super::{Found, SourceReport, net, pci, topology};
use crate::host::Host;
use crate::problem::{Area, Finding};
use crate::tool::Tools;

/// The sources, with what the slow ones said before.
#[derive(Debug)]
pub struct Sources {
    host: Host,
    ascend: Ascend,
    nvidia: Nvidia,
    rdma: Rdma,
    settled: bool,
    /// Findings of the tools in the last full scan; a scan of files asks no tool, so they stay.
    tool_findings: [Vec<Finding>; 2],
}

/// What files say, read once for a scan.
#[derive(Debug)]
pub struct Read {
    ascend: ascend::files::Files,
    nvidia: nvidia::Files,
    /// What both vendors have on the PCI bus.
    functions: Vec<pci::Function>,
    nics: Vec<Nic>,
    addresses: Vec<HostAddress>,
    /// What was wrong with cards, addresses and the PCI bus.
    network: Vec<Finding>,
}

// === impl Sources ===

impl Sources {
    /// Of this host.
    pub fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            ascend: Ascend::new(),
            nvidia: Nvidia::new(),
            rdma: Rdma::default(),
            settled: false,
            tool_findings: Default::default(),
        }
    }

    /// The same without any memory.
    pub fn empty(&self) -> Self {
        Self::new(&self.host)
    }

    /// Reads the files. Like all of this that is not `async`, it may hang with a sick driver: not for the thread that
    /// others need.
    pub fn read(&mut self, now: jiff::Timestamp) -> Read {
        let (nics, mut network) = self.rdma.scan(&self.host, now);
        let (addresses, more) = net::addresses(&self.host);
        network.extend(more);
        let mut scan = pci::scan(&self.host, &[ascend::files::VENDOR, nvidia::VENDOR]);
        network.append(&mut scan.findings);
        let ascend = ascend::files::Files::read_with(&self.host, &scan);
        let nvidia = Nvidia::read_with(&self.host, &scan);
        Read { ascend, nvidia, functions: scan.functions, nics, addresses, network }
    }

    /// Files only, with what the tools said before.
    pub fn scan_files(&self, read: &Read) -> Found {
        let mut parts = self.files(read);
        for (report, tool_findings) in parts.iter_mut().zip(&self.tool_findings) {
            let new = |finding: &&Finding| {
                !report.findings.iter().any(|one| one.subject == finding.subject)
            };
            let more: Vec<Finding> = tool_findings.iter().filter(new).cloned().collect();
            report.findings.extend(more);
        }
        self.join(read, parts)
    }

    fn files(&self, read: &Read) -> [SourceReport; 2] {
        [self.ascend.scan_files(&read.ascend), self.nvidia.scan_files_with(read.nvidia.clone())]
    }

    /// Asks the tools, if there are any.
    pub async fn ask(
        &mut self,
        read: &Read,
        tools: Option<&Tools>,
        now: jiff::Timestamp,
    ) -> Option<[SourceReport; 2]> {
        self.settled = true;
        let tools = tools?;
        let (ascend, nvidia) = tokio::join!(
            self.ascend.scan_all(&read.ascend, tools, now),
            self.nvidia.scan_all_with(read.nvidia.clone(), &self.host, tools, now)
        );
        Some([ascend, nvidia])
    }

    /// Files, and what [`Sources::ask`] has brought.
    pub fn scan_all(&mut self, read: &Read, asked: Option<[SourceReport; 2]>) -> Found {
        let Some(parts) = asked else { return self.scan_files(read) };
        for ((all, plain), tool_findings) in
            parts.iter().zip(self.files(read)).zip(&mut self.tool_findings)
        {
            let of_tools = |finding: &&Finding| !plain.findings.contains(finding);
            *tool_findings = all.findings.iter().filter(of_tools).cloned().collect();
        }
        self.join(read, parts)
    }

    fn join(&self, read: &Read, parts: [SourceReport; 2]) -> Found {
        let mut inventory = Inventory {
            settled: self.settled,
            nics: read.nics.clone(),
            addresses: read.addresses.clone(),
            ..Inventory::default()
        };
        let mut findings: Vec<(Area, Vec<Finding>)> = Vec::new();
        for (area, report) in [Area::Ascend, Area::Nvidia].into_iter().zip(parts) {
            inventory.drivers.extend(report.drivers);
            inventory.devices.extend(report.devices);
            inventory.links.extend(report.links);
            inventory.super_pod = inventory.super_pod.or(report.super_pod);
            findings.push((area, report.findings));
        }
        findings.push((Area::Network, read.network.clone()));
        inventory.sort();
        topology::fill_with(&self.host, &mut inventory, &read.functions);
        inventory.sort();
        Found { inventory, findings, due: self.ascend.is_due(&read.ascend) }
    }
}
