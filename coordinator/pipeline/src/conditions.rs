//! Conditions of a TrainJob: types, reasons, and how one is set.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Nothing of it may run.
pub const SUSPENDED: &str = "Suspended";
/// It has done what it was for.
pub const COMPLETE: &str = "Complete";
/// It has not, and will not.
pub const FAILED: &str = "Failed";
/// Of a runtime: it is to be deleted, and somebody keeps it.
pub const DELETING: &str = "Deleting";

/// Reasons of conditions.
pub mod reason {
    /// Somebody has suspended it.
    pub const SUSPENDED: &str = "Suspended";
    /// Somebody lets it run again.
    pub const RESUMED: &str = "Resumed";
    /// There is no such kind of runtime.
    pub const RUNTIME_NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";
    /// It took too long.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// TrainJobs keep the runtime; the message counts them.
    pub const HELD_BY_TRAIN_JOBS: &str = "HeldByTrainJobs";
    /// Finalizers of others keep the runtime.
    pub const HELD_BY_FINALIZERS: &str = "HeldByFinalizers";
}

/// What a JobSet says when it is done.
pub const JOB_SET_COMPLETED: &str = "Completed";
/// What a JobSet says when it has failed.
pub const JOB_SET_FAILED: &str = "Failed";

/// A condition that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Type of the condition.
    pub kind: &'a str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word.
    pub reason: &'a str,
    /// For a person.
    pub message: &'a str,
    /// Since when, if it did not hold before.
    pub since: Timestamp,
}

/// Sets a condition: the time changes only when it begins or ends to hold, its place in the list never.
pub fn set(conditions: &mut Vec<Condition>, wanted: &Wanted<'_>) {
    let status = if wanted.holds { "True" } else { "False" };
    match conditions.iter_mut().find(|condition| condition.type_ == wanted.kind) {
        Some(condition) => {
            if condition.status != status {
                condition.status = status.to_owned();
                condition.last_transition_time = Time(wanted.since);
            }
            condition.reason = wanted.reason.to_owned();
            condition.message = wanted.message.to_owned();
        }
        None => conditions.push(Condition {
            type_: wanted.kind.to_owned(),
            status: status.to_owned(),
            reason: wanted.reason.to_owned(),
            message: wanted.message.to_owned(),
            last_transition_time: Time(wanted.since),
            observed_generation: None,
        }),
    }
}
