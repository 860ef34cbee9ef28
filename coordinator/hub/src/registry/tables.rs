//! What should be on a node, what is, and what was refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::link::MOST_TABLES;

use super::super::blob::Blob;

/// Reasons that may be gone in a moment, or when somebody has mended the node. All others stay what they are
/// until something else is wanted.
pub(super) const TRANSIENT: [&str; 11] = [
    "busy",
    "denied",
    "disk-full",
    "internal",
    "io",
    "kubelet-directory",
    "quota",
    "read-only",
    "unknown-pod",
    "volume-missing",
    "volume-not-mounted",
];

/// The tables of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// What should be there.
    pub desired: Vec<Delivery>,
    /// What the agent says is there.
    pub delivered: Vec<Delivered>,
    /// What the agent has refused last, by place.
    pub refused: BTreeMap<Place, Refusal>,
}

/// An order that an agent has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of the order.
    pub generation: u64,
    /// Why, for metrics.
    pub reason: String,
    /// Why, for a person.
    pub message: String,
}

/// What is not accepted from a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// Another hub leads, or none.
    #[error("this hub does not lead; ask the one that does")]
    NotLeading,
    /// No agent of the node has ever reported.
    #[error("node {0} has no agent")]
    UnknownNode(String),
    /// The pod is not on the node, or its agent has not said so yet.
    #[error("pod {uid} is not known to be on node {node}")]
    PodElsewhere {
        /// The node.
        node: String,
        /// The pod.
        uid: String,
    },
    /// Generations only grow.
    #[error("{place} has generation {known}; {given} is older or has another content")]
    OlderGeneration {
        /// Where.
        place: Place,
        /// What is wanted already.
        known: u64,
        /// What was given.
        given: u64,
    },
    /// The content is not the one that is named.
    #[error("the delivery names {named}, its content is {content}")]
    OtherContent {
        /// In the delivery.
        named: Digest,
        /// Of the blob.
        content: Digest,
    },
    /// Permissions that no table has.
    #[error("mode {0:o} is beyond 777")]
    Mode(u32),
    /// Too many tables on one node.
    #[error("node {0} has {MOST_TABLES} tables already")]
    TooMany(String),
}

#[derive(Debug)]
pub(super) enum Desired {
    Table {
        delivery: Delivery,
        blob: Arc<Blob>,
        retries: u32,
    },
    /// Nothing of this generation or an older one.
    Nothing {
        generation: u64,
    },
}

// === impl Refusal ===

impl Refusal {
    /// Whether the same order may be carried out later.
    pub fn is_transient(&self) -> bool {
        TRANSIENT.contains(&self.reason.as_str())
    }
}

// === impl DeliverError ===

impl DeliverError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotLeading => "not-leading",
            Self::UnknownNode(_) => "unknown-node",
            Self::PodElsewhere { .. } => "pod-elsewhere",
            Self::OlderGeneration { .. } => "older-generation",
            Self::OtherContent { .. } => "other-content",
            Self::Mode(_) => "mode",
            Self::TooMany(_) => "too-many-tables",
        }
    }
}

// === impl Desired ===

impl Desired {
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Table { delivery, .. } => delivery.generation,
            Self::Nothing { generation } => *generation,
        }
    }
}
