//! Reconciles pods that have no group yet, and groups whose pods are to be counted again.

use std::fmt;
use std::sync::Arc;

use muster_runtime::reconciler::{Context, ReconcileError, Reconciler, Requeue};
use muster_runtime::watch_source::{Wake, WatchSource};
use muster_runtime::{Environment, ReconcileMetrics};
use muster_scheduler_state::cluster::Membership;
use muster_scheduler_state::object::Name;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::failure::NOT_LEADER;
use super::waiting::UngroupedPod;
use super::{Grouped, Grouper};

/// What is reconciled, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupingKey {
    /// A pod that has no group yet.
    Pod(Name),
    /// A group that counts pods.
    Group(Name),
}

/// A pod has its group.
#[derive(Clone, Debug)]
pub struct GroupedPod {
    /// The pod.
    pub name: Name,
    /// Its group.
    pub membership: Membership,
    /// Whether the pod itself says so. If not, the annotation is for its Binding.
    pub written: bool,
}

/// Why a pod has no group yet.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct GroupingError {
    class: &'static str,
    message: String,
}

struct PodGrouper {
    grouper: Grouper,
    grouped: mpsc::UnboundedSender<GroupedPod>,
}

/// Groups pods until it is stopped, or until this coordinator is not the leader any more.
pub async fn run(
    grouper: Grouper,
    grouped: mpsc::UnboundedSender<GroupedPod>,
    (environment, reconciles): (Environment, ReconcileMetrics),
    stop: CancellationToken,
) {
    let (writer, events) = (grouper.0.writer.clone(), grouper.0.events.clone());
    let context = Context::new(writer, events, environment);
    let controller = Arc::new(PodGrouper { grouper, grouped });
    muster_runtime::controller::run(controller, context, reconciles, stop).await;
}

// === impl PodGrouper ===

impl PodGrouper {
    async fn reconcile_pod(&self, name: &Name) -> Result<Requeue, GroupingError> {
        let waiting = self.grouper.waiting();
        let (Some(UngroupedPod { uid, pod }), is_on) = waiting.pod(name) else {
            return Ok(Requeue::Gone);
        };
        if !is_on {
            return Ok(Requeue::OnChange);
        }
        let grouped = self.grouper.group(Value::clone(&pod)).await;
        match grouped {
            Grouped::Member { group, sub_group, written } => {
                let membership = Membership { uid, group, sub_group };
                // Nobody listens any more when the term is over.
                let name = name.clone();
                let _ended = self.grouped.send(GroupedPod { name, membership, written });
            }
            Grouped::Failed { class, message, retry } if retry || class == NOT_LEADER => {
                return Err(GroupingError { class, message });
            }
            Grouped::Skipped | Grouped::Failed { .. } => drop(waiting.remove(name, Some(&uid))),
        }
        Ok(Requeue::Gone)
    }
}

impl Reconciler for PodGrouper {
    type Key = GroupingKey;
    type State = ();
    type Error = GroupingError;

    const NAME: &'static str = "pod-grouper";
    const PARALLEL: usize = 16;

    fn watches(&self) -> Vec<WatchSource<GroupingKey>> {
        vec![WatchSource::changes("waiting", self.grouper.waiting().wakes(), Wake::key)]
    }

    fn keys(&self) -> Vec<GroupingKey> {
        self.grouper.waiting().keys()
    }

    async fn reconcile(
        &self,
        key: &GroupingKey,
        (): &mut (),
        context: &Context,
    ) -> Result<Requeue, GroupingError> {
        match key {
            GroupingKey::Pod(name) => self.reconcile_pod(name).await,
            GroupingKey::Group(name) => match self.grouper.waiting().counted(name, context.now()) {
                None => Ok(Requeue::Gone),
                Some(Err(after)) => Ok(Requeue::After(after)),
                Some(Ok(pod)) => {
                    self.grouper.count_again(&pod).await;
                    Ok(Requeue::Gone)
                }
            },
        }
    }
}

// === impl GroupingKey ===

impl fmt::Display for GroupingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, (namespace, name)) = match self {
            Self::Pod(name) => ("pod", name),
            Self::Group(name) => ("group", name),
        };
        write!(f, "{kind} {namespace}/{name}")
    }
}

// === impl GroupingError ===

impl ReconcileError for GroupingError {
    fn reason(&self) -> &'static str {
        self.class
    }

    fn is_not_leader(&self) -> bool {
        self.class == NOT_LEADER
    }
}
