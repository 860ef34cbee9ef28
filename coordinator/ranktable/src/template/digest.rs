//! What a template is, in 32 bytes, and what it asks of its pods.

use muster_proto::delivery::Digest;

use super::{Level, Source, TableTemplate};
use crate::number::Stability;
use crate::order::Order;

/// Goes first, so that another way to count never gives the digest of this one.
const FORM: &str = "muster.dev/table-template/1";

// === impl TableTemplate ===

impl TableTemplate {
    /// Whether a table shows addresses of the pods or of their hosts, which come later than devices do: it cannot be
    /// made before they are known. As with
    /// `Pods` and `Roles`, the text decides: one that prints whole structs says so by mentioning the field, if only in
    /// a comment.
    pub fn needs_addresses(&self) -> bool {
        ["ContainerIp", "PodIp", "HostIp"].iter().any(|field| self.table.mentions(field))
    }

    /// A digest of everything that decides a table and its place. Equal templates have equal digests, whatever their
    /// ConfigMaps are called, and in every run.
    pub fn digest(&self) -> Digest {
        let level = match self.level {
            Level::Role => "role",
            Level::Group => "group",
        };
        let order = match self.order {
            // What follows from no order is not the same everywhere: it is not what follows from this one.
            None => "seed",
            Some(Order::Lexical) => "lexicographic",
            Some(Order::Numeric) => "numeric",
            Some(Order::Pod) => "pod",
            Some(Order::Topology) => "topology",
        };
        let stability = match self.stability {
            Stability::Recount => "recount",
            Stability::Keep => "keep",
        };
        let Source { text: parser, .. } = &self.parser;
        let Source { text: table, .. } = &self.table;
        let parts =
            [FORM, parser, table, level, order, stability, &self.mount_path, &self.filename];
        let mut bytes = Vec::with_capacity(256 + parser.len() + table.len());
        for part in parts {
            // Its length first: no two lists of parts give the same bytes.
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
        Digest::of(&bytes)
    }
}
