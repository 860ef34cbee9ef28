//! `subgrouporder`: parts below what they need first; then those that need any before those that need none; then the
//! one that has the least of its need.

use std::cmp::Ordering;

use crate::framework::{PartSide, Plugin, Point, View};

/// Parts below what they need first.
pub struct SubGroupOrder;

impl Plugin for SubGroupOrder {
    fn name(&self) -> &'static str {
        "subgrouporder"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PodSetOrder, Point::SubGroupSetOrder]
    }

    fn pod_set_order(&self, _: View<'_>, left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
        order(left, right)
    }

    fn sub_group_order(&self, _: View<'_>, left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
        order(left, right)
    }
}

fn order(left: PartSide<'_>, right: PartSide<'_>) -> Ordering {
    match (left.active >= left.min, right.active >= right.min) {
        (false, false) => return Ordering::Equal,
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (true, true) => {}
    }
    match (left.min, right.min) {
        (0, 0) => left.active.cmp(&right.active),
        (0, _) => Ordering::Greater,
        (_, 0) => Ordering::Less,
        // active / min, without division
        (l, r) => (left.active * r).cmp(&(right.active * l)),
    }
}
