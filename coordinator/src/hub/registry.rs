//! What the hub knows of every node: its stream, hardware, pods, and tables. Pure.
//!
//! Each fact belongs to a session, and only the newest session of a node is heard: whatever a stream says that
//! another has replaced is ignored. Facts outlive their session, so that an agent that comes back need not repeat
//! them. Generations only grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::device::Inventory;
use muster_proto::link::{
    Ack, Hello, MOST_PODS, MOST_TABLES, Outcome, PodsChanged, inventory_digest, pods_digest,
};
use muster_proto::pod::PodDevices;

use super::blob::Blob;
use super::queue::Order;

#[cfg(test)]
mod tests;

/// How often one content is sent again to a peer that says it does not have it.
const MOST_RETRIES: u32 = 3;

/// A stream that is welcomed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its node.
    pub node: String,
    /// Grows with every stream.
    pub number: u64,
    /// Of the machine.
    pub boot_id: String,
    /// Of the agent.
    pub version: String,
    /// Differs between two runs of the agent.
    pub instance: String,
    /// Since when, in seconds of the epoch.
    pub since: i64,
}

/// The tables of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// What should be there.
    pub wanted: Vec<Delivery>,
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

/// A new session.
#[derive(Debug, PartialEq)]
pub struct Opened {
    /// Its number.
    pub session: u64,
    /// What is remembered of the hardware.
    pub inventory: Option<Digest>,
    /// What is remembered of the pods.
    pub pods: Option<Digest>,
    /// What the agent has not done yet.
    pub orders: Vec<Order>,
}

/// What is not accepted from a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undeliverable {
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

/// All nodes.
#[derive(Debug, Default)]
pub struct Registry {
    nodes: BTreeMap<String, Node>,
    sessions: u64,
}

#[derive(Debug, Default)]
struct Node {
    session: Option<Session>,
    inventory: Option<(Arc<Inventory>, Digest)>,
    pods: Option<Pods>,
    wanted: BTreeMap<Place, Wanted>,
    delivered: BTreeMap<Place, (u64, Digest)>,
    refused: BTreeMap<Place, Refusal>,
}

#[derive(Debug)]
struct Pods {
    by_uid: BTreeMap<String, Arc<PodDevices>>,
    digest: Digest,
}

#[derive(Debug)]
enum Wanted {
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

// === impl Undeliverable ===

impl Undeliverable {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownNode(_) => "unknown-node",
            Self::PodElsewhere { .. } => "pod-elsewhere",
            Self::OlderGeneration { .. } => "older-generation",
            Self::OtherContent { .. } => "other-content",
            Self::Mode(_) => "mode",
            Self::TooMany(_) => "too-many-tables",
        }
    }
}

// === impl Wanted ===

impl Wanted {
    fn generation(&self) -> u64 {
        match self {
            Self::Table { delivery, .. } => delivery.generation,
            Self::Nothing { generation } => *generation,
        }
    }
}

// === impl Node ===

impl Node {
    /// What is to be said about a place, given what is there.
    fn order(&self, place: &Place) -> Option<Order> {
        let there = self.delivered.get(place);
        match self.wanted.get(place)? {
            Wanted::Table { delivery, blob, .. } => {
                let known =
                    self.pods.as_ref().is_some_and(|p| p.by_uid.contains_key(&place.pod_uid));
                let done = there == Some(&(delivery.generation, delivery.digest));
                let (delivery, blob) = (delivery.clone(), blob.clone());
                (known && !done).then_some(Order::Deliver { delivery, blob })
            }
            Wanted::Nothing { generation } => {
                let some = there.is_some_and(|(there, _)| there <= generation);
                let (place, generation) = (place.clone(), *generation);
                some.then_some(Order::Retire { place, generation })
            }
        }
    }

    fn is_heard(&self, session: u64) -> bool {
        self.session.as_ref().is_some_and(|own| own.number == session)
    }
}

// === impl Registry ===

