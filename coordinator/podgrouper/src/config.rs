//! Settings.

use crate::names;

/// Settings of the grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whose pods are grouped.
    pub scheduler_names: Vec<String>,
    /// The label that names a queue.
    pub queue_label: String,
    /// The label that names a node pool. Empty: there are none.
    pub node_pool_label: String,
    /// The queue of what names none.
    pub default_queue: String,
    /// Whether a namespace's queue label is the queue of what names none.
    pub namespace_queues: bool,
    /// The ConfigMap of priorities by kind: its namespace and name.
    pub defaults: Option<(String, String)>,
    /// Whether groups that older releases named otherwise are kept.
    pub legacy_groups: bool,
    /// Whether the pods of a Knative revision are one group.
    pub knative_gang: bool,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler_names: vec!["muster-scheduler".to_owned()],
            queue_label: names::QUEUE.to_owned(),
            node_pool_label: names::NODE_POOL.to_owned(),
            default_queue: names::DEFAULT_QUEUE.to_owned(),
            namespace_queues: true,
            defaults: None,
            legacy_groups: true,
            knative_gang: true,
        }
    }
}
