//! Conditions of groups that are written when something is bad, and stay when it is well again: whether a group stands on devices and
//! nodes that are well, and whether it gets all that its spec asks for.

use jiff::Timestamp;
use muster_scheduler::input::GroupCondition;
use muster_scheduler_state::status::GroupStatus;

/// The condition of a group that has stood on something bad.
pub const HEALTHY: &str = "Healthy";
/// Nothing is bad any more.
pub const WELL: &str = "Well";
/// The condition of a group whose spec asks for something that is not there.
pub const SPEC_VALID: &str = "SpecValid";
/// Some of the spec counts for nothing.
pub const PARTLY_IGNORED: &str = "PartlyIgnored";
/// All of the spec counts.
const OBEYED: &str = "Obeyed";

/// The condition of a group that stands, or has stood, on something bad; and whether that is another than the one that is written.
pub(super) fn health(
    written: Option<&GroupCondition>,
    status: &GroupStatus,
    now: Timestamp,
) -> (Option<GroupCondition>, bool) {
    let well = (WELL, "no pod stands on anything bad any more");
    condition(HEALTHY, written, status.trouble.clone(), well, now)
}

/// The condition of a group whose spec asks, or has asked, for something that is not there; and whether that is another than the
/// one that is written.
pub(super) fn spec(
    written: Option<&GroupCondition>,
    status: &GroupStatus,
    now: Timestamp,
) -> (Option<GroupCondition>, bool) {
    let bad = (!status.remarks.is_empty())
        .then(|| (PARTLY_IGNORED.to_owned(), status.remarks.join("; ")));
    condition(SPEC_VALID, written, bad, (OBEYED, "all that it asks for is there"), now)
}

fn condition(
    kind: &str,
    written: Option<&GroupCondition>,
    bad: Option<(String, String)>,
    (well, words): (&str, &str),
    now: Timestamp,
) -> (Option<GroupCondition>, bool) {
    let (is, reason, message) = match (bad, written) {
        (Some((reason, message)), _) => ("False", reason, message),
        (None, Some(_)) => ("True", well.to_owned(), words.to_owned()),
        (None, None) => return (None, false),
    };
    let same = written.filter(|one| one.status == is);
    let changed = written.is_none_or(|one| one.reason != reason);
    let condition = GroupCondition {
        kind: kind.to_owned(),
        status: is.to_owned(),
        last_transition_time: Some(same.and_then(|one| one.last_transition_time).unwrap_or(now)),
        reason,
        message,
    };
    (Some(condition), changed)
}
