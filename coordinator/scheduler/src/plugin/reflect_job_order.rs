//! `snapshot` and `reflectjoborder`: names that a configuration may hold. What they offer elsewhere, a cycle's input
//! and the order of its groups, the coordinator serves itself.

use crate::framework::{Plugin, Point};

/// A plugin that does nothing.
pub struct Nothing(pub &'static str);

impl Plugin for Nothing {
    fn name(&self) -> &'static str {
        self.0
    }

    fn points(&self) -> &'static [Point] {
        &[]
    }
}
