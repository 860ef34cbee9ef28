//! Asking `nvidia-smi`.
//!
//! One call tells which GPUs answer. The rest, which hardly ever changes, takes three more calls.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use muster_proto::device::{Fabric, PciAddress};

use super::facts::{Call, Joins, News};
use super::parse::{self, Row};
use crate::discover::matrix::plain;
use crate::host::Host;
use crate::problem::Finding;
use crate::tool::{ToolError, Tools};

/// Where it may be: the distribution's, the one of an image without packages, and that of NVIDIA's driver container,
/// which the GPU Operator starts on nodes without a driver of their own.
const PATHS: [&str; 3] = [
    "/usr/bin/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
];

/// The library that the tool of the driver container opens; the system's linker does not look there.
const CONTAINER: &str = "/run/nvidia/driver/";
const LIBRARIES: [&str; 3] = [
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
];

/// The temperature comes from the GPU itself: one that is lost cannot tell it.
const HEALTH: &str = "--query-gpu=index,uuid,pci.bus_id,name,temperature.gpu";
const FABRIC: &str = "--query-gpu=index,uuid,pci.bus_id,name,fabric.clusterUuid,fabric.cliqueId";
const FORMAT: &str = "--format=csv,noheader";

/// What the tool returns for fields that it does not know.
const UNKNOWN_FIELD: i32 = 2;

/// The tool of one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Smi {
    path: &'static str,
    /// Loaded before it starts, by its whole path: its directory has the container's C library as well.
    library: Option<String>,
}

impl Default for Smi {
    fn default() -> Self {
        let [path, ..] = PATHS;
        Self { path, library: None }
    }
}

/// Rows of an answer, how many lines are none, and who is said to be gone.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    other: usize,
    faults: BTreeMap<PciAddress, String>,
}

// === impl Smi ===

impl Smi {
    /// The first that is there.
    pub fn find(host: &Host) -> Self {
        let Some(path) = PATHS.into_iter().find(|path| host.resolve(path).is_ok()) else {
            return Self::default();
        };
        let library = || LIBRARIES.iter().find_map(|library| trusted(host, library));
        Self { path, library: path.starts_with(CONTAINER).then(library).flatten() }
    }

    fn tools(&self, tools: &Tools) -> Tools {
        match &self.library {
            Some(library) => tools.clone().env("LD_PRELOAD", library),
            None => tools.clone(),
        }
    }

    /// Which of these GPUs answer, and if `whole` everything else. The answer is whole when there is no finding.
    pub async fn ask(&self, tools: &Tools, gpus: &[PciAddress], all: bool) -> (News, Vec<Finding>) {
        let tools = &self.tools(tools);
        let (mut news, mut findings) = (News::default(), Vec::new());
        let Rows { mut rows, mut faults, .. } = match self.query(tools, HEALTH, &[]).await {
            Ok(answer) => {
                if answer.other > 0 || answer.rows.is_empty() {
                    let (path, other) = (self.path, answer.other);
                    let message =
                        format!("{path} {HEALTH}: {other} lines that are no rows of the answer");
                    findings.push(Finding::new("malformed", "nvidia-smi", message));
                }
                if answer.rows.is_empty() {
                    return (news, findings);
                }
                answer
            }
            // One lost GPU fails the question about all: ask about each.
            Err(error @ ToolError::Failed { .. }) => {
                findings.push(finding(&error));
                Rows::default()
            }
            Err(error) => return (news, vec![finding(&error)]),
        };
        let missing = |pci: &&PciAddress| !rows.iter().any(|row| row.pci == **pci);
        let missing: Vec<PciAddress> = gpus.iter().filter(missing).copied().collect();
        let more = self.each(tools, &missing).await;
        rows.extend(more.rows);
        if rows.is_empty() {
            // It is the tool that is sick, or we cannot tell.
            return (news, findings);
        }
        faults.extend(more.faults);
        let by_index: BTreeMap<u32, PciAddress> =
            rows.iter().map(|row| (row.index, row.pci)).collect();
        for Row { index, uuid, pci, model, .. } in rows {
            let call = match faults.contains_key(&pci) {
                // What it says of itself then is no name.
                true => Call { index: Some(index), ..Call::default() },
                false => Call { index: Some(index), uuid, model, fault: None },
            };
            news.calls.insert(pci, call);
        }
        for (pci, said) in faults {
            news.calls.entry(pci).or_default().fault = Some(format!("nvidia-smi: {said}"));
        }
        if all {
            self.slow(tools, &by_index, &mut news, &mut findings).await;
        }
        (news, findings)
    }

