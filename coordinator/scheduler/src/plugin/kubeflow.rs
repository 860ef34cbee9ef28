//! `kubeflow`: masters and launchers first.

use std::cmp::Ordering;

use crate::{
    framework::{Plugin, Point, View},
    snapshot::TaskId,
};

/// Masters and launchers first.
pub struct Kubeflow;

impl Plugin for Kubeflow {
    fn name(&self) -> &'static str {
        "kubeflow"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::TaskOrder]
    }

    fn task_order(&self, view: View<'_>, left: TaskId, right: TaskId) -> Ordering {
        view.snapshot.tasks[right].leads.cmp(&view.snapshot.tasks[left].leads)
    }
}
