//! What the loop receives: objects that change, agents, pods that were grouped, and the results of its orders.

use jiff::Timestamp;
use muster_scheduler::input::Dialect;
use muster_scheduler_state::fault::Group;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::reservation::SharedDevice;
use muster_scheduler_state::{Kind, Object, Outcome};
use tokio::time::Instant;

use super::SchedulerLoop;
use crate::agents;
use crate::cluster_events::Change;
use crate::grouper::controller::GroupedPod;

/// What has come of an order.
#[derive(Debug)]
pub(super) enum OrderResult {
    Bound(Name, String, Outcome),
    Evicted(Name, String, Outcome),
    Noted(Group, Timestamp, Outcome),
    Made(SharedDevice, Outcome),
    Annotated(Name, String, Outcome),
    Released(Name, String, Outcome),
    Cleared(Name, String, Outcome),
}

// === impl SchedulerLoop ===

impl SchedulerLoop {
    pub(super) fn on_change(&mut self, change: Change) {
        match change {
            Change::Put(object) => {
                let node = match &*object {
                    Object::Node(node) => Some(node.metadata.name.clone()),
                    _ => None,
                };
                self.cluster.put(*object);
                // What its devices are called is known only now.
                if let Some(node) = node {
                    self.ask_agent(&node);
                }
            }
            Change::Agent(node) => self.ask_agent(&node),
            Change::Gone(kind, name) => self.remove(kind, &name),
            Change::Listed(kind, names) => {
                for gone in self.cluster.names(kind) {
                    if !names.contains(&gone) {
                        self.remove(kind, &gone);
                    }
                }
                self.unlisted.remove(&kind);
            }
            Change::Ungrouped(name, pod) => self.intake.take(&self.cluster, name, pod),
            Change::Unreadable(kind, name, why) => {
                self.cluster.set_aside(kind, &name);
                let object = shown(&name);
                tracing::warn!(?kind, object, reason = "unreadable", "set aside: {why}");
            }
        }
        self.changed.get_or_insert_with(Instant::now);
    }

    /// Takes over what the agent of a node says.
    fn ask_agent(&mut self, node: &str) {
        let Some(seen) = self.hub.inventory(node) else { return };
        let offered = self.cluster.node(node).map(|node| &node.status.allocatable);
        match agents::inventory(node, &seen, offered) {
            Some(inventory) => self.cluster.put_inventory(inventory),
            None => self.cluster.remove_inventory(node),
        }
        self.cluster.hold(node, agents::faulted(&seen, &self.hub.pods_of(node)));
    }

    fn remove(&mut self, kind: Kind, name: &Name) {
        match kind {
            Kind::Node => {
                self.cluster.remove_inventory(&name.1);
                self.hub.forget(&name.1);
            }
            Kind::Pod => self.intake.gone(name),
            Kind::PodGroup(Dialect::Kai) => self.grouper.forget(&name.0, &name.1),
            _ => {}
        }
        self.cluster.remove(kind, name);
    }

    pub(super) fn group(&mut self, grouped: GroupedPod) {
        if self.intake.done(&mut self.cluster, grouped) {
            self.changed.get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn on_result(&mut self, result: OrderResult) {
        let now = self.clock.now();
        match result {
            OrderResult::Bound(pod, uid, outcome) => {
                self.context.metrics.bound(&outcome);
                if let Some(why) = self.cluster.binding_result(&pod, &uid, outcome, now) {
                    let pod = shown(&pod);
                    tracing::warn!(pod, reason = "binding", "given up for now: {why}");
                    self.changed.get_or_insert_with(Instant::now);
                }
            }
            OrderResult::Noted(group, at, outcome) => {
                if let Outcome::Failed(why) | Outcome::Unsure(why) = &outcome {
                    let group = shown(&group.1);
                    tracing::warn!(group, reason = "fault", "a restart cannot be noted: {why}");
                }
                self.cluster.noted(&group, at, &outcome, now);
                self.changed.get_or_insert_with(Instant::now);
            }
            OrderResult::Made(spot, outcome) => {
                complain("reservation", &spot.pod(), &outcome);
                self.cluster.made(&spot, &outcome, now);
            }
            OrderResult::Annotated(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.marked(&pod, &uid, &outcome, now);
            }
            OrderResult::Released(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.released(&pod, &uid, &outcome, now);
            }
            OrderResult::Cleared(pod, uid, outcome) => {
                complain("reservation", &shown(&pod), &outcome);
                self.cluster.cleared(&pod, &uid, &outcome, now);
            }
            OrderResult::Evicted(pod, uid, outcome) => {
                self.context.metrics.evicted(&outcome);
                self.cluster.evicted(&pod, &uid, &outcome, now);
                self.changed.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// Says what did not work.
fn complain(reason: &'static str, pod: &str, outcome: &Outcome) {
    if let Outcome::Failed(why) | Outcome::Unsure(why) = outcome {
        tracing::warn!(pod, reason, "tried again later: {why}");
    }
}
