//! The deliverer as the link sees it: who takes orders.

use bytes::Bytes;
use muster_proto::delivery::{Delivered, Delivery, Place};

use super::Deliverer;
use crate::link::{Deliver, DeliverError};

impl Deliver for Deliverer {
    async fn deliver(
        &self,
        epoch: u64,
        delivery: Delivery,
        packed: Bytes,
    ) -> Result<Delivered, DeliverError> {
        Deliverer::deliver(self, epoch, delivery, packed).await
    }

    async fn retire(&self, place: &Place, generation: u64) -> Result<(), DeliverError> {
        Deliverer::retire(self, place, generation).await
    }

    fn delivered(&self) -> Vec<Delivered> {
        Deliverer::delivered(self)
    }

    async fn verify(&self) {
        Deliverer::verify(self).await;
    }

    async fn saw(&self, epoch: u64) {
        Deliverer::remember(self, epoch).await;
    }

    fn epoch(&self) -> u64 {
        Deliverer::epoch(self)
    }
}
