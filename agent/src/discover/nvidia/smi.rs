//! Asking `nvidia-smi`.

use std::collections::BTreeMap;

use muster_proto::device::PciAddress;

use super::facts::{Facts, Told};
use super::parse::{self, Row};
use crate::problem::Finding;
use crate::tool::{ToolError, Tools};

const SMI: &str = "/usr/bin/nvidia-smi";
const PLAIN: &str = "--query-gpu=index,uuid,pci.bus_id,name";
const WITH_FABRIC: &str =
    "--query-gpu=index,uuid,pci.bus_id,name,fabric.clusterUuid,fabric.cliqueId";
const FORMAT: &str = "--format=csv,noheader";

/// What the tool knows of these GPUs. Facts are whole when there is no finding.
pub(super) async fn ask(tools: &Tools, gpus: &[PciAddress]) -> (Facts, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut facts = Facts::default();
    let rows = match query(tools, &[]).await {
        Ok(rows) => rows,
        // One lost GPU fails the question about all: ask about each.
        Err(error @ ToolError::Failed { .. }) => {
            let (rows, lost) = each(tools, gpus).await;
            if rows.0.is_empty() {
                return (facts, vec![finding(&error)]);
            }
            findings.push(finding(&error));
            facts.gpus.extend(lost);
            rows
        }
        Err(error) => return (facts, vec![finding(&error)]),
    };
    let (rows, other) = rows;
    if other > 0 || rows.is_empty() {
        let message = format!("{SMI} {WITH_FABRIC}: {other} lines that are no rows of the answer");
        findings.push(Finding::new("malformed", "nvidia-smi", message));
    }
    if rows.is_empty() {
        return (facts, findings);
    }
    let by_index: BTreeMap<u32, PciAddress> = rows.iter().map(|row| (row.index, row.pci)).collect();
    for Row { index, uuid, pci, model, fabric } in rows {
        let told = Told { index: Some(index), uuid, model, fabric, ..Told::default() };
        facts.gpus.insert(pci, told);
    }
    let (listing, matrix) = tokio::join!(tools.run(SMI, &["-L"]), tools.run(SMI, &["topo", "-m"]));
    match listing {
        Ok(text) => {
            for (index, slices) in parse::slices(&text) {
                let gpu = by_index.get(&index).and_then(|pci| facts.gpus.get_mut(pci));
                if let Some(gpu) = gpu {
                    gpu.mig = slices;
                }
            }
        }
        Err(error) => findings.push(finding(&error)),
    }
    match matrix {
        Ok(text) => {
            let topology = parse::topology(&text);
            if !by_index.keys().eq(&topology.gpus) {
                let (has, all) = (topology.gpus.len(), by_index.len());
                let message = format!("{SMI} topo -m has {has} of {all} GPUs");
                findings.push(Finding::new("malformed", "nvidia-smi topo", message));
            }
            for ((a, b), count) in topology.joins {
                if let (Some(a), Some(b)) = (by_index.get(&a), by_index.get(&b)) {
                    facts.joins.insert((*a.min(b), *a.max(b)), count);
                }
            }
        }
        Err(error) => findings.push(finding(&error)),
    }
    (facts, findings)
}

/// Rows of the answer, and how many lines are none. Old drivers refuse fields that they do not know, all of them.
pub(super) async fn query(tools: &Tools, which: &[&str]) -> Result<(Vec<Row>, usize), ToolError> {
    let args = |fields| [&[fields, FORMAT], which].concat();
    let text = match tools.run(SMI, &args(WITH_FABRIC)).await {
        Err(ToolError::Failed { .. }) => tools.run(SMI, &args(PLAIN)).await?,
        other => other?,
    };
    Ok(parse::rows(&text))
}

type Rows = (Vec<Row>, usize);

/// Asks about one GPU at a time; those that fail while others do not are lost.
async fn each(tools: &Tools, gpus: &[PciAddress]) -> (Rows, BTreeMap<PciAddress, Told>) {
    let (mut rows, mut other, mut lost) = (Vec::new(), 0, BTreeMap::new());
    for pci in gpus {
        match query(tools, &["-i", &pci.to_string()]).await {
            Ok((its, lines)) => {
                rows.extend(its);
                other += lines;
            }
            Err(ToolError::Failed { said, .. }) => {
                let said = crate::discover::matrix::plain(&said, 200);
                let fault = Some(format!("nvidia-smi: {said}"));
                lost.insert(*pci, Told { fault, ..Told::default() });
            }
            // It hangs or is gone: the others would have to wait for nothing.
            Err(_) => break,
        }
    }
    ((rows, other), lost)
}

fn finding(error: &ToolError) -> Finding {
    Finding::new(error.reason(), "nvidia-smi", error)
}
