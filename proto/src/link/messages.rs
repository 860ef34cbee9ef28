//! The two envelopes, and how a stream begins.

use std::time::Duration;

use prost::Message;

use super::reader::{Invalid, digest, list, name, part, text};
use super::{FromAgent, FromHub, Hello, MOST_TABLES, PodsChanged, Welcome, bounds, v1};
use crate::delivery::{Delivered, Digest};
use crate::device::Inventory;

/// Pings are at least so far apart.
const PING_SHORTEST: u32 = 10;
/// And at most so far, in milliseconds.
const PING_LONGEST: u32 = 10 * 60 * 1000;

fn bytes(digest: Digest) -> Vec<u8> {
    digest.as_bytes().to_vec()
}

fn known(field: &str, bytes: Option<Vec<u8>>) -> Result<Option<Digest>, Invalid> {
    bytes.map(|bytes| digest(field, &bytes)).transpose()
}

// === impl Hello ===

impl From<&Hello> for v1::Hello {
    fn from(hello: &Hello) -> Self {
        let Hello { protocol, node, boot_id, version, instance, inventory, pods, delivered } =
            hello.clone();
        Self {
            protocol,
            node,
            boot_id,
            version,
            instance,
            inventory_digest: inventory.map(bytes),
            pods_digest: pods.map(bytes),
            delivered: delivered.iter().map(v1::Delivered::from).collect(),
        }
    }
}

impl TryFrom<v1::Hello> for Hello {
    type Error = Invalid;

    fn try_from(wire: v1::Hello) -> Result<Self, Invalid> {
        Ok(Self {
            protocol: wire.protocol,
            node: name("node", wire.node)?,
            boot_id: text("boot_id", wire.boot_id)?,
            version: text("version", wire.version)?,
            instance: text("instance", wire.instance)?,
            inventory: known("inventory_digest", wire.inventory_digest)?,
            pods: known("pods_digest", wire.pods_digest)?,
            delivered: list("delivered", wire.delivered, MOST_TABLES, Delivered::try_from)?,
        })
    }
}

// === impl Welcome ===

impl From<&Welcome> for v1::Welcome {
    fn from(welcome: &Welcome) -> Self {
        let Welcome { epoch, version, inventory, pods, ping_every } = welcome.clone();
        let millis = u32::try_from(ping_every.as_millis()).unwrap_or(PING_LONGEST);
        Self {
            epoch,
            version,
            inventory_digest: inventory.map(bytes),
            pods_digest: pods.map(bytes),
            ping_millis: millis.clamp(PING_SHORTEST, PING_LONGEST),
        }
    }
}

impl TryFrom<v1::Welcome> for Welcome {
    type Error = Invalid;

    fn try_from(wire: v1::Welcome) -> Result<Self, Invalid> {
        if !(PING_SHORTEST..=PING_LONGEST).contains(&wire.ping_millis) {
            let problem =
                format!("is {}; {PING_SHORTEST} to {PING_LONGEST} are allowed", wire.ping_millis);
            return Err(Invalid::new("ping_millis", problem));
        }
        Ok(Self {
            epoch: wire.epoch,
            version: text("version", wire.version)?,
            inventory: known("inventory_digest", wire.inventory_digest)?,
            pods: known("pods_digest", wire.pods_digest)?,
            ping_every: Duration::from_millis(wire.ping_millis.into()),
        })
    }
}

// === impl FromAgent ===

impl From<&FromAgent> for v1::FromAgent {
    fn from(message: &FromAgent) -> Self {
        use v1::from_agent::Message as Wire;
        let message = match message {
            FromAgent::Hello(hello) => Wire::Hello(v1::Hello::from(hello).encode_to_vec()),
            FromAgent::Inventory(inventory) => {
                Wire::Inventory(v1::Inventory::from(&**inventory).encode_to_vec())
            }
            FromAgent::Pods(change) => Wire::Pods(v1::PodsChanged::from(change).encode_to_vec()),
            FromAgent::Ack(ack) => Wire::Ack(ack.into()),
            FromAgent::Ping(number) => Wire::Ping(v1::Ping { number: *number }),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<v1::FromAgent> for FromAgent {
    type Error = Invalid;

    fn try_from(wire: v1::FromAgent) -> Result<Self, Invalid> {
        use v1::from_agent::Message as Wire;
        let at = |field: &'static str| move |invalid: Invalid| invalid.within(field);
        Ok(match part("message", wire.message)? {
            Wire::Hello(bytes) => {
                let hello = bounds::decode::<v1::Hello>(&bytes).and_then(Hello::try_from);
                Self::Hello(hello.map_err(at("hello"))?)
            }
            Wire::Inventory(bytes) => {
                let inventory =
                    bounds::decode::<v1::Inventory>(&bytes).and_then(Inventory::try_from);
                Self::Inventory(Box::new(inventory.map_err(at("inventory"))?))
            }
            Wire::Pods(bytes) => {
                let change =
                    bounds::decode::<v1::PodsChanged>(&bytes).and_then(PodsChanged::try_from);
                Self::Pods(change.map_err(at("pods"))?)
            }
            Wire::Ack(ack) => Self::Ack(ack.try_into().map_err(at("ack"))?),
            Wire::Ping(v1::Ping { number }) => Self::Ping(number),
        })
    }
}

// === impl FromHub ===

impl From<FromHub> for v1::FromHub {
    fn from(message: FromHub) -> Self {
        use v1::from_hub::Message as Wire;
        let message = match message {
            FromHub::Welcome(welcome) => Wire::Welcome((&welcome).into()),
            FromHub::Chunk(chunk) => Wire::Chunk(chunk.into()),
            FromHub::Deliver { epoch, delivery } => {
                Wire::Deliver(v1::Deliver::order(epoch, &delivery))
            }
            FromHub::Retire { epoch, place, generation } => {
                Wire::Retire(v1::Retire { epoch, place: Some((&place).into()), generation })
            }
            FromHub::Pong(number) => Wire::Pong(v1::Pong { number }),
            FromHub::Redirect(address) => {
                Wire::Redirect(v1::Redirect { address: address.unwrap_or_default() })
            }
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<v1::FromHub> for FromHub {
    type Error = Invalid;

    fn try_from(wire: v1::FromHub) -> Result<Self, Invalid> {
        use v1::from_hub::Message as Wire;
        let at = |field: &'static str| move |invalid: Invalid| invalid.within(field);
        Ok(match part("message", wire.message)? {
            Wire::Welcome(welcome) => Self::Welcome(welcome.try_into().map_err(at("welcome"))?),
            Wire::Chunk(chunk) => Self::Chunk(chunk.try_into().map_err(at("chunk"))?),
            Wire::Deliver(order) => Self::Deliver {
                epoch: order.epoch,
                delivery: order.try_into().map_err(at("deliver"))?,
            },
            Wire::Retire(order) => {
                let epoch = order.epoch;
                let (place, generation) = order.read().map_err(at("retire"))?;
                Self::Retire { epoch, place, generation }
            }
            Wire::Pong(v1::Pong { number }) => Self::Pong(number),
            Wire::Redirect(v1::Redirect { address }) => {
                let address = text("redirect.address", address)?;
                Self::Redirect((!address.is_empty()).then_some(address))
            }
        })
    }
}