    /// The topics that take a call each. One that fails does not take the others with it.
    async fn slow(
        &self,
        tools: &Tools,
        by_index: &BTreeMap<u32, PciAddress>,
        news: &mut News,
        findings: &mut Vec<Finding>,
    ) {
        let (fabrics, listing, matrix) = tokio::join!(
            self.fabrics(tools),
            tools.run(self.path, &["-L"]),
            tools.run(self.path, &["topo", "-m"])
        );
        match fabrics {
            Ok(fabrics) => news.fabrics = fabrics,
            Err(error) => findings.push(finding(&error)),
        }
        match listing {
            Ok(text) => {
                let slices = parse::slices(&text);
                if slices.is_empty() {
                    let message = format!("{} -L lists no GPU", self.path);
                    findings.push(Finding::new("malformed", "nvidia-smi -L", message));
                }
                let of = |(index, slices)| Some((*by_index.get(&index)?, slices));
                news.slices = slices.into_iter().filter_map(of).collect();
            }
            Err(error) => findings.push(finding(&error)),
        }
        match matrix {
            Ok(text) => {
                let topology = parse::topology(&text);
                if !by_index.keys().eq(&topology.gpus) {
                    let (has, all) = (topology.gpus.len(), by_index.len());
                    let message = format!("{} topo -m has {has} of {all} GPUs", self.path);
                    findings.push(Finding::new("malformed", "nvidia-smi topo", message));
                }
                let place = |index: &u32| by_index.get(index).copied();
                let pair = |((a, b), count): (&(u32, u32), &u8)| {
                    let (a, b) = (place(a)?, place(b)?);
                    Some(((a.min(b), a.max(b)), *count))
                };
                let counts = topology.joins.iter().filter_map(pair).collect();
                news.joins = Joins { of: topology.gpus.iter().filter_map(place).collect(), counts };
            }
            Err(error) => findings.push(finding(&error)),
        }
    }

    /// The fabrics of all GPUs; of none when the driver is too old to know of them.
    pub async fn fabrics(
        &self,
        tools: &Tools,
    ) -> Result<BTreeMap<PciAddress, Option<Fabric>>, ToolError> {
        match self.query(&self.tools(tools), FABRIC, &[]).await {
            Ok(answer) => Ok(answer.rows.into_iter().map(|row| (row.pci, row.fabric)).collect()),
            Err(ToolError::Failed { status, .. }) if status.code() == Some(UNKNOWN_FIELD) => {
                Ok(BTreeMap::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn query(&self, tools: &Tools, fields: &str, of: &[&str]) -> Result<Rows, ToolError> {
        let text = tools.run(self.path, &[&[fields, FORMAT], of].concat()).await?;
        let (rows, other) = parse::rows(&text);
        Ok(Rows { rows, other, faults: parse::faults(&text) })
    }

    /// Asks about one GPU at a time; those that fail are lost if others do not.
    async fn each(&self, tools: &Tools, gpus: &[PciAddress]) -> Rows {
        let mut all = Rows::default();
        for pci in gpus {
            match self.query(tools, HEALTH, &["-i", &pci.to_string()]).await {
                Ok(its) => {
                    all.rows.extend(its.rows.into_iter().filter(|row| row.pci == *pci));
                    all.faults.extend(its.faults);
                }
                Err(ToolError::Failed { said, .. }) => {
                    all.faults.insert(*pci, plain(&said, 200));
                }
                // It hangs or is gone: the others would have to wait for nothing.
                Err(_) => break,
            }
        }
        all
    }
}

/// A library's path for this process, if nobody but root and we can have written it.
fn trusted(host: &Host, library: &str) -> Option<String> {
    let path = host.path(&host.resolve(library).ok()?.to_string_lossy());
    let found = path.symlink_metadata().ok()?;
    let ours = [0, nix::unistd::geteuid().as_raw()].contains(&found.uid());
    let safe = ours && found.mode() & 0o022 == 0 && found.is_file();
    // The linker takes blanks and colons for ends of names.
    let path = path.to_str().filter(|path| !path.contains([' ', ':']))?;
    safe.then(|| path.to_owned())
}

fn finding(error: &ToolError) -> Finding {
    Finding::new(error.reason(), "nvidia-smi", error)
}
