//! A group's table: assembled from its pods, then written by its template.
//!
//! ```text
//!   pods ──group──▶ seats ──order──▶ sorted ──number──▶ ranks ──▶ Table ──template──▶ text ──▶ valid JSON?
//! ```
//!
//! The same pods, in whatever order, give the same bytes. The time in a table is the time at which its input
//! changed, so that an unchanged group is rendered unchanged.

mod build;

use gotemplate::Template;
use serde::de::IgnoredAny;

use crate::group::{Group, GroupError};
use crate::number::{self, Numbering, Stability};
use crate::order::{Order, Topology};
use crate::pod::Pod;
use crate::table::{Shape, Table};
use crate::template::{TableTemplate, TemplateError};

/// What a table is made with, beside its pods and its template.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// When the input changed last, in RFC 3339.
    pub changed: &'a str,
    /// Another order than the template's, or than `lexical` where it says none.
    pub order: Option<Order>,
    /// The ranks that the group had before.
    pub previous: Option<&'a Numbering>,
    /// What the agents saw of the network.
    pub topology: Option<&'a Topology>,
    /// Refuse nothing, and show the seed's fields alone: the recorded behaviour, byte by byte.
    pub lenient: bool,
}

/// A table and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The table.
    pub table: Table,
    /// What goes into the file.
    pub text: String,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The pods make no group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The table template does not parse or does not execute.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The file would not be JSON although its name says so.
    #[error(
        "ConfigMap {config_map}, key ranktable-template: the output for {filename} is no JSON: {message}; quote every text with quote or toJson"
    )]
    NotJson {
        /// The template's ConfigMap.
        config_map: String,
        /// The file.
        filename: String,
        /// What is wrong, with line and column of the output.
        message: String,
    },
}

// === impl RenderError ===

impl RenderError {
    /// The step that failed, as the conformance cases name it.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Group(error) => error.stage(),
            Self::Template(_) => "ranktable-template",
            Self::NotJson { .. } => "ranktable-json",
        }
    }

    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Group(error) => error.reason(),
            Self::Template(error) => error.reason(),
            Self::NotJson { .. } => "output-not-json",
        }
    }
}

// === impl TableTemplate ===

impl TableTemplate {
    /// Assembles and renders the table of these pods.
    pub fn render(&self, pods: &[Pod], request: &Request<'_>) -> Result<Rendered, RenderError> {
        let table = self.assemble(pods, request)?;
        let text = self.write(&table, request.lenient)?;
        Ok(Rendered { table, text })
    }

    /// Assembles the table of these pods.
    pub fn assemble(&self, pods: &[Pod], request: &Request<'_>) -> Result<Table, GroupError> {
        let group = Group::read(self, pods, request.lenient)?;
        let order =
            request.order.or(self.order).unwrap_or_default().arrange(&group, request.topology);
        if !request.lenient {
            group.each_device_once(&order)?;
        }
        let previous = request.previous.filter(|_| self.stability == Stability::Keep);
        let positions = order.servers.filter(|_| previous.is_none());
        let by_rank = number::assign(&group, order.seats, previous);
        let detail = build::Detail {
            pods: self.table.mentions(".Pods") && !request.lenient,
            roles: self.table.mentions(".Roles") && !request.lenient,
            shape: if request.lenient { Shape::Seed } else { Shape::Full },
        };
        let mut table = build::table(group, &by_rank, positions, detail);
        request.changed.clone_into(&mut table.timestamp);
        Ok(table)
    }

    /// Renders a table.
    pub fn write(&self, table: &Table, lenient: bool) -> Result<String, RenderError> {
        let template: &Template = self.table.get()?;
        // What most templates write; a wrong guess costs a copy.
        let mut bytes = Vec::with_capacity(1024 + table.total_devices * 192);
        template.execute(table, &mut bytes).map_err(|error| self.table.error(error))?;
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if self.filename.ends_with(".json")
            && !lenient
            && let Err(error) = serde_json::from_str::<IgnoredAny>(&text)
        {
            return Err(RenderError::NotJson {
                config_map: self.name.clone(),
                filename: self.filename.clone(),
                message: error.to_string(),
            });
        }
        Ok(text)
    }
}

// === impl Table ===

impl Table {
    /// The ranks, for the next generation.
    pub fn numbering(&self) -> Numbering {
        let mut numbering = Numbering::default();
        for server in &self.servers {
            for device in &server.devices {
                let rank = device.rank_id.number();
                numbering.insert(&server.server_id, &device.device_id, rank);
            }
        }
        numbering
    }
}

#[cfg(test)]
mod tests;