impl Registry {
    /// An agent has said Hello. Another session of its node is replaced.
    pub fn open(&mut self, hello: Hello, since: i64) -> Opened {
        let Hello { node: name, boot_id, version, instance, delivered, .. } = hello;
        self.sessions += 1;
        let number = self.sessions;
        let node = self.nodes.entry(name.clone()).or_default();
        node.session = Some(Session { node: name, number, boot_id, version, instance, since });
        let there = |Delivered { place, generation, digest }| (place, (generation, digest));
        node.delivered = delivered.into_iter().map(there).collect();
        node.refused.clear();
        for wanted in node.wanted.values_mut() {
            if let Wanted::Table { retries, .. } = wanted {
                *retries = 0;
            }
        }
        Opened {
            session: number,
            inventory: node.inventory.as_ref().map(|(_, digest)| *digest),
            pods: node.pods.as_ref().map(|pods| pods.digest),
            orders: node.wanted.keys().filter_map(|place| node.order(place)).collect(),
        }
    }

    /// A stream has ended. False if another has replaced it before.
    pub fn close(&mut self, node: &str, session: u64) -> bool {
        match self.heard(node, session) {
            Some(node) => node.session.take().is_some(),
            None => false,
        }
    }

    fn heard(&mut self, node: &str, session: u64) -> Option<&mut Node> {
        self.nodes.get_mut(node).filter(|node| node.is_heard(session))
    }

    /// An agent reports its hardware. Whether that is news.
    pub fn set_inventory(&mut self, node: &str, session: u64, inventory: Inventory) -> bool {
        let Some(node) = self.heard(node, session) else { return false };
        let digest = inventory_digest(&inventory);
        let news = node.inventory.as_ref().map(|(_, known)| *known) != Some(digest);
        node.inventory = Some((Arc::new(inventory), digest));
        news
    }

    /// An agent reports its pods. Whether that is news; none if there are too many.
    pub fn change_pods(&mut self, node: &str, session: u64, change: PodsChanged) -> Option<bool> {
        let Some(node) = self.heard(node, session) else { return Some(false) };
        let PodsChanged { full, upserts, gone } = change;
        let before = node.pods.as_ref().map(|pods| pods.digest);
        let mut by_uid = match node.pods.take() {
            Some(pods) if !full => pods.by_uid,
            _ => BTreeMap::new(),
        };
        for uid in &gone {
            by_uid.remove(uid);
        }
        by_uid.extend(upserts.into_iter().map(|pod| (pod.pod.uid.clone(), Arc::new(pod))));
        let fits = by_uid.len() <= MOST_PODS;
        if !fits {
            by_uid.clear();
        }
        // A table goes with the volume of its pod.
        let lives = |place: &Place| by_uid.contains_key(&place.pod_uid);
        node.wanted.retain(|place, _| lives(place));
        node.delivered.retain(|place, _| lives(place));
        node.refused.retain(|place, _| lives(place));
        let digest = pods_digest(by_uid.values().map(|pod| &**pod));
        node.pods = Some(Pods { by_uid, digest });
        fits.then_some(before != Some(digest))
    }

    /// An agent says what became of an order. What is to be said to that: a table once more, with its content, or
    /// that it is not wanted any more.
    pub fn ack(&mut self, node: &str, session: u64, ack: Ack) -> Option<Order> {
        let node = self.heard(node, session)?;
        let Ack { place, generation, outcome } = ack;
        let there = node.delivered.get(&place).map_or(0, |(generation, _)| *generation);
        let wanted = node.wanted.get(&place).map_or(0, Wanted::generation);
        match outcome {
            Outcome::Delivered(digest) if generation >= there => {
                if node.delivered.len() < MOST_TABLES || node.delivered.contains_key(&place) {
                    node.delivered.insert(place.clone(), (generation, digest));
                }
                node.refused.remove(&place);
                // It was on its way when it was retired, and the agent was away when it was told.
                if let Some(Wanted::Nothing { .. }) = node.wanted.get(&place) {
                    return node.order(&place);
                }
            }
            Outcome::Retired if generation >= there => {
                node.delivered.remove(&place);
                node.refused.remove(&place);
            }
            Outcome::Delivered(_) | Outcome::Retired => {}
            Outcome::Refused { reason, message } => {
                // What was replaced in the meantime does not matter.
                if generation != wanted {
                    return None;
                }
                let again = matches!(reason.as_str(), "blob-missing" | "digest-mismatch");
                node.refused.insert(place.clone(), Refusal { generation, reason, message });
                if let Some(Wanted::Table { retries, .. }) = node.wanted.get_mut(&place)
                    && again
                    && *retries < MOST_RETRIES
                {
                    *retries += 1;
                    return node.order(&place);
                }
            }
        }
        None
    }

