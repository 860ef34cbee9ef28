//! What is known of the cluster, kept as it changes: an event costs its own size.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::config::Config;
use muster_scheduler::decisions::Marks;
use muster_scheduler::framework::Registry;
use muster_scheduler::input::{
    Dialect, Input, Inventory, KAI_GROUP, Meta, Node, Phase, Pod, PodGroup, Usage,
};

use muster_scheduler::simulate;

use crate::fault::{Care, Faults, Group};
use crate::in_flight::{InFlightBindings, Timeouts};
use crate::index::Index;
use crate::nomination::Nominations;
use crate::object::{self, Kind, Name, Object, name_of};
use crate::orders::Outcome;
use crate::reservation::{self, Reservations};
use crate::set_aside::SetAside;

/// How the scheduler works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Actions, plugins and parameters.
    pub config: Config,
    /// The plugins that the configuration can name.
    pub registry: Registry,
    /// Pods that name one of these are ours.
    pub scheduler_names: Vec<String>,
    /// How often a binding is tried.
    pub timeouts: Timeouts,
    /// How long pods that must go may take before all is decided anew.
    pub nomination: SignedDuration,
    /// What becomes of pods that stand on something bad.
    pub faults: Care,
    /// How devices that pods share are held.
    pub reservation: reservation::Settings,
}

/// The group that a pod is of though it does not say so yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The pod's identity.
    pub uid: String,
    /// The group, of the pod's namespace.
    pub group: String,
    /// The part of it.
    pub sub_group: Option<String>,
}

/// What is known of a cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) input: Input,
    pub(crate) in_flight: InFlightBindings,
    pub(crate) nominations: Nominations,
    pub(crate) reservations: Reservations,
    pub(crate) set_aside: SetAside,
    pub(crate) pods: Index<Name>,
    pub(crate) faults: Faults,
    pub(crate) others: Index<(Kind, Name)>,
    inventories: Index<String>,
    memberships: HashMap<Name, Membership>,
    /// Timestamps of groups: ours are newer than what the watch shows.
    marks: HashMap<Name, Marks>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        let mut config = Config::default();
        config.params.scheduler_name = "muster-scheduler".to_owned();
        config.params.groups_by_namespace = true;
        config.params.ignore_impossible_groups = true;
        Self {
            config,
            registry: Registry::default(),
            scheduler_names: vec!["muster-scheduler".to_owned()],
            timeouts: Timeouts::default(),
            nomination: SignedDuration::from_secs(90),
            faults: Care::default(),
            reservation: reservation::Settings::default(),
        }
    }
}

impl Settings {
    /// Whether pods of this scheduler's name are ours.
    pub fn is_ours(&self, scheduler: &str) -> bool {
        self.scheduler_names.iter().any(|ours| ours == scheduler)
    }
}

// === impl Cluster ===

impl Cluster {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            input: Input::default(),
            in_flight: InFlightBindings::default(),
            nominations: Nominations::default(),
            reservations: Reservations::default(),
            set_aside: SetAside::default(),
            pods: Index::default(),
            faults: Faults::default(),
            others: Index::default(),
            inventories: Index::default(),
            memberships: HashMap::new(),
            marks: HashMap::new(),
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Decides by another configuration from the next cycle on.
    pub fn configure(&mut self, config: Config) {
        self.settings.config = config;
    }

    /// What queues have used of late, as parts of the cluster.
    pub fn set_usage(&mut self, usage: Vec<(String, Usage)>) {
        self.input.usage = usage;
    }

    /// The objects.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Bindings on their way.
    pub fn in_flight(&self) -> &InFlightBindings {
        &self.in_flight
    }

    /// Room that is being made.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// What is known of faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// One pod.
    pub fn pod(&self, name: &Name) -> Option<&Pod> {
        self.pods.get(&self.input.pods, name)
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.others.get(&self.input.nodes, &(Kind::Node, object::name("", name)))
    }

    /// One pod group.
    pub fn pod_group(&self, dialect: Dialect, name: &Name) -> Option<&PodGroup> {
        self.others.get(&self.input.pod_groups, &(Kind::PodGroup(dialect), name.clone()))
    }

