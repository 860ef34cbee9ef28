//! Orders on their way from the hub to a file: which wait, which are under way, and what is said of them.

use muster_proto::delivery::{Delivered, Delivery, Place};
use muster_proto::link::{Ack, AckOutcome, FromAgent, MOST_TABLES};

use super::{AT_ONCE, DeliverError, Link, Output};

/// An order of the hub.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Order {
    Deliver { epoch: u64, delivery: Delivery },
    Retire { place: Place, generation: u64 },
}

// === impl Order ===

impl Order {
    fn place(&self) -> &Place {
        match self {
            Self::Deliver { delivery, .. } => &delivery.place,
            Self::Retire { place, .. } => place,
        }
    }

    fn generation(&self) -> u64 {
        match self {
            Self::Deliver { delivery, .. } => delivery.generation,
            Self::Retire { generation, .. } => *generation,
        }
    }

    fn refused(&self, reason: &str, message: impl Into<String>) -> Ack {
        Ack {
            place: self.place().clone(),
            generation: self.generation(),
            outcome: AckOutcome::Refused { reason: reason.to_owned(), message: message.into() },
        }
    }
}

// === impl Link ===

impl Link {
    /// An order has come.
    pub(super) fn enqueue(&mut self, order: Order) -> Vec<Output> {
        let (place, generation) = (order.place(), order.generation());
        let there = self.delivered.get(place).map_or(0, |(generation, _)| *generation);
        let there = there.max(self.running.get(place).map_or(0, Order::generation));
        if generation < there {
            let message = format!("generation {there} of {place} is there already or on its way");
            return self.acknowledge(order.refused("older-generation", message));
        }
        if let Order::Deliver { delivery, .. } = &order
            && !self.blobs.has(&delivery.digest)
        {
            let message = format!("the content {} was not sent", delivery.digest);
            return self.acknowledge(order.refused("blob-missing", message));
        }
        // A retry of what is being done; its ack will come.
        if self.running.get(place) == Some(&order) {
            return Vec::new();
        }
        let mut outputs = Vec::new();
        if let Some(at) = self.waiting.iter().position(|other| other.place() == place) {
            // A retire wins over a table of the same generation: it was said later.
            let newer = self.waiting.get(at).is_some_and(|old| old.generation() > generation);
            let message = "a newer order for the same place has come";
            if newer {
                return self.acknowledge(order.refused("superseded", message));
            }
            if let Some(old) = self.waiting.remove(at) {
                outputs.extend(self.acknowledge(old.refused("superseded", message)));
            }
        }
        if self.waiting.len() >= MOST_TABLES {
            outputs.extend(self.acknowledge(order.refused("busy", "too many orders wait")));
            return outputs;
        }
        self.waiting.push_back(order);
        outputs.extend(self.start());
        outputs
    }

    /// Starts what can be started.
    fn start(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while self.running.len() < AT_ONCE {
            let free = |order: &Order| !self.running.contains_key(order.place());
            let Some(at) = self.waiting.iter().position(free) else { break };
            let Some(order) = self.waiting.remove(at) else { break };
            match &order {
                Order::Deliver { epoch, delivery } => match self.blobs.get(&delivery.digest) {
                    Some(packed) => {
                        let (epoch, delivery) = (*epoch, delivery.clone());
                        outputs.push(Output::Deliver { epoch, delivery, packed });
                    }
                    None => {
                        let message = format!("the content {} was dropped", delivery.digest);
                        outputs.extend(self.acknowledge(order.refused("blob-missing", message)));
                        continue;
                    }
                },
                Order::Retire { place, generation } => {
                    let (place, generation) = (place.clone(), *generation);
                    outputs.push(Output::Retire { place, generation });
                }
            }
            self.running.insert(order.place().clone(), order);
        }
        self.free_blobs();
        outputs
    }

    /// An order has ended like this: a table that is there, or none any more.
    pub fn done(
        &mut self,
        place: &Place,
        outcome: Result<Option<Delivered>, DeliverError>,
    ) -> Vec<Output> {
        let Some(order) = self.running.remove(place) else { return Vec::new() };
        let ack = match outcome {
            Ok(Some(Delivered { generation, digest, .. })) => {
                self.delivered.insert(place.clone(), (generation, digest));
                let outcome = AckOutcome::Delivered(digest);
                Ack { place: place.clone(), generation, outcome }
            }
            Ok(None) => {
                self.delivered.remove(place);
                let outcome = AckOutcome::Retired;
                Ack { place: place.clone(), generation: order.generation(), outcome }
            }
            Err(DeliverError { reason, message }) => {
                if let (Order::Deliver { delivery, .. }, "digest-mismatch") = (&order, reason) {
                    self.blobs.forget(&delivery.digest);
                }
                order.refused(reason, message.chars().take(256).collect::<String>())
            }
        };
        let mut outputs = self.acknowledge(ack);
        outputs.extend(self.start());
        outputs
    }

    fn acknowledge(&mut self, ack: Ack) -> Vec<Output> {
        if self.is_up() {
            return vec![Output::Send(FromAgent::Ack(ack))];
        }
        self.unsent_acks.retain(|other| other.place != ack.place);
        if self.unsent_acks.len() < MOST_TABLES {
            self.unsent_acks.push_back(ack);
        }
        Vec::new()
    }

    /// Lets go of contents that no order needs.
    pub(super) fn free_blobs(&mut self) {
        let needed = |order: &Order| match order {
            Order::Deliver { delivery, .. } => Some(delivery.digest),
            Order::Retire { .. } => None,
        };
        let needed = self.running.values().chain(&self.waiting).filter_map(needed).collect();
        self.blobs.keep(needed);
    }
}