    /// A table should be somewhere. The session to tell, unless it is there or the agent is away.
    pub fn want(
        &mut self,
        name: &str,
        delivery: Delivery,
        blob: Arc<Blob>,
    ) -> Result<Option<(u64, Order)>, Undeliverable> {
        let (named, content) = (delivery.digest, blob.digest());
        if named != content {
            return Err(Undeliverable::OtherContent { named, content });
        }
        if delivery.mode > 0o777 {
            return Err(Undeliverable::Mode(delivery.mode));
        }
        let unknown = || Undeliverable::UnknownNode(name.to_owned());
        let node = self.nodes.get_mut(name).ok_or_else(unknown)?;
        let place = delivery.place.clone();
        if !node.pods.as_ref().is_some_and(|pods| pods.by_uid.contains_key(&place.pod_uid)) {
            return Err(Undeliverable::PodElsewhere { node: name.into(), uid: place.pod_uid });
        }
        let stale = |known: u64| {
            let (place, given) = (place.clone(), delivery.generation);
            Err(Undeliverable::OlderGeneration { place, known, given })
        };
        match node.wanted.get(&place) {
            Some(Wanted::Nothing { generation }) if delivery.generation <= *generation => {
                return stale(*generation);
            }
            Some(Wanted::Table { delivery: known, .. })
                if delivery.generation < known.generation
                    || (delivery.generation == known.generation && *known != delivery) =>
            {
                return stale(known.generation);
            }
            None if node.wanted.len() >= MOST_TABLES => {
                return Err(Undeliverable::TooMany(name.into()));
            }
            _ => {}
        }
        node.wanted.insert(place.clone(), Wanted::Table { delivery, blob, retries: 0 });
        Ok(node.session.as_ref().map(|own| own.number).zip(node.order(&place)))
    }

    /// A table of this generation or an older one should be nowhere.
    pub fn unwant(&mut self, name: &str, place: &Place, generation: u64) -> Option<(u64, Order)> {
        let node = self.nodes.get_mut(name)?;
        match node.wanted.get(place) {
            Some(wanted) if wanted.generation() > generation => return None,
            None if node.wanted.len() >= MOST_TABLES => return None,
            _ => {}
        }
        node.wanted.insert(place.clone(), Wanted::Nothing { generation });
        // The agent may be writing it right now, so it is told even if nothing is known to be there.
        let order = Order::Retire { place: place.clone(), generation };
        node.session.as_ref().map(|own| (own.number, order))
    }

    /// Forgets a node that has no stream.
    pub fn forget(&mut self, node: &str) -> bool {
        let away = self.nodes.get(node).is_some_and(|node| node.session.is_none());
        away && self.nodes.remove(node).is_some()
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this node is known.
    pub fn knows(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// The sessions, by node.
    pub fn sessions(&self) -> Vec<Session> {
        self.nodes.values().filter_map(|node| node.session.clone()).collect()
    }

    /// The hardware of every node.
    pub fn inventories(&self) -> BTreeMap<String, Arc<Inventory>> {
        let known = |(name, node): (&String, &Node)| {
            node.inventory.as_ref().map(|(inventory, _)| (name.clone(), inventory.clone()))
        };
        self.nodes.iter().filter_map(known).collect()
    }

    /// The hardware of one node.
    pub fn inventory(&self, node: &str) -> Option<Arc<Inventory>> {
        self.nodes.get(node)?.inventory.as_ref().map(|(inventory, _)| inventory.clone())
    }

    /// The pods of every node, by uid.
    pub fn pods(&self) -> BTreeMap<String, Vec<Arc<PodDevices>>> {
        let known = |(name, node): (&String, &Node)| {
            let pods = node.pods.as_ref()?;
            Some((name.clone(), pods.by_uid.values().cloned().collect()))
        };
        self.nodes.iter().filter_map(known).collect()
    }

    /// The tables of a node.
    pub fn tables(&self, node: &str) -> Option<Tables> {
        let node = self.nodes.get(node)?;
        let table = |wanted: &Wanted| match wanted {
            Wanted::Table { delivery, .. } => Some(delivery.clone()),
            Wanted::Nothing { .. } => None,
        };
        let there = |(place, (generation, digest)): (&Place, &(u64, Digest))| Delivered {
            place: place.clone(),
            generation: *generation,
            digest: *digest,
        };
        Some(Tables {
            wanted: node.wanted.values().filter_map(table).collect(),
            delivered: node.delivered.iter().map(there).collect(),
            refused: node.refused.clone(),
        })
    }
}
