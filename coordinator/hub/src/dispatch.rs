//! Orders from controllers to agents.

use std::sync::Arc;

use muster_proto::delivery::{Delivery, Place};
use tonic::Status;

use super::blob::Blob;
use super::queue::{Order, Queue};
use super::registry::DeliverError;
use super::{Hub, Role, State, ended};

impl Hub {
    /// Wants a table in a volume of a pod that is on this node. The agent is told now, or when it comes back.
    pub fn deliver(
        &self,
        node: &str,
        delivery: Delivery,
        blob: Arc<Blob>,
    ) -> Result<(), DeliverError> {
        self.deliver_all([(node, delivery)], &blob).pop().unwrap_or(Ok(()))
    }

    /// Wants a table in volumes of many nodes, with an answer for each in the same order. All orders are in their
    /// queues before the first stream is woken: the last node does not wait until the first one is served.
    pub fn deliver_all<'a>(
        &self,
        orders: impl IntoIterator<Item = (&'a str, Delivery)>,
        blob: &Arc<Blob>,
    ) -> Vec<Result<(), DeliverError>> {
        let mut told = Vec::new();
        let answers = {
            let mut state = self.inner.state.lock();
            let mut set = |(node, delivery)| {
                state.leads()?;
                if let Some((session, order)) =
                    state.registry.set_desired(node, delivery, blob.clone())?
                {
                    told.extend(self.put(&state, node, session, order));
                }
                Ok(())
            };
            orders.into_iter().map(&mut set).collect()
        };
        for queue in told {
            queue.wake();
        }
        answers
    }

    /// Wants a table of this generation or an older one gone.
    pub fn retire(&self, node: &str, place: &Place, generation: u64) -> Result<(), DeliverError> {
        let mut state = self.inner.state.lock();
        state.leads()?;
        if let Some((session, order)) = state.registry.clear_desired(node, place, generation) {
            self.tell(&state, node, session, order);
        }
        Ok(())
    }

    /// Puts an order into a peer's queue, and wakes its stream.
    pub(super) fn tell(&self, state: &State, node: &str, session: u64, order: Order) {
        if let Some(queue) = self.put(state, node, session, order) {
            queue.wake();
        }
    }

    /// Puts an order into a peer's queue. One that does not keep up is cut off, and gets what it lacks when it
    /// comes back.
    fn put(&self, state: &State, node: &str, session: u64, order: Order) -> Option<Arc<Queue>> {
        let (_, queue) = state.queues.get(node).filter(|(its, _)| *its == session)?;
        if let Err(full) = queue.push(order) {
            self.inner.metrics.refuse_stream("slow");
            tracing::warn!(node, reason = "slow", "{full}; it is cut off");
            queue.cut(ended(Status::resource_exhausted(full.to_string()), "slow"));
        }
        Some(queue.clone())
    }
}

impl State {
    /// An order has the epoch of who leads; others have none to give.
    fn leads(&self) -> Result<(), DeliverError> {
        match self.role {
            Role::Leader { .. } => Ok(()),
            Role::Standby { .. } => Err(DeliverError::NotLeading),
        }
    }
}
