//! `dynamicresources`: claims of devices.

use crate::{
    framework::{Plugin, Point, View},
    reason::{Reason, Refusal},
    snapshot::TaskId,
};

/// Claims of devices.
pub struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "dynamicresources"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PrePredicate]
    }

    fn pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        let class = &view.snapshot.classes[view.snapshot.tasks[task].class];
        let wrong = &class.constraints.bad_device_claims;
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(Reason::MissingDeviceClaim, wrong.join(", ")))
    }
}
