//! Pod groups: a tree of subgroups whose leaves hold pods.

use jiff::{SignedDuration, Timestamp};

use super::{JobId, PodSetId, QueueId, TaskId, TopologyId};

/// The root of a group's tree, in its list of members.
pub const ROOT: usize = 0;

/// A pod group.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the group or subgroup.
    pub name: String,
    /// The group's namespace.
    pub namespace: String,
    /// The group's `metadata.uid`.
    pub uid: String,
    /// Its queue; none if that does not exist.
    pub queue: Option<QueueId>,
    /// The queue it names.
    pub queue_name: String,
    /// How important it is.
    pub priority: i32,
    /// Whether others may take its place.
    pub preemptible: bool,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it last started.
    pub last_start: Option<Timestamp>,
    /// When it last lost a pod to another.
    pub last_eviction: Option<Timestamp>,
    /// Since when it has run with too few pods.
    pub stale_since: Option<Timestamp>,
    /// How long it waits before it takes the place of others.
    pub preemption_delay: Option<SignedDuration>,
    /// How long it may run with too few pods; negative is for ever.
    pub staleness_grace: Option<SignedDuration>,
    /// Whether its pods are marked when they cannot be placed.
    pub mark_unschedulable: bool,
    /// Its tree: the root first, then by name.
    pub members: Vec<Member>,
    /// The subgroups that have pods.
    pub pod_sets: Vec<PodSetId>,
    /// Pods that name a leaf which does not exist.
    pub strays: Vec<TaskId>,
    /// Equal for groups that ask the same of places.
    pub signature: u32,
    /// What is wrong with it, although it can be decided about: what was taken instead, and what helps.
    pub remarks: Vec<String>,
    /// What it asks the whole cluster for and the cluster does not have.
    pub too_large: Option<String>,
}

/// A part of a group's tree.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name; the root has none.
    pub name: String,
    /// The part above it.
    pub parent: Option<usize>,
    /// What it holds.
    pub kind: MemberKind,
    /// How near its pods must be.
    pub constraint: Option<Constraint>,
}

/// What a part holds.
#[derive(Clone, Debug)]
pub enum MemberKind {
    /// A subgroup of subgroups.
    Set {
        /// How many of them it needs; all if it does not say.
        min: Option<u32>,
        /// The subgroups below it.
        children: Vec<usize>,
    },
    /// A subgroup of pods.
    Pods(PodSetId),
}

/// How near pods must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The topology by name.
    pub topology_name: String,
    /// The topology; none if it does not exist.
    pub topology: Option<TopologyId>,
    /// The level in one domain of which they must be.
    pub required: Option<String>,
    /// The level in one domain of which they should be.
    pub preferred: Option<String>,
}

/// A leaf of a tree.
#[derive(Clone, Debug)]
pub struct PodSet {
    /// Name of the group or subgroup.
    pub name: String,
    /// The group that the subgroup is part of.
    pub job: JobId,
    /// Its place in the group's tree.
    pub member: usize,
    /// Its place among the group's leaves.
    pub slot: usize,
    /// How many pods it needs.
    pub min: u32,
    /// The pods of the subgroup.
    pub tasks: Vec<TaskId>,
}

// === impl Job ===

impl Job {
    /// The group, as `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The leaves below a part, itself included.
    pub fn leaves(&self, member: usize, out: &mut Vec<PodSetId>) {
        match self.members.get(member).map(|member| &member.kind) {
            Some(MemberKind::Pods(set)) => out.push(*set),
            Some(MemberKind::Set { children, .. }) => {
                for &child in children {
                    self.leaves(child, out);
                }
            }
            None => {}
        }
    }
}
