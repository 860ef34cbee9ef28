//! `ray`: heads first.

use std::cmp::Ordering;

use crate::{
    framework::{Plugin, Point, View},
    snapshot::TaskId,
};

/// Places the head of a Ray cluster before its workers.
pub struct Ray;

impl Plugin for Ray {
    fn name(&self) -> &'static str {
        "ray"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::TaskOrder]
    }

    fn task_order(&self, view: View<'_>, left: TaskId, right: TaskId) -> Ordering {
        view.snapshot.tasks[right].head.cmp(&view.snapshot.tasks[left].head)
    }
}
