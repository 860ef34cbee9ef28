//! A way to make room, as validators see it.

use crate::{
    snapshot::{JobId, Quantities, TaskId},
    state::Gang,
};

/// A way to make room that works.
pub struct Scenario<'a> {
    /// Who gets the room: the pods that are placed now.
    pub preemptor: &'a Gang,
    /// What it asks for.
    pub request: Quantities,
    /// Who loses pods, by group.
    pub victims: &'a [Victim],
}

/// A group that loses pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The group that loses pods.
    pub job: JobId,
    /// The pods that are evicted.
    pub tasks: Vec<TaskId>,
}