    /// An object is there, or has changed.
    pub fn put(&mut self, object: Object) {
        let (input, index, kind) = (&mut self.input, &mut self.others, object.kind());
        let key = |meta: &Meta| (kind, name_of(meta));
        match object {
            Object::Pod(pod) => self.put_pod(*pod),
            Object::BindRequest(one) => {
                index.put(&mut input.bind_requests, key(&one.metadata), one);
            }
            Object::Node(one) => {
                self.faults.saw_node(&one.metadata.name, one.is_ready());
                index.put(&mut input.nodes, key(&one.metadata), one);
            }
            Object::PodGroup(mut one) => {
                if kind == Kind::PodGroup(Dialect::Kai)
                    && let Some(marks) = self.marks.get(&name_of(&one.metadata))
                {
                    simulate::mark(&mut one, marks);
                }
                let group = (one.dialect(), name_of(&one.metadata));
                self.faults.saw_group(group, &one.metadata.annotations);
                index.put(&mut input.pod_groups, key(&one.metadata), *one);
            }
            Object::Queue(one) => drop(index.put(&mut input.queues, key(&one.metadata), one)),
            Object::Topology(one) => {
                index.put(&mut input.topologies, key(&one.metadata), one);
            }
            Object::PriorityClass(one) => {
                index.put(&mut input.priority_classes, key(&one.metadata), one);
            }
            Object::ConfigMap(one) => {
                index.put(&mut input.config_maps, key(&one.metadata), one);
            }
            Object::PersistentVolumeClaim(one) => {
                index.put(&mut input.persistent_volume_claims, key(&one.metadata), one);
            }
            Object::PersistentVolume(one) => {
                index.put(&mut input.persistent_volumes, key(&one.metadata), one);
            }
            Object::StorageClass(one) => {
                index.put(&mut input.storage_classes, key(&one.metadata), one);
            }
            Object::NodeResourceTopology(one) => {
                index.put(&mut input.node_resource_topologies, key(&one.metadata), *one);
            }
        }
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: Kind, name: &Name) {
        let (input, index) = (&mut self.input, &mut self.others);
        let key = (kind, name.clone());
        macro_rules! take {
            ($list:ident) => {
                drop(index.take(&mut input.$list, &key, |one| (kind, name_of(&one.metadata))))
            };
        }
        match kind {
            Kind::Pod => {
                self.pods.take(&mut input.pods, name, |pod| name_of(&pod.metadata));
                self.memberships.remove(name);
                self.in_flight.end(name);
                self.nominations.lost(name);
                self.faults.lost_pod(name);
                self.reservations.remove(name);
            }
            Kind::BindRequest => take!(bind_requests),
            Kind::Node => {
                self.faults.lost_node(&name.1);
                take!(nodes);
                self.reservations.lose_node(&name.1);
            }
            Kind::PodGroup(dialect) => {
                self.marks.remove(name);
                self.faults.lost_group(&(dialect, name.clone()));
                let key_of =
                    |one: &PodGroup| (Kind::PodGroup(one.dialect()), name_of(&one.metadata));
                index.take(&mut input.pod_groups, &key, key_of);
            }
            Kind::Queue => take!(queues),
            Kind::Topology => take!(topologies),
            Kind::PriorityClass => take!(priority_classes),
            Kind::ConfigMap => take!(config_maps),
            Kind::PersistentVolumeClaim => take!(persistent_volume_claims),
            Kind::PersistentVolume => take!(persistent_volumes),
            Kind::StorageClass => take!(storage_classes),
            Kind::NodeResourceTopology => take!(node_resource_topologies),
        }
    }

    /// An object is there and cannot be read: nothing is decided by it. A node like that gets no pods; those that it has stay, as what
    /// is known of its health does.
    pub fn set_aside(&mut self, kind: Kind, name: &Name) {
        if kind != Kind::Node {
            return self.remove(kind, name);
        }
        let key = (kind, name.clone());
        self.others.take(&mut self.input.nodes, &key, |one| (kind, name_of(&one.metadata)));
        self.remove_inventory(&name.1);
        self.reservations.lose_node(&name.1);
    }

    /// The names of all objects of a kind: what a new listing does not have is gone.
    pub fn names(&self, kind: Kind) -> Vec<Name> {
        match kind {
            Kind::Pod => {
                let held = self.reservations.names().filter(|name| self.pod(name).is_none());
                self.pods.keys().chain(held).cloned().collect()
            }
            other => {
                let keys = self.others.keys().filter(|(kind, _)| *kind == other);
                keys.map(|(_, name)| name.clone()).collect()
            }
        }
    }

