//! What agent and hub tell each other, as values; and how they are written on the wire.
//!
//! ```text
//!   value ──From──▶ v1 (generated) ──prost──▶ bytes      always possible
//!   value ◀─TryFrom─ v1            ◀─prost── bytes       checked: every list, text and number has a bound
//! ```
//!
//! Whoever has a value of this module has a checked one; what is wrong with a message names its field.
//! Lists are sent in the order that they have, so that equal values have equal bytes and one [`Digest`].

use std::time::Duration;

use prost::Message as _;
use prost::bytes::Bytes;

use crate::delivery::{Delivered, Delivery, Digest, Place};
use crate::device::Inventory;
use crate::pod::PodDevices;

mod bounds;
mod inventory;
mod messages;
mod pods;
mod reader;
mod table;
#[cfg(test)]
mod tests;

pub use reader::Invalid;

/// The messages as they are generated from `link.proto`.
#[allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("muster.v1");
}

/// The version of the protocol that this crate speaks. 2: tables are packed twice; an agent of version 1 would write what is inside
/// the outer frame as the table.
pub const PROTOCOL: u32 = 2;

/// No message is larger, in either direction.
pub const LARGEST_MESSAGE: usize = 4 * 1024 * 1024;

/// No part of a table is larger.
pub const LARGEST_CHUNK: usize = 64 * 1024;

/// No text is longer.
pub const LONGEST_TEXT: usize = 1024;

/// No node has more devices.
pub const MOST_DEVICES: usize = 1024;

/// No node has more network ports.
pub const MOST_NICS: usize = 1024;

/// No inventory has more joins: all pairs of 512 ends.
pub const MOST_LINKS: usize = 131_072;

/// No device has more slices, no node more drivers.
pub const MOST_PARTS: usize = 64;

/// No node has more addresses.
pub const MOST_ADDRESSES: usize = 4096;

/// No node has more pods with devices.
pub const MOST_PODS: usize = 4096;

/// No pod holds more devices (slices count each).
pub const MOST_HELD: usize = 4096;

/// No node has more tables.
pub const MOST_TABLES: usize = 4096;

/// What an agent says.
#[derive(Clone, Debug, PartialEq)]
pub enum FromAgent {
    /// Who it is: the first message.
    Hello(Hello),
    /// Its hardware, whole.
    Inventory(Box<Inventory>),
    /// Which pod holds what, as a change.
    Pods(PodsChanged),
    /// What became of an order.
    Ack(Ack),
    /// The agent lives; the number comes back in a pong.
    Ping(u64),
}

/// What a hub says.
#[derive(Clone, Debug, PartialEq)]
pub enum FromHub {
    /// Who it is: the first message.
    Welcome(Welcome),
    /// A part of a table.
    Chunk(Chunk),
    /// Put a table somewhere.
    Deliver {
        /// The epoch of the hub.
        epoch: u64,
        /// What and where.
        delivery: Delivery,
    },
    /// Take a table away.
    Retire {
        /// The epoch of the hub.
        epoch: u64,
        /// The pod, volume and file of the table.
        place: Place,
        /// This generation and older ones.
        generation: u64,
    },
    /// The answer to a ping.
    Pong(u64),
    /// Somebody else leads; none: nobody is known to.
    Redirect(Option<String>),
}

/// Who an agent is and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol that the agent speaks, [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the agent's Node object.
    pub node: String,
    /// Of the machine.
    pub boot_id: String,
    /// Of the agent.
    pub version: String,
    /// Differs between two runs of the agent.
    pub instance: String,
    /// Digest of its inventory, once it has one.
    pub inventory: Option<Digest>,
    /// Digest of its pods, once it knows them.
    pub pods: Option<Digest>,
    /// Tables that are where they should be.
    pub delivered: Vec<Delivered>,
}

/// Who a hub is and what it remembers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Grows with every change of leader.
    pub epoch: u64,
    /// Of the coordinator.
    pub version: String,
    /// Digest of the inventory that it has.
    pub inventory: Option<Digest>,
    /// Digest of the pods that it has.
    pub pods: Option<Digest>,
    /// How often to ping; three times this without a word means that a peer is gone.
    pub ping_every: Duration,
}

/// A part of a packed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Of the table, unpacked.
    pub digest: Digest,
    /// Of the whole, packed.
    pub packed_size: u64,
    /// Where the part begins.
    pub offset: u64,
    /// A part of the packed table.
    pub bytes: Bytes,
    /// Whether it is the last.
    pub last: bool,
}

/// A change of which pod holds what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsChanged {
    /// Whether all other pods are gone.
    pub full: bool,
    /// New ones and changed ones.
    pub upserts: Vec<PodDevices>,
    /// Uids of those that are gone.
    pub gone: Vec<String>,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The pod, volume and file of the table.
    pub place: Place,
    /// The generation that the order named.
    pub generation: u64,
    /// What became of the order.
    pub outcome: AckOutcome,
}

/// How an order ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// The table is there.
    Delivered(Digest),
    /// The table is gone, as asked.
    Retired,
    /// It was not done.
    Refused {
        /// Why, for metrics.
        reason: String,
        /// Why, for a person.
        message: String,
    },
}

/// What names an inventory: equal ones have the same.
pub fn inventory_digest(inventory: &Inventory) -> Digest {
    Digest::of(&v1::Inventory::from(inventory).encode_to_vec())
}

/// What names a node's pods: give them in order of uid.
pub fn pods_digest<'a>(pods: impl IntoIterator<Item = &'a PodDevices>) -> Digest {
    let upserts = pods.into_iter().map(v1::PodDevices::from).collect();
    Digest::of(&v1::PodsChanged { full: true, upserts, gone: Vec::new() }.encode_to_vec())
}
