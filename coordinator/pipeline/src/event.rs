//! What is said about a TrainJob.

/// Reason: its objects cannot be made.
pub const CREATION_FAILED: &str = "TrainJobResourcesCreationFailed";
/// What is done when it is said.
pub const ACTION: &str = "Reconciling";
const PREFIX: &str = "TrainJob resources reconciliation failed: ";
const LONGEST: usize = 950;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should do something about it.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// For a person.
    pub note: String,
}

// === impl Event ===

impl Event {
    /// The objects of a job cannot be made.
    pub fn creation_failed(error: &str) -> Self {
        let mut note = PREFIX.to_owned();
        note.extend(error.chars().take(LONGEST));
        if error.chars().count() > LONGEST {
            note.push_str(" ...");
        }
        Self { warning: true, reason: CREATION_FAILED, note }
    }
}
