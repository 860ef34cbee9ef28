//! `elastic`: groups below what they need first, then those that have just that, then those that have more.

use std::cmp::Ordering;

use crate::{
    framework::{Plugin, Point, View},
    state::Gang,
};

/// Groups below what they need first.
pub struct Elastic;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Below,
    Exact,
    Above,
}

impl Plugin for Elastic {
    fn name(&self) -> &'static str {
        "elastic"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::JobOrder]
    }

    fn job_order(&self, view: View<'_>, left: &Gang, right: &Gang) -> Ordering {
        level(view, left).cmp(&level(view, right))
    }
}

fn level(view: View<'_>, gang: &Gang) -> Level {
    let mut level = Level::Exact;
    for set in &view.snapshot.jobs[gang.job].pod_sets {
        let active = gang.count(view.snapshot, view.state, *set).active;
        match active.cmp(&gang.min(view.snapshot, *set)) {
            Ordering::Less => return Level::Below,
            Ordering::Greater => level = Level::Above,
            Ordering::Equal => {}
        }
    }
    level
}
