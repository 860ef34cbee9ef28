//! `priority`: more important groups first.

use std::cmp::Ordering;

use crate::{
    framework::{Plugin, Point, View},
    state::Gang,
};

/// More important groups first.
pub struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::JobOrder]
    }

    fn job_order(&self, view: View<'_>, left: &Gang, right: &Gang) -> Ordering {
        let priority = |gang: &Gang| view.snapshot.jobs[gang.job].priority;
        priority(right).cmp(&priority(left))
    }
}
