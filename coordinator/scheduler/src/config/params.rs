//! What KAI takes on its command line, as its snapshots hold it.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;

use super::{Config, ConfigError, Note, parse::Scalar, shard::value};
use muster_kube::duration;

/// What KAI takes on its command line. What is not said has KAI's own default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Params {
    /// Pods that name this scheduler are ours.
    pub scheduler_name: String,
    /// Whether nodes must be labelled as workers.
    pub restrict_scheduling_nodes: bool,
    /// Which nodes, queues and groups are ours.
    #[serde(rename = "partitionParams", deserialize_with = "pool")]
    pub node_pool: NodePool,
    /// How many jobs consolidation may move; -1 is without end, 0 none at all.
    #[serde(rename = "maxNumberConsolidationPreemptees")]
    pub max_consolidation_preemptees: i64,
    /// Whether room for volumes counts.
    #[serde(rename = "scheduleCSIStorage")]
    pub schedule_csi_storage: bool,
    /// Whether a job like one that has failed is skipped.
    pub use_scheduling_signatures: bool,
    /// Whether queues keep their tree.
    pub full_hierarchy_fairness: bool,
    /// Whether reclaim may move pods instead of taking their place for good.
    pub allow_consolidating_reclaim: bool,
    /// How long a group may run with too few pods; negative is for ever.
    #[serde(rename = "globalDefaultStalenessGracePeriod", deserialize_with = "nanos")]
    pub default_staleness_grace_period: SignedDuration,
    /// How long a pod may take to end before its place counts as stuck.
    #[serde(deserialize_with = "nanos")]
    pub stuck_in_releasing_threshold: SignedDuration,
    /// Whether reasons name each node.
    pub detailed_fit_errors: bool,
    /// Whether evicted pods get a condition.
    pub update_pod_eviction_condition: bool,
    /// Label of nodes for pods without accelerators.
    pub cpu_worker_node_label_key: String,
    /// Label of nodes for pods with accelerators.
    pub gpu_worker_node_label_key: String,
    /// Label of nodes whose devices are cut.
    pub mig_worker_node_label_key: String,
    /// The `app` label of pods that hold a shared device.
    pub resource_reservation_app_label: String,
    /// Whether bind requests name the NPUs that were chosen, for the Ascend device plugin.
    pub ascend_handshake: bool,
    /// Whether a pod names a group of its own namespace, or, as with KAI, any group of that name.
    pub groups_by_namespace: bool,
    /// Whether groups that can never run claim no share of their queue, or, as with KAI, as much as they ask for.
    pub ignore_impossible_groups: bool,
}

/// Which nodes, queues and groups are this scheduler's: those whose label has this value, or that have no such
/// label if the value is empty, or all if there is no key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodePool {
    /// The label.
    #[serde(rename = "NodePoolLabelKey", alias = "nodePoolLabelKey")]
    pub key: String,
    /// Its value.
    #[serde(rename = "NodePoolLabelValue", alias = "nodePoolLabelValue")]
    pub value: String,
}

// === impl Params ===

impl Params {
    /// Reads what a snapshot holds.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| ConfigError::Params {
            field: error.path().to_string(),
            problem: error.into_inner().to_string(),
        })
    }
}

impl Default for Params {
    fn default() -> Self {
        let worker = |kind: &str| format!("node-role.kubernetes.io/{kind}");
        Self {
            scheduler_name: "kai-scheduler".to_owned(),
            restrict_scheduling_nodes: false,
            node_pool: NodePool::default(),
            max_consolidation_preemptees: 16,
            schedule_csi_storage: false,
            use_scheduling_signatures: true,
            full_hierarchy_fairness: true,
            allow_consolidating_reclaim: true,
            default_staleness_grace_period: SignedDuration::from_secs(60),
            stuck_in_releasing_threshold: SignedDuration::from_secs(120),
            detailed_fit_errors: false,
            update_pod_eviction_condition: false,
            cpu_worker_node_label_key: worker("cpu-worker"),
            gpu_worker_node_label_key: worker("gpu-worker"),
            mig_worker_node_label_key: worker("mig-enabled"),
            resource_reservation_app_label: "kai-resource-reservation".to_owned(),
            ascend_handshake: false,
            groups_by_namespace: false,
            ignore_impossible_groups: false,
        }
    }
}

// === impl NodePool ===

impl NodePool {
    /// Whether an object with this value of the label is ours.
    pub fn takes(&self, labels: &crate::input::Labels) -> bool {
        if self.key.is_empty() {
            return true;
        }
        match labels.get(&self.key) {
            Some(value) => !self.value.is_empty() && value == self.value,
            None => self.value.is_empty(),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        if self.value.is_empty() { "default" } else { &self.value }
    }
}

/// Obeys flags of KAI's command line, without their dashes; what is not known is noted.
pub(super) fn flags(
    config: &mut Config,
    flags: BTreeMap<String, Scalar>,
) -> Result<(), ConfigError> {
    let params = &mut config.params;
    for (name, written) in flags {
        let text = written.text();
        let wrong = |problem: String| value(format!("spec.args.{name}"), problem);
        let yes = || match text.as_str() {
            "" | "true" | "1" | "t" | "True" | "TRUE" => Ok(true),
            "false" | "0" | "f" | "False" | "FALSE" => Ok(false),
            other => Err(wrong(format!("`{other}` is neither true nor false"))),
        };
        let span = || duration::parse(&text).map_err(|error| wrong(error.to_string()));
        match name.as_str() {
            "scheduler-name" => params.scheduler_name = text,
            "restrict-node-scheduling" => params.restrict_scheduling_nodes = yes()?,
            "nodepool-label-key" => params.node_pool.key = text,
            "partition-label-value" => params.node_pool.value = text,
            "max-consolidation-preemptees" => {
                params.max_consolidation_preemptees =
                    text.parse().map_err(|_| wrong(format!("`{text}` is no whole number")))?;
            }
            "schedule-csi-storage" => params.schedule_csi_storage = yes()?,
            "use-scheduling-signatures" => params.use_scheduling_signatures = yes()?,
            "full-hierarchy-fairness" => params.full_hierarchy_fairness = yes()?,
            "allow-consolidating-reclaim" => params.allow_consolidating_reclaim = yes()?,
            "default-staleness-grace-period" => params.default_staleness_grace_period = span()?,
            "stuck-in-releasing-threshold" => params.stuck_in_releasing_threshold = span()?,
            "detailed-fit-errors" => params.detailed_fit_errors = yes()?,
            "update-pod-eviction-condition" => params.update_pod_eviction_condition = yes()?,
            "cpu-worker-node-label-key" => params.cpu_worker_node_label_key = text,
            "gpu-worker-node-label-key" => params.gpu_worker_node_label_key = text,
            "mig-worker-node-label-key" => params.mig_worker_node_label_key = text,
            "ascend-handshake" => params.ascend_handshake = yes()?,
            "resource-reservation-app-label" => params.resource_reservation_app_label = text,
            _ => config.notes.push(Note {
                line: 0,
                problem: format!("flag `{name}` changes nothing here"),
                remedy: "leave it out".to_owned(),
            }),
        }
    }
    Ok(())
}

fn nanos<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    let span = duration::optional(deserializer)?;
    span.ok_or_else(|| serde::de::Error::custom("null is no duration: leave the field out"))
}

fn pool<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<NodePool, D::Error> {
    Ok(Option::<NodePool>::deserialize(deserializer)?.unwrap_or_default())
}
