//! `taskorder`: pods with a `kai.scheduler/task-priority` first, the larger first; a text that is no number comes last
//! of them.

use std::cmp::Ordering;

use crate::{
    framework::{Plugin, Point, View},
    snapshot::TaskId,
};

/// Pods by their own priority.
pub struct TaskOrder;

impl Plugin for TaskOrder {
    fn name(&self) -> &'static str {
        "taskorder"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::TaskOrder]
    }

    fn task_order(&self, view: View<'_>, left: TaskId, right: TaskId) -> Ordering {
        let rank = |task: TaskId| match view.snapshot.tasks[task].task_priority {
            Some(Ok(number)) => (2, number),
            Some(Err(())) => (1, 0),
            None => (0, 0),
        };
        rank(right).cmp(&rank(left))
    }
}
