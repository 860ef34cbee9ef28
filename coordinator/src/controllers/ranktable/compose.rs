//! A table is made: assembled, rendered, packed. Pure, and heavy: not for an async task.

use std::sync::Arc;

use muster_proto::delivery::Digest;
use muster_ranktable::{Numbering, Order, Pod, Request, Stability, TableTemplate, Topology};

use super::record::{Content, pack_numbering, unpack_numbering};
use muster_hub::Hub;
use muster_hub::blob::Blob;

/// What a table is made from.
#[derive(Debug)]
pub struct Input {
    /// The pods, each with what it holds.
    pub pods: Vec<Pod>,
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

/// A table.
#[derive(Clone, Debug)]
pub struct Composed {
    /// Its text.
    pub text: Arc<str>,
    /// The same as it travels.
    pub blob: Arc<Blob>,
    /// Servers in it.
    pub servers: usize,
    /// Ranks in it.
    pub ranks: usize,
    /// The ranks for the record, where they must not change without need.
    pub numbering: Option<bytes::Bytes>,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncomposed {
    /// For metrics.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Makes a table.
pub fn compose(input: &Input, hub: &Hub) -> Result<Composed, Uncomposed> {
    let Input { pods, template, changed, numbering, order, topology } = input;
    let keep = template.stability == Stability::Keep;
    // One that cannot be read is none: the ranks are then counted anew.
    let previous = numbering
        .as_ref()
        .filter(|_| keep)
        .and_then(unpack_numbering)
        .and_then(|text| Numbering::read(&text).ok());
    let request = Request {
        changed,
        order: Some(*order),
        previous: previous.as_ref(),
        topology: topology.as_ref(),
        ..Request::default()
    };
    let rendered = template
        .render(pods, &request)
        .map_err(|error| Uncomposed { reason: error.reason(), message: error.to_string() })?;
    let blob = hub
        .pack(rendered.text.as_bytes())
        .map_err(|error| Uncomposed { reason: error.reason(), message: error.to_string() })?;
    let numbering = keep.then(|| pack_numbering(&rendered.table.numbering().write())).flatten();
    Ok(Composed {
        servers: rendered.table.server_count,
        ranks: rendered.table.total_devices,
        text: rendered.text.into(),
        blob,
        numbering,
    })
}

// === impl Composed ===

impl Composed {
    /// What names the content.
    pub fn digest(&self) -> Digest {
        self.blob.digest()
    }

    /// What the record can hold of it.
    pub fn content(&self) -> Content {
        Content::of(&self.text, self.numbering.as_ref().map_or(0, bytes::Bytes::len))
    }
}

#[cfg(test)]
mod tests;
