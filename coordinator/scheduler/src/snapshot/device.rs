//! Devices that drivers offer one by one, and claims of them.

use std::{collections::BTreeMap, sync::Arc};

use muster_kube::Quantity;

use crate::{
    input::{Allocation, AttributeValue, DeviceConfig, NodeSelector},
    selector::{Selector, SelectorError, Subject},
};

use super::{ClaimId, DeviceId, NodeId, Table, TaskId};

/// All devices and claims of a cluster.
#[derive(Debug, Default)]
pub struct Devices {
    /// Devices, by driver, pool and place in it.
    pub all: Table<DeviceId, Device>,
    /// Pools that each node can use; empty if there are no devices at all.
    pub pools: Vec<Vec<Pool>>,
    /// Which devices requests mean.
    pub filters: Vec<Filter>,
    /// What claims ask for, each once.
    pub shapes: Vec<ClaimShape>,
    /// Claims, by namespace and name; those that stand for extended resources after them.
    pub claims: Table<ClaimId, Claim>,
    /// Claims by `namespace/name`.
    pub by_name: BTreeMap<String, ClaimId>,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its driver.
    pub driver: Arc<str>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// What it has.
    pub capacity: BTreeMap<String, Quantity>,
    /// Whether several claims may have it, by its driver.
    pub shared: bool,
    /// Where it can be used.
    pub reach: Reach,
}

/// Where a device can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// On one node, if that is known.
    Node(Option<NodeId>),
    /// On nodes that are like this.
    Nodes(Arc<NodeSelector>),
    /// Everywhere.
    All,
}

/// Devices of one pool that a node can use.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The devices.
    pub devices: Vec<DeviceId>,
    /// Whether its driver has not told all of it yet.
    pub incomplete: bool,
    /// Whether two devices of it have one name.
    pub invalid: bool,
}

/// Which devices: all selectors must hold.
#[derive(Debug)]
pub struct Filter {
    /// The class.
    pub class: String,
    /// Those of the class, then those of the request.
    pub selectors: Vec<Selector>,
    /// Settings of the class.
    pub config: Vec<DeviceConfig>,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimShape {
    /// Its requests.
    pub requests: Vec<Request>,
    /// What must be true of devices together.
    pub rules: Vec<Rule>,
}

/// A request: one of its choices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// The first of these that can be had.
    pub choices: Vec<Choice>,
    /// The dimension of the extended resource that it stands for: it counts only on nodes that have no other such.
    pub extended: Option<usize>,
}

/// A choice of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choice {
    /// Its name, if it is one of several.
    pub name: String,
    /// Which devices.
    pub filter: u32,
    /// How many; none is all.
    pub count: Option<u32>,
    /// To look, not to use.
    pub admin: bool,
}

/// What must be true of devices together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Of which requests; none is all.
    pub requests: Vec<String>,
    /// The attribute.
    pub attribute: String,
    /// Whether its values must differ, rather than be the same.
    pub distinct: bool,
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// `namespace/name`.
    pub key: String,
    /// What it asks for.
    pub shape: u32,
    /// What it had before this cycle.
    pub given: Option<Arc<Given>>,
    /// Whether somebody who is no pod of this snapshot uses it.
    pub fixed: bool,
    /// Pods that name it.
    pub users: Vec<TaskId>,
    /// Graphics devices that it asks for.
    pub gpus: i64,
    /// The queue that its label names.
    pub queue: Option<String>,
    /// Why nobody can have it.
    pub wrong: Option<String>,
    /// Settings that it gives to drivers.
    pub config: Vec<DeviceConfig>,
    /// For a claim of extended resources: container, resource and request.
    pub mappings: Vec<[String; 3]>,
}

/// What a claim had before this cycle.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// As it is written down.
    pub allocation: Allocation,
    /// Devices of it that are known.
    pub devices: Arc<[Granted]>,
}

/// A device that a claim has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// For which request.
    pub request: String,
    /// The device.
    pub device: DeviceId,
    /// To look, not to use.
    pub admin: bool,
}

/// A claim that a pod has devices of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The claim.
    pub claim: ClaimId,
    /// The devices.
    pub devices: Arc<[Granted]>,
}

/// A claim in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskClaim {
    /// Its name in the pod; empty for extended resources.
    pub name: String,
    /// The claim.
    pub claim: ClaimId,
    /// Whether the pod names it, rather than that it was made for the pod.
    pub named: bool,
}

/// What pods of a class need of claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimNeed {
    /// A claim of their own that asks for this.
    Own(u32),
    /// This very claim.
    This(u32),
}

// === impl Filter ===

impl Filter {
    /// Whether a device is one of those that are meant.
    pub fn matches(&self, device: &Device) -> Result<bool, SelectorError> {
        let subject = Subject {
            driver: &device.driver,
            attributes: &device.attributes,
            capacity: &device.capacity,
            shared: device.shared,
        };
        for selector in &self.selectors {
            if !selector.matches(subject)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// === impl Device ===

impl Device {
    /// The value of an attribute by its full name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.get(name).or_else(|| {
            let (domain, short) = name.split_once('/')?;
            self.attributes.get(short).filter(|_| domain == self.driver.as_ref())
        })
    }
}

// === impl Devices ===

impl Devices {
    /// Pools that a node can use.
    pub fn of_node(&self, node: NodeId) -> &[Pool] {
        self.pools.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// What a claim asks for.
    pub fn shape(&self, claim: ClaimId) -> Option<&ClaimShape> {
        self.shapes.get(self.claims[claim].shape as usize)
    }

    /// Which devices a choice means.
    pub fn filter(&self, choice: &Choice) -> Option<&Filter> {
        self.filters.get(choice.filter as usize)
    }
}
