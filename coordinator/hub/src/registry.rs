//! What the hub knows of every node: its stream, hardware, pods, and tables. Pure.
//!
//! Each fact belongs to a session, and only the newest session of a node is heard: whatever a stream says that
//! another has replaced is ignored. Facts outlive their session, so that an agent that comes back need not repeat
//! them; what is wanted does not outlive the epoch in which it was wanted. Generations only grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::delivery::{Delivery, Digest, Place};
use muster_proto::device::Inventory;
use muster_proto::link::{Ack, Hello};
use muster_proto::pod::PodDevices;

use super::blob::Blob;
use super::queue::Order;

mod node;
mod pods;
mod tables;
#[cfg(test)]
mod tests;

use node::Node;
pub use pods::Pods;
pub use tables::{DeliverError, Refusal, Tables};

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

/// A pod and the hardware of its node, as the node's agent reports both.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentReport {
    /// What the pod holds.
    pub pod: Arc<PodDevices>,
    /// What the node has.
    pub inventory: Arc<Inventory>,
}

/// What is known of a table at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Whether the node's agent has a stream.
    pub connected: bool,
    /// What the agent says is there.
    pub delivered: Option<(u64, Digest)>,
    /// What it has refused last.
    pub refused: Option<Refusal>,
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

/// All nodes.
#[derive(Debug, Default)]
pub struct Registry {
    nodes: BTreeMap<String, Node>,
    sessions: u64,
}

// === impl Registry ===

impl Registry {
    /// An agent has said Hello. Another session of its node is replaced.
    pub fn open(&mut self, hello: Hello, since: i64) -> Opened {
        let Hello { node: name, boot_id, version, instance, pods, delivered, .. } = hello;
        self.sessions += 1;
        let number = self.sessions;
        let node = self.nodes.entry(name.clone()).or_default();
        let session = Session { node: name, number, boot_id, version, instance, since };
        let orders = node.begin(session, pods, delivered);
        Opened {
            session: number,
            inventory: node.inventory.as_ref().map(|(_, digest)| *digest),
            pods: node.reported_pods().map(Pods::digest),
            orders,
        }
    }

    /// A stream has ended. False if another has replaced it before.
    pub fn close(&mut self, node: &str, session: u64) -> bool {
        let Some(known) = self.current(node, session) else { return false };
        let was_open = known.session.take().is_some();
        if known.has_left {
            self.nodes.remove(node);
        }
        was_open
    }

    fn current(&mut self, node: &str, session: u64) -> Option<&mut Node> {
        self.nodes.get_mut(node).filter(|node| node.is_current(session))
    }

    /// An agent reports its hardware; the digest is the one of `inventory_digest`. Whether that is news.
    pub fn set_inventory(
        &mut self,
        node: &str,
        session: u64,
        inventory: Arc<Inventory>,
        digest: Digest,
    ) -> bool {
        let Some(node) = self.current(node, session) else { return false };
        let news = node.inventory.as_ref().map(|(_, known)| *known) != Some(digest);
        node.inventory = Some((inventory, digest));
        news
    }

    /// The pods that a change of this session is a change to.
    pub fn pods_before(&self, node: &str, session: u64) -> Option<Pods> {
        let node = self.nodes.get(node).filter(|node| node.is_current(session))?;
        node.reported_pods().cloned()
    }

    /// An agent reports its pods. Whether that is news.
    pub fn set_pods(&mut self, node: &str, session: u64, pods: Pods) -> bool {
        self.current(node, session).is_some_and(|node| node.set_pods(pods))
    }

    /// An agent says what became of an order. What is to be said to that: a table once more, with its content, or
    /// that it is not wanted any more.
    pub fn ack(&mut self, node: &str, session: u64, ack: Ack) -> Option<Order> {
        self.current(node, session)?.ack(ack)
    }

    /// Some time has passed: orders that were refused for a reason that may be gone now, at most so many.
    pub fn retry(&mut self, node: &str, session: u64, most: usize) -> Vec<Order> {
        self.current(node, session).map(|node| node.retry(most)).unwrap_or_default()
    }

    /// Another epoch begins. What was wanted may not be wanted any more, and what was known may have changed while
    /// agents spoke to another hub: everybody says everything anew.
    pub fn begin_epoch(&mut self) {
        self.nodes.clear();
    }

    /// A table should be somewhere. The session to tell, unless it is there or the agent is away.
    pub fn set_desired(
        &mut self,
        name: &str,
        delivery: Delivery,
        blob: Arc<Blob>,
    ) -> Result<Option<(u64, Order)>, DeliverError> {
        let (named, content) = (delivery.digest, blob.digest());
        if named != content {
            return Err(DeliverError::OtherContent { named, content });
        }
        if delivery.mode > 0o777 {
            return Err(DeliverError::Mode(delivery.mode));
        }
        let unknown = || DeliverError::UnknownNode(name.to_owned());
        self.nodes.get_mut(name).ok_or_else(unknown)?.set_desired(name, delivery, blob)
    }

    /// A table of this generation or an older one should be nowhere.
    pub fn clear_desired(
        &mut self,
        name: &str,
        place: &Place,
        generation: u64,
    ) -> Option<(u64, Order)> {
        self.nodes.get_mut(name)?.clear_desired(place, generation)
    }

    /// A node has left the cluster: it is forgotten, one that has a stream when that ends. Whether it is forgotten by now.
    pub fn forget(&mut self, node: &str) -> bool {
        match self.nodes.get_mut(node) {
            Some(known) if known.session.is_some() => {
                known.has_left = true;
                false
            }
            Some(_) => self.nodes.remove(node).is_some(),
            None => true,
        }
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
            let pods = node.reported_pods()?;
            Some((name.clone(), pods.iter().cloned().collect()))
        };
        self.nodes.iter().filter_map(known).collect()
    }

    /// The pods of one node, by uid.
    pub fn pods_of(&self, node: &str) -> Vec<Arc<PodDevices>> {
        let pods = self.nodes.get(node).and_then(Node::reported_pods);
        pods.map(|pods| pods.iter().cloned().collect()).unwrap_or_default()
    }

    /// What the agent of a node says about one of its pods.
    pub fn agent_report(&self, node: &str, uid: &str) -> Option<AgentReport> {
        let node = self.nodes.get(node)?;
        let pod = node.reported_pods()?.get(uid)?.clone();
        let inventory = node.inventory.as_ref()?.0.clone();
        Some(AgentReport { pod, inventory })
    }

    /// What is known of a table at a place, and whether the node has a stream.
    pub fn table_report(&self, node: &str, place: &Place) -> TableReport {
        match self.nodes.get(node) {
            Some(node) => node.table_report(place),
            None => TableReport::default(),
        }
    }

    /// The tables of a node.
    pub fn tables(&self, node: &str) -> Option<Tables> {
        self.nodes.get(node).map(Node::tables)
    }
}
