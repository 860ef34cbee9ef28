//! Pods.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{
    Affinity, Env, EnvFrom, LabelSelector, Labels, ResourceList, Resources, Toleration, Volume,
    VolumeMount,
    meta::{Meta, or_default},
};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Its name, labels and annotations.
    pub metadata: Meta,
    /// What is wanted of it.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty if none.
    pub node_name: String,
    /// Who schedules it.
    pub scheduler_name: String,
    /// How important it is.
    pub priority: Option<i32>,
    /// The name of that.
    pub priority_class_name: String,
    /// Labels that its node must have.
    pub node_selector: Labels,
    /// Where it wants to be.
    pub affinity: Option<Box<Affinity>>,
    /// Taints it bears.
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    /// What must be taken away before it may be scheduled.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<Named>,
    /// Its containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// Its containers that run first, or beside.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// Containers that were added to look into it.
    #[serde(deserialize_with = "or_default")]
    pub ephemeral_containers: Vec<Container>,
    /// What its sandbox costs.
    pub overhead: ResourceList,
    /// What it asks for as a whole.
    pub resources: Option<Box<Resources>>,
    /// Its volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Its claims of devices.
    #[serde(deserialize_with = "or_default")]
    pub resource_claims: Vec<PodClaim>,
    /// How it is to be spread. Not obeyed, but part of what makes two pods alike.
    #[serde(deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Whether its ports are the node's.
    pub host_network: bool,
}

/// How a pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// How far it is.
    pub phase: Phase,
    /// Why it is so, in a word.
    pub reason: Box<str>,
    /// The node that somebody thinks it should have.
    pub nominated_node_name: String,
    /// The claims that were made for it.
    #[serde(deserialize_with = "or_default")]
    pub resource_claim_statuses: Vec<PodClaimStatus>,
    /// The claim that stands for its extended resources.
    pub extended_resource_claim_status: Option<ExtendedClaimStatus>,
    /// When it got its node: the condition `PodScheduled`, if it is true.
    #[serde(rename = "conditions", deserialize_with = "scheduled")]
    pub scheduled: Option<Timestamp>,
}

/// A condition of a pod, as far as it is read.
#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: ConditionKind,
    status: ConditionStatus,
    #[serde(rename = "lastTransitionTime", default)]
    since: Option<Timestamp>,
}

#[derive(PartialEq, Eq, Deserialize)]
enum ConditionKind {
    PodScheduled,
    #[serde(other)]
    Other,
}

#[derive(PartialEq, Eq, Deserialize)]
enum ConditionStatus {
    True,
    #[serde(other)]
    Other,
}

fn scheduled<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let conditions = Option::<Vec<Condition>>::deserialize(from)?.unwrap_or_default();
    let scheduled = conditions
        .into_iter()
        .find(|one| one.kind == ConditionKind::PodScheduled && one.status == ConditionStatus::True);
    Ok(scheduled.and_then(|one| one.since))
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Phase {
    /// Not started.
    #[default]
    #[serde(alias = "")]
    Pending,
    /// Started.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Nobody knows.
    #[serde(other)]
    Unknown,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// What it asks for.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// Its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: String,
    /// Its environment, as far as it names config maps.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<Env>,
    /// More of it.
    #[serde(deserialize_with = "or_default")]
    pub env_from: Vec<EnvFrom>,
    /// The volumes it sees.
    #[serde(deserialize_with = "or_default")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// On the node; 0 if none.
    pub host_port: i32,
    /// On which of its addresses; empty is all.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// `TCP` if empty.
    pub protocol: String,
    /// In the pod.
    pub container_port: i32,
}

/// Something that has only a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// Its name.
    pub name: String,
}

/// A claim of devices in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaim {
    /// Its name in the pod.
    pub name: String,
    /// The claim, if it is named.
    pub resource_claim_name: Option<String>,
    /// Or what it is made from.
    pub resource_claim_template_name: Option<String>,
}

/// The claim that was made for a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaimStatus {
    /// Its name in the pod.
    pub name: String,
    /// The claim.
    pub resource_claim_name: Option<String>,
}

/// The claim that stands for a pod's extended resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedClaimStatus {
    /// The claim.
    pub resource_claim_name: String,
}

/// How a pod is to be spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// By how much domains may differ.
    pub max_skew: i32,
    /// What makes a domain.
    pub topology_key: String,
    /// What if it cannot be.
    pub when_unsatisfiable: String,
    /// Which pods count.
    pub label_selector: Option<LabelSelector>,
}

// === impl Pod ===

impl Pod {
    /// Its namespace and name.
    pub fn name(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }

    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}
