//! Whether a group stands on devices and nodes that are well, as a condition.

use jiff::Timestamp;
use muster_placement::status::GroupStatus;
use muster_scheduler::input::GroupCondition;

/// The condition of a group that has stood on something bad.
pub const HEALTHY: &str = "Healthy";
/// Nothing is bad any more.
pub const WELL: &str = "Well";

/// The condition of a group that stands, or has stood, on something bad; and whether that is another than the one that is written.
pub(super) fn health(
    written: Option<&GroupCondition>,
    status: &GroupStatus,
    now: Timestamp,
) -> (Option<GroupCondition>, bool) {
    let (is, reason, message) = match (&status.trouble, written) {
        (Some((reason, message)), _) => ("False", reason.clone(), message.clone()),
        (None, Some(_)) => {
            ("True", WELL.to_owned(), "no pod stands on anything bad any more".to_owned())
        }
        (None, None) => return (None, false),
    };
    let same = written.filter(|one| one.status == is);
    let condition = GroupCondition {
        kind: HEALTHY.to_owned(),
        status: is.to_owned(),
        last_transition_time: Some(same.and_then(|one| one.last_transition_time).unwrap_or(now)),
        reason: reason.clone(),
        message,
    };
    (Some(condition), written.is_none_or(|one| one.reason != reason))
}
