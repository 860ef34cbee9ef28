//! One node: what it reported, and what is to be said to it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::device::Inventory;
use muster_proto::link::{Ack, AckOutcome, MOST_TABLES};

use super::super::blob::Blob;
use super::super::queue::Order;
use super::tables::Desired;
use super::{DeliverError, Pods, Refusal, Session, TableReport, Tables};

/// How often one content is sent again to a peer that says it does not have it.
pub(super) const MOST_RETRIES: u32 = 3;

/// What is known of a node. Whatever an agent says is kept only for places that are wanted or whose pod is there.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) session: Option<Session>,
    /// Whether it has left the cluster, and only its stream is still there.
    pub(super) has_left: bool,
    /// Of the machine, as the last session said.
    boot_id: String,
    /// Whether its pods are known from before that boot only. Their volumes are still there, what they hold may be another.
    booted: bool,
    pub(super) inventory: Option<(Arc<Inventory>, Digest)>,
    pub(super) pods: Option<Pods>,
    desired: BTreeMap<Place, Desired>,
    delivered: BTreeMap<Place, (u64, Digest)>,
    /// Only of places that are wanted.
    refused: BTreeMap<Place, Refusal>,
    /// Places whose order is to be said again, the one that waits longest first. Each is in `refused`.
    due: VecDeque<Place>,
}

// === impl Node ===

impl Node {
    pub(super) fn is_current(&self, session: u64) -> bool {
        self.session.as_ref().is_some_and(|own| own.number == session)
    }

    /// Its pods, as they were said since the machine was booted.
    pub(super) fn reported_pods(&self) -> Option<&Pods> {
        self.pods.as_ref().filter(|_| !self.booted)
    }

    /// A session begins: these tables are there. What is not, is to be said. After another boot nothing that was known of the machine and
    /// of what its pods hold counts.
    pub(super) fn begin(
        &mut self,
        session: Session,
        pods: Option<Digest>,
        delivered: Vec<Delivered>,
    ) -> Vec<Order> {
        if self.boot_id != session.boot_id {
            self.boot_id.clone_from(&session.boot_id);
            (self.inventory, self.booted) = (None, true);
        }
        self.has_left = false;
        self.session = Some(session);
        let there = |Delivered { place, generation, digest }| (place, (generation, digest));
        self.delivered = delivered.into_iter().map(there).take(MOST_TABLES).collect();
        // If the pods are others than those that are known, they will be said.
        if let Some(known) = self.pods.as_ref().filter(|known| pods == Some(known.digest())) {
            self.delivered.retain(|place, _| known.hold(place));
        }
        self.refused.clear();
        self.due.clear();
        for desired in self.desired.values_mut() {
            if let Desired::Table { retries, .. } = desired {
                *retries = 0;
            }
        }
        self.desired.keys().filter_map(|place| self.order(place)).collect()
    }

    /// What is to be said about a place, given what is there.
    fn order(&self, place: &Place) -> Option<Order> {
        let there = self.delivered.get(place);
        match self.desired.get(place)? {
            Desired::Table { delivery, blob, .. } => {
                let known = self.pods.as_ref().is_some_and(|pods| pods.hold(place));
                let done = there == Some(&(delivery.generation, delivery.digest));
                let (delivery, blob) = (delivery.clone(), blob.clone());
                (known && !done).then_some(Order::Deliver { delivery, blob })
            }
            Desired::Nothing { generation } => {
                let some = there.is_some_and(|(there, _)| there <= generation);
                let (place, generation) = (place.clone(), *generation);
                some.then_some(Order::Retire { place, generation })
            }
        }
    }

    /// A table goes with the volume of its pod. Whether the pods are others than before.
    pub(super) fn set_pods(&mut self, pods: Pods) -> bool {
        self.desired.retain(|place, _| pods.hold(place));
        self.delivered.retain(|place, _| pods.hold(place));
        self.refused.retain(|place, _| pods.hold(place));
        self.due.retain(|place| pods.hold(place));
        let before = self.reported_pods().map(Pods::digest);
        let news = before != Some(pods.digest());
        (self.pods, self.booted) = (Some(pods), false);
        news
    }

    pub(super) fn ack(&mut self, ack: Ack) -> Option<Order> {
        let Ack { place, generation, outcome } = ack;
        let there = self.delivered.get(&place).map_or(0, |(generation, _)| *generation);
        match outcome {
            AckOutcome::Delivered(digest) if generation >= there => {
                self.settled(&place);
                let ours = self.desired.contains_key(&place)
                    || self.pods.as_ref().is_some_and(|pods| pods.hold(&place));
                let fits =
                    self.delivered.len() < MOST_TABLES || self.delivered.contains_key(&place);
                if ours && fits {
                    self.delivered.insert(place.clone(), (generation, digest));
                }
                // It was on its way when it was retired, and the agent was away when it was told.
                match self.desired.get(&place)? {
                    Desired::Nothing { .. } => self.order(&place),
                    Desired::Table { .. } => None,
                }
            }
            AckOutcome::Retired if generation >= there => {
                self.delivered.remove(&place);
                self.settled(&place);
                // Somebody who led before had it taken away, and it is wanted again.
                match self.desired.get(&place)? {
                    Desired::Table { delivery, .. } if delivery.generation <= generation => {
                        self.order(&place)
                    }
                    _ => None,
                }
            }
            AckOutcome::Delivered(_) | AckOutcome::Retired => None,
            AckOutcome::Refused { reason, message } => {
                self.refuse(place, Refusal { generation, reason, message })
            }
        }
    }

