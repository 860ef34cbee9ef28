//! All sources of one node, and how what they say becomes one inventory.

use muster_proto::device::Inventory;

use super::ascend::Ascend;
use super::nvidia::Nvidia;
use super::{Found, Part, net, rdma, topology};
use crate::host::Host;
use crate::problem::{Area, Finding};
use crate::tool::Tools;

/// The sources, with what the slow ones said before.
#[derive(Debug)]
pub struct Sources {
    host: Host,
    ascend: Ascend,
    nvidia: Nvidia,
    settled: bool,
    /// What the tools had wrong in the last look; a quick look asks none, and solves nothing of it.
    troubles: [Vec<Finding>; 2],
}

// === impl Sources ===

impl Sources {
    /// Of this host.
    pub fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            ascend: Ascend::new(),
            nvidia: Nvidia::new(),
            settled: false,
            troubles: Default::default(),
        }
    }

    /// The same without any memory.
    pub fn empty(&self) -> Self {
        Self::new(&self.host)
    }

    /// Files only, with what the tools said before.
    pub fn quick(&self) -> Found {
        let (mut ascend, mut nvidia) = self.files();
        for (part, troubles) in [&mut ascend, &mut nvidia].into_iter().zip(&self.troubles) {
            let new = |trouble: &&Finding| {
                !part.findings.iter().any(|one| one.subject == trouble.subject)
            };
            let more: Vec<Finding> = troubles.iter().filter(new).cloned().collect();
            part.findings.extend(more);
        }
        self.join(ascend, nvidia)
    }

    fn files(&self) -> (Part, Part) {
        (self.ascend.files(&self.host), self.nvidia.files(&self.host))
    }

    /// Files and tools.
    pub async fn look(&mut self, tools: Option<&Tools>) -> Found {
        self.settled = true;
        let Some(tools) = tools else { return self.quick() };
        let now = jiff::Timestamp::now();
        let (ascend, nvidia) = tokio::join!(
            self.ascend.look(&self.host, tools, now),
            self.nvidia.look(&self.host, tools, now)
        );
        let (plain_ascend, plain_nvidia) = self.files();
        self.troubles = [(&ascend, plain_ascend), (&nvidia, plain_nvidia)].map(|(whole, plain)| {
            let of_tools = |finding: &&Finding| !plain.findings.contains(finding);
            whole.findings.iter().filter(of_tools).cloned().collect()
        });
        self.join(ascend, nvidia)
    }

    fn join(&self, ascend: Part, nvidia: Part) -> Found {
        let (nics, mut network) = rdma::nics(&self.host);
        let (addresses, more) = net::addresses(&self.host);
        network.extend(more);
        let mut inventory =
            Inventory { settled: self.settled, nics, addresses, ..Inventory::default() };
        let mut findings: Vec<(Area, Vec<Finding>)> = Vec::new();
        for (area, part) in [(Area::Ascend, ascend), (Area::Nvidia, nvidia)] {
            inventory.drivers.extend(part.drivers);
            inventory.devices.extend(part.devices);
            inventory.links.extend(part.links);
            inventory.super_pod = inventory.super_pod.or(part.super_pod);
            findings.push((area, part.findings));
        }
        findings.push((Area::Network, network));
        inventory.sort();
        topology::fill(&self.host, &mut inventory);
        inventory.sort();
        Found { inventory, findings }
    }
}