    /// What an agent knows of its node.
    pub fn put_inventory(&mut self, inventory: Inventory) {
        let list = &mut self.input.inventories;
        self.inventories.put(list, inventory.node.clone(), inventory);
    }

    /// Nothing is known of a node by its agent any more.
    pub fn remove_inventory(&mut self, node: &str) {
        let list = &mut self.input.inventories;
        self.inventories.take(list, &node.to_owned(), |one| one.node.clone());
    }

    /// What an agent says of pods on its node: identities of those that hold a faulty device, and what is wrong with it.
    pub fn hold(&mut self, node: &str, pods: BTreeMap<String, String>) {
        self.faults.hold(node, pods);
    }

    /// What has come of a note of a restart.
    pub fn noted(&mut self, group: &Group, at: Timestamp, outcome: &Outcome, now: Timestamp) {
        self.faults.noted(group, at, outcome, now);
    }

    /// A pod is of a group, though it does not say so yet.
    pub fn join(&mut self, pod: &Name, membership: Membership) {
        let Some(known) = self.pods.get_mut(&mut self.input.pods, pod) else { return };
        if known.metadata.uid == membership.uid {
            mark(&mut known.metadata, &membership);
            self.memberships.insert(pod.clone(), membership);
        }
    }

    /// The group that a pod was put into, and does not name itself yet.
    pub fn membership(&self, pod: &Name) -> Option<&Membership> {
        self.memberships.get(pod)
    }

    /// A group gets timestamps.
    pub(crate) fn mark(&mut self, group: &Name, marks: &Marks) {
        let key = (Kind::PodGroup(Dialect::Kai), group.clone());
        if let Some(known) = self.others.get_mut(&mut self.input.pod_groups, &key) {
            simulate::mark(known, marks);
            self.marks.insert(group.clone(), marks.clone());
        }
    }

    /// What has come of a binding. Says why, if it is given up.
    pub fn binding_result(
        &mut self,
        pod: &Name,
        uid: &str,
        outcome: Outcome,
        now: Timestamp,
    ) -> Option<String> {
        let given_up =
            self.in_flight.binding_result(pod, uid, outcome, &self.settings.timeouts, now)?;
        self.reservations.forget(pod);
        Some(given_up)
    }

    /// What has come of an eviction. A pod that goes counts as going before the watch says so.
    pub fn evicted(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::Done | Outcome::Lost(_) => {
                let known = self.pods.get_mut(&mut self.input.pods, pod);
                if let Some(known) = known.filter(|known| known.metadata.uid == uid) {
                    known.metadata.deletion_timestamp.get_or_insert(now);
                }
            }
            Outcome::Failed(_) | Outcome::Unsure(_) => self.nominations.refused(pod),
        }
    }

    fn put_pod(&mut self, mut pod: Pod) {
        let name = name_of(&pod.metadata);
        if self.settings.is_ours(&pod.spec.scheduler_name) {
            self.settings.config.params.scheduler_name.clone_into(&mut pod.spec.scheduler_name);
        }
        let before = self.pods.get(&self.input.pods, &name);
        let same = before.is_some_and(|before| before.metadata.uid == pod.metadata.uid);
        if !same || !pod.spec.node_name.is_empty() {
            self.in_flight.end(&name);
        }
        if !same {
            self.memberships.remove(&name);
            self.nominations.lost(&name);
        }
        if let Some(before) = before.filter(|_| same) {
            // What was said to go goes, whatever the watch has not shown yet.
            let going = before.metadata.deletion_timestamp;
            pod.metadata.deletion_timestamp = pod.metadata.deletion_timestamp.or(going);
        }
        let ended = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
        if self.put_reservation(&mut pod, &name) && ended {
            self.pods.take(&mut self.input.pods, &name, |pod| name_of(&pod.metadata));
            return;
        }
        if ended && pod.group().is_none() {
            self.remove(Kind::Pod, &name);
            return;
        }
        if pod.metadata.annotations.get(KAI_GROUP).is_some() {
            self.memberships.remove(&name);
        } else if let Some(membership) = self.memberships.get(&name) {
            mark(&mut pod.metadata, membership);
        }
        self.pods.put(&mut self.input.pods, name, pod);
    }
}

fn mark(meta: &mut Meta, membership: &Membership) {
    meta.annotations.insert(KAI_GROUP, membership.group.as_str());
    if let Some(part) = &membership.sub_group {
        meta.labels.insert("kai.scheduler/subgroup-name", part.as_str());
    }
}
