//! What is admitted: rules that a definition cannot say, and what pods that share a device get.
//!
//! The schema itself (types, patterns, immutable levels) is in `deploy/crds` and is kept by the API server.

pub mod device;
pub mod pod;
pub mod pod_group;
pub mod queue;
pub mod strict;
pub mod topology;
pub mod visible_devices;

use std::fmt;

/// Why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// Which kind of wrong; a condition's reason and a metric's label.
    pub class: &'static str,
    /// What it is about.
    pub object: Box<str>,
    /// Where in it.
    pub field: Box<str>,
    /// What is wrong.
    pub detail: Box<str>,
    /// What the user can do about it.
    pub remedy: &'static str,
    /// What is to be said beside it.
    pub warnings: Vec<String>,
}

// === impl Refused ===

impl Refused {
    pub(crate) fn new(
        class: &'static str,
        object: &crate::Object,
        field: impl Into<Box<str>>,
        detail: impl Into<Box<str>>,
        remedy: &'static str,
    ) -> Self {
        let (field, detail) = (field.into(), detail.into());
        Self { class, object: object.shown().into(), field, detail, remedy, warnings: Vec::new() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, field, detail, remedy, .. } = self;
        write!(f, "{object}: {field}: {detail}; {remedy}")
    }
}
