//! Questions to a cluster, or to a snapshot of one.
//!
//! ```text
//!   API server ──▶ cluster (lists in pages) ──▶ prune ──┐
//!                                                       ├──▶ world ──▶ explain · queues · topology · nodes
//!   snapshot file ──────────────────────────────────────┘      └ the engine: same code, same settings
//! ```
//!
//! What decides here is pure: it sees a world and returns numbers. Only `cluster` talks to anybody.

mod cluster;
mod devices;
mod explain;
mod kinds;
mod nodes;
mod prune;
mod queues;
mod snapshot;
mod table;
mod topology;
mod world;

use std::io::Write;

use serde::Serialize;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::explain::explain;
pub(crate) use self::kinds::{Kind, ListedFields, Need};
pub(crate) use self::nodes::nodes;
pub(crate) use self::queues::queues;
pub(crate) use self::snapshot::snapshot;
pub(crate) use self::topology::topology;

use crate::Failure;
use crate::args::Show;

/// Prints an answer for programs, if it is for them.
pub(crate) fn for_programs(
    answer: &impl Serialize,
    show: Show,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    match show {
        Show::Table | Show::Wide => return Ok(false),
        Show::Json => {
            serde_json::to_writer_pretty(&mut *out, answer).map_err(Failure::wrong)?;
            writeln!(out)?;
        }
        Show::Yaml => {
            // By way of JSON, so that both have the same fields and numbers.
            let json = serde_json::to_value(answer).map_err(Failure::wrong)?;
            let text = serde_saphyr::to_string(&json).map_err(Failure::wrong)?;
            writeln!(out, "{}", text.trim_end())?;
        }
    }
    Ok(true)
}