    fn refuse(&mut self, place: Place, refusal: Refusal) -> Option<Order> {
        // What nobody wants, or what was replaced in the meantime, does not matter.
        let desired = self.desired.get_mut(&place)?;
        if desired.generation() != refusal.generation {
            return None;
        }
        let lost = matches!(refusal.reason.as_str(), "blob-missing" | "digest-mismatch");
        let mut again = false;
        if refusal.is_transient() {
            if !self.due.contains(&place) {
                self.due.push_back(place.clone());
            }
            // The content was there.
            if let Desired::Table { retries, .. } = desired {
                *retries = 0;
            }
        } else {
            self.due.retain(|due| *due != place);
            if let Desired::Table { retries, .. } = desired
                && lost
                && *retries < MOST_RETRIES
            {
                *retries += 1;
                again = true;
            }
        }
        self.refused.insert(place.clone(), refusal);
        if again { self.order(&place) } else { None }
    }

    fn settled(&mut self, place: &Place) {
        self.refused.remove(place);
        self.due.retain(|due| due != place);
    }

    /// Orders that were refused for a reason that may be gone now, at most so many. Each is said again once for
    /// every refusal.
    pub(super) fn retry(&mut self, most: usize) -> Vec<Order> {
        let mut orders = Vec::new();
        while orders.len() < most
            && let Some(place) = self.due.pop_front()
        {
            match self.desired.get(&place) {
                // The agent need not have a table to have refused to take it away.
                Some(Desired::Nothing { generation }) => {
                    orders.push(Order::Retire { place, generation: *generation });
                }
                _ => orders.extend(self.order(&place)),
            }
        }
        orders
    }

    pub(super) fn set_desired(
        &mut self,
        name: &str,
        delivery: Delivery,
        blob: Arc<Blob>,
    ) -> Result<Option<(u64, Order)>, DeliverError> {
        let place = delivery.place.clone();
        if !self.pods.as_ref().is_some_and(|pods| pods.hold(&place)) {
            return Err(DeliverError::PodElsewhere { node: name.into(), uid: place.pod_uid });
        }
        let stale = |known: u64| {
            let (place, given) = (place.clone(), delivery.generation);
            Err(DeliverError::OlderGeneration { place, known, given })
        };
        match self.desired.get(&place) {
            Some(Desired::Nothing { generation }) if delivery.generation <= *generation => {
                return stale(*generation);
            }
            Some(Desired::Table { delivery: known, .. })
                if delivery.generation < known.generation
                    || (delivery.generation == known.generation && *known != delivery) =>
            {
                return stale(known.generation);
            }
            None if self.desired.len() >= MOST_TABLES => {
                return Err(DeliverError::TooMany(name.into()));
            }
            _ => {}
        }
        self.due.retain(|due| *due != place);
        self.desired.insert(place.clone(), Desired::Table { delivery, blob, retries: 0 });
        Ok(self.session.as_ref().map(|own| own.number).zip(self.order(&place)))
    }

    pub(super) fn clear_desired(&mut self, place: &Place, generation: u64) -> Option<(u64, Order)> {
        match self.desired.get(place) {
            Some(desired) if desired.generation() > generation => return None,
            None if self.desired.len() >= MOST_TABLES => return None,
            _ => {}
        }
        self.due.retain(|due| due != place);
        self.desired.insert(place.clone(), Desired::Nothing { generation });
        // The agent may be writing it right now, so it is told even if nothing is known to be there.
        let order = Order::Retire { place: place.clone(), generation };
        self.session.as_ref().map(|own| (own.number, order))
    }

    pub(super) fn table_report(&self, place: &Place) -> TableReport {
        TableReport {
            connected: self.session.is_some(),
            delivered: self.delivered.get(place).copied(),
            refused: self.refused.get(place).cloned(),
        }
    }

    pub(super) fn tables(&self) -> Tables {
        let table = |desired: &Desired| match desired {
            Desired::Table { delivery, .. } => Some(delivery.clone()),
            Desired::Nothing { .. } => None,
        };
        let there = |(place, (generation, digest)): (&Place, &(u64, Digest))| Delivered {
            place: place.clone(),
            generation: *generation,
            digest: *digest,
        };
        Tables {
            desired: self.desired.values().filter_map(table).collect(),
            delivered: self.delivered.iter().map(there).collect(),
            refused: self.refused.clone(),
        }
    }
}
