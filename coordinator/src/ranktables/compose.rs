//! A table is made: assembled and rendered. Pure, and heavy: not for an async task.

use std::sync::Arc;

use muster_hub::blob::PackError;
use muster_hub::registry::AgentReport;
use muster_ranktable::{
    Numbering, Order, Pod, RenderError, Request, Stability, TableTemplate, Topology,
};

use super::agent_report::working_devices;
use super::record::{Content, pack_numbering, unpack_numbering};

/// What a table is made from.
#[derive(Debug)]
pub struct ComposeInput {
    /// The pods.
    pub holders: Vec<Holder>,
    /// The template.
    pub template: Arc<TableTemplate>,
    /// When the pods changed last.
    pub changed: String,
    /// The ranks of the last table, packed, as the record has them.
    pub numbering: Option<bytes::Bytes>,
    /// The order of ranks.
    pub order: Order,
    /// What the agents saw of the network.
    pub topology: Option<Topology>,
}

/// A pod and what it holds.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The pod.
    pub pod: Pod,
    /// What its node's agent reports; none where its annotation counts.
    pub report: Option<AgentReport>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Composed {
    /// Its text.
    pub text: Arc<str>,
    /// Servers in it.
    pub servers: usize,
    /// Ranks in it.
    pub ranks: usize,
    /// The ranks for the record, where they must not change without need.
    pub numbering: Option<bytes::Bytes>,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// The pods make no table with this template.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The table cannot be sent.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A defect.
    #[error("making the table ended unexpectedly: this is a defect")]
    Panicked,
}

/// Makes a table.
pub fn compose(input: ComposeInput) -> Result<Composed, ComposeError> {
    let ComposeInput { holders, template, changed, numbering, order, topology } = input;
    let keep = template.stability == Stability::Keep;
    // One that cannot be read is none: the ranks are then counted anew.
    let previous = numbering
        .as_ref()
        .filter(|_| keep)
        .and_then(unpack_numbering)
        .and_then(|text| Numbering::read(&text).ok());
    let request = Request {
        changed: &changed,
        order: Some(order),
        previous: previous.as_ref(),
        topology: topology.as_ref(),
        ..Request::default()
    };
    let pods: Vec<Pod> = holders.into_iter().map(Holder::into_pod).collect();
    let rendered = template.render(&pods, &request)?;
    let numbering = keep.then(|| pack_numbering(&rendered.table.numbering().write())).flatten();
    Ok(Composed {
        servers: rendered.table.server_count,
        ranks: rendered.table.total_devices,
        text: rendered.text.into(),
        numbering,
    })
}

// === impl Holder ===

impl Holder {
    /// The pod as tables are made of it.
    fn into_pod(self) -> Pod {
        let reported = self.report.as_ref().and_then(working_devices).map(Arc::new);
        Pod { reported, ..self.pod }
    }
}

// === impl ComposeError ===

impl ComposeError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Render(error) => error.reason(),
            Self::Pack(error) => error.reason(),
            Self::Panicked => "internal",
        }
    }
}

// === impl Composed ===

impl Composed {
    /// What the record can hold of it.
    pub fn content(&self) -> Content {
        Content::of(&self.text, self.numbering.as_ref().map_or(0, bytes::Bytes::len))
    }
}

#[cfg(test)]
mod tests;
