//! What a PodGroup is to say, before it meets the one that is there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::object::OwnerRef;

/// A PodGroup, as the pod's owner asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Name of the group or subgroup.
    pub name: String,
    /// Its namespace: the pod's.
    pub namespace: String,
    /// Labels that the PodGroup gets.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the PodGroup gets.
    pub annotations: BTreeMap<String, String>,
    /// Who takes it along when they go.
    pub owner: OwnerRef,
    /// The queue that the group is charged to.
    pub queue: String,
    /// Its priority class.
    pub priority_class: String,
    /// `preemptible`, `non-preemptible`, or empty: by its priority.
    pub preemptibility: String,
    /// How long it waits before it makes others go, as Go writes it.
    pub preemption_delay: Option<String>,
    /// How long it may stay below its minimum, as Go writes it.
    pub staleness: Option<String>,
    /// How many there must be at once.
    pub least: Least,
    /// Its parts, in order.
    pub sub_groups: Vec<SubGroup>,
    /// How near its pods must be to each other.
    pub topology: Topology,
    /// The part that the pod is of.
    pub member: Option<String>,
    /// What was asked for and cannot be had: the object, the field and the remedy.
    pub remarks: Vec<String>,
}

/// How many there must be at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// So many pods.
    Pods(i32),
    /// So many parts.
    Parts(i32),
}

/// A part of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubGroup {
    /// Name of the group or subgroup.
    pub name: String,
    /// The part that it is of.
    pub parent: Option<String>,
    /// How many there must be at once.
    pub least: Least,
    /// How near its pods must be to each other.
    pub topology: Option<Topology>,
}

/// How near pods must be to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Name of the Topology object.
    pub topology: String,
    /// The level that they must share.
    pub required: String,
    /// The level that they should share.
    pub preferred: String,
}

// === impl Least ===

impl Default for Least {
    fn default() -> Self {
        Self::Pods(1)
    }
}

impl Least {
    fn write(self, into: &mut Map<String, Value>) {
        let (key, number) = match self {
            Self::Pods(number) => ("minMember", number),
            Self::Parts(number) => ("minSubGroup", number),
        };
        into.insert(key.to_owned(), number.into());
    }
}

// === impl Topology ===

impl Topology {
    /// Whether it asks for anything: a level without a topology, or a topology without a level, does not.
    pub fn is_asked(&self) -> bool {
        let levels = [&self.required, &self.preferred];
        !self.topology.is_empty() && levels.iter().any(|level| !level.is_empty())
    }

    /// As it is written; what is empty is left out.
    pub fn json(&self) -> Value {
        let mut out = Map::new();
        put(&mut out, "preferredTopologyLevel", &self.preferred);
        put(&mut out, "requiredTopologyLevel", &self.required);
        put(&mut out, "topology", &self.topology);
        out.into()
    }
}

// === impl SubGroup ===

impl SubGroup {
    /// A part of so many pods.
    pub fn leaf(name: impl Into<String>, least: i32) -> Self {
        Self { name: name.into(), least: Least::Pods(least), ..Self::default() }
    }

    /// A part of so many parts.
    pub fn inner(name: impl Into<String>, least: i32) -> Self {
        Self { name: name.into(), least: Least::Parts(least), ..Self::default() }
    }

    /// In another part.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.parent = Some(parent.to_owned());
        self
    }

    /// With a constraint of its own.
    #[must_use]
    pub fn near(mut self, topology: Option<Topology>) -> Self {
        self.topology = topology;
        self
    }

    fn json(&self) -> Value {
        let mut out = Map::new();
        out.insert("name".to_owned(), self.name.as_str().into());
        self.least.write(&mut out);
        if let Some(parent) = &self.parent {
            out.insert("parent".to_owned(), parent.as_str().into());
        }
        if let Some(topology) = &self.topology {
            out.insert("topologyConstraint".to_owned(), topology.json());
        }
        out.into()
    }
}

// === impl Draft ===

impl Draft {
    /// The spec, as it is written; what is empty is left out.
    pub fn spec(&self) -> Map<String, Value> {
        let mut spec = Map::new();
        self.least.write(&mut spec);
        put(&mut spec, "queue", &self.queue);
        put(&mut spec, "priorityClassName", &self.priority_class);
        put(&mut spec, "preemptibility", &self.preemptibility);
        put(&mut spec, "preemptionDelay", self.preemption_delay.as_deref().unwrap_or_default());
        put(&mut spec, "stalenessGracePeriod", self.staleness.as_deref().unwrap_or_default());
        spec.insert("topologyConstraint".to_owned(), self.topology.json());
        if !self.sub_groups.is_empty() {
            spec.insert(
                "subGroups".to_owned(),
                self.sub_groups.iter().map(SubGroup::json).collect(),
            );
        }
        spec
    }

    /// Whether another pod's draft says the same of the group, whichever part that pod is of.
    pub fn is_same_group(&self, other: &Self) -> bool {
        let Self {
            name,
            namespace,
            labels,
            annotations,
            owner,
            queue,
            priority_class,
            preemptibility,
            preemption_delay,
            staleness,
            least,
            sub_groups,
            topology,
            member: _,
            remarks: _,
        } = self;
        (name, namespace, labels, annotations, owner)
            == (&other.name, &other.namespace, &other.labels, &other.annotations, &other.owner)
            && (queue, priority_class, preemptibility)
                == (&other.queue, &other.priority_class, &other.preemptibility)
            && (preemption_delay, staleness) == (&other.preemption_delay, &other.staleness)
            && (least, sub_groups, topology) == (&other.least, &other.sub_groups, &other.topology)
    }

    /// The reference to its owner.
    pub fn owner_json(&self) -> Value {
        let OwnerRef { api_version, kind, name, uid } = &self.owner;
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
    }
}

fn put(out: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        out.insert(key.to_owned(), value.into());
    }
}
