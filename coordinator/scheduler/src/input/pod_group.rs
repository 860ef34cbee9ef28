//! Pod groups in the dialects of KAI, coscheduling and Volcano.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{
    Pod, ResourceList,
    meta::{Meta, or_default},
};
use muster_kube::duration;

/// Annotation that says which KAI group a pod is of.
pub const KAI_GROUP: &str = "pod-group-name";
/// Label that says which coscheduling group a pod is of.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// The older one.
pub const COSCHEDULING_GROUP_OLD: &str = "pod-group.scheduling.sigs.k8s.io";
/// Annotation that says which Volcano group a pod is of.
pub const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
/// Annotation that says which task of a Volcano job a pod is of.
pub const VOLCANO_TASK: &str = "volcano.sh/task-spec";

/// Pods that run together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroup {
    /// Group and version of the API, which says the dialect.
    pub api_version: String,
    /// Its name and annotations.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodGroupSpec,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub status: PodGroupStatus,
}

/// Whose pod group it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// `scheduling.run.ai`.
    #[default]
    Kai,
    /// `scheduling.x-k8s.io`.
    Coscheduling,
    /// `scheduling.volcano.sh`.
    Volcano,
}

/// What is wanted of a group: all that the dialects can say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// How many pods it needs to run.
    pub min_member: Option<u32>,
    /// KAI: how many of the direct subgroups it needs.
    pub min_sub_group: Option<u32>,
    /// KAI, Volcano: its queue.
    pub queue: String,
    /// KAI, Volcano: how important it is, by name.
    pub priority_class_name: String,
    /// KAI: whether others may take its place.
    #[serde(deserialize_with = "or_default")]
    pub preemptibility: Preemptibility,
    /// KAI: how near its pods must be.
    #[serde(deserialize_with = "or_default")]
    pub topology_constraint: TopologyConstraint,
    /// KAI: its parts.
    #[serde(deserialize_with = "or_default")]
    pub sub_groups: Vec<SubGroup>,
    /// KAI: whether its pods are marked when they cannot be placed.
    pub mark_unschedulable: Option<bool>,
    /// KAI: 1 if it waits after one failure.
    pub scheduling_backoff: Option<i32>,
    /// KAI: how long it waits before it takes the place of others.
    #[serde(deserialize_with = "duration::optional")]
    pub preemption_delay: Option<SignedDuration>,
    /// KAI: how long it may run with too few pods; negative is for ever.
    #[serde(deserialize_with = "duration::optional")]
    pub staleness_grace_period: Option<SignedDuration>,
    /// Coscheduling, Volcano: what the cluster must have before it is tried.
    pub min_resources: ResourceList,
    /// Coscheduling: how long it may wait for its last pod.
    pub schedule_timeout_seconds: Option<i64>,
    /// Volcano: how many pods of each task it needs.
    #[serde(deserialize_with = "or_default")]
    pub min_task_member: BTreeMap<String, u32>,
    /// Volcano: how near its pods must be.
    pub network_topology: Option<NetworkTopology>,
}

/// Whether others may take a group's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Preemptibility {
    /// Its priority decides.
    #[default]
    #[serde(rename = "")]
    ByPriority,
    /// They may.
    #[serde(rename = "preemptible")]
    Preemptible,
    /// They may not.
    #[serde(rename = "non-preemptible")]
    NonPreemptible,
}

/// How near pods must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyConstraint {
    /// The topology; empty if there is no constraint.
    pub topology: String,
    /// The level in one domain of which they must be: a label or an alias.
    pub required_topology_level: String,
    /// The level in one domain of which they should be.
    pub preferred_topology_level: String,
}

/// Volcano's way to say how near pods must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkTopology {
    /// `hard` or `soft`.
    pub mode: String,
    /// The highest tier that may join them.
    pub highest_tier_allowed: Option<u32>,
}

/// A part of a group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroup {
    /// Its name.
    pub name: String,
    /// How many pods it needs, if it holds pods.
    pub min_member: Option<u32>,
    /// How many subgroups it needs, if it holds those.
    pub min_sub_group: Option<u32>,
    /// The part above it.
    pub parent: Option<String>,
    /// How near its pods must be.
    pub topology_constraint: Option<TopologyConstraint>,
}

/// How a group is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// Why it could not be placed before, per node pool.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_conditions: Vec<SchedulingCondition>,
    /// What else is so. Decisions do not depend on it; who writes it must know what is written.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<GroupCondition>,
}

/// One thing that is so of a group, or is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupCondition {
    /// What.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}

/// Why a group could not be placed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingCondition {
    /// `UnschedulableOnNodePool`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The node pool.
    pub node_pool: String,
    /// A counter, as text.
    #[serde(rename = "transitionID")]
    pub transition_id: String,
    /// `True` or `False`.
    pub status: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}

// === impl PodGroup ===

impl PodGroup {
    /// Whose it is. One that does not say is KAI's.
    pub fn dialect(&self) -> Dialect {
        match self.api_version.split('/').next() {
            Some("scheduling.x-k8s.io") => Dialect::Coscheduling,
            Some("scheduling.volcano.sh") => Dialect::Volcano,
            _ => Dialect::Kai,
        }
    }
}

// === impl Pod ===

impl Pod {
    /// The group that a pod says it is of, and whose kind of group.
    pub fn group(&self) -> Option<(Dialect, &str)> {
        let named =
            |name: Option<&'_ str>, dialect| name.filter(|name| !name.is_empty()).map(|_| dialect);
        let (labels, annotations) = (&self.metadata.labels, &self.metadata.annotations);
        let ways = [
            (annotations.get(KAI_GROUP), Dialect::Kai),
            (labels.get(COSCHEDULING_GROUP), Dialect::Coscheduling),
            (labels.get(COSCHEDULING_GROUP_OLD), Dialect::Coscheduling),
            (annotations.get(VOLCANO_GROUP), Dialect::Volcano),
        ];
        ways.into_iter().find_map(|(name, dialect)| Some((named(name, dialect)?, name?)))
    }
}
