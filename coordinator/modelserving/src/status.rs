//! What a ModelServing says of itself.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;

use muster_kube::Condition;

use crate::api::{ModelServing, Status};
use crate::budget;
use crate::naming;
use crate::store::{Group, GroupState};

/// All groups are ready.
pub const AVAILABLE: &str = "Available";
/// Some are not.
pub const PROGRESSING: &str = "Progressing";
/// Some are not, and some have the old template.
pub const UPDATING: &str = "UpdateInProgress";

/// Groups by their places in the list, which are not their ordinals.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Not ready, or on their way out.
    pub progressing: Vec<usize>,
    /// With the new template.
    pub updated: Vec<usize>,
    /// With another.
    pub current: Vec<usize>,
}

/// The status that follows from the groups. Those that are ready are `Running` by now.
pub(crate) fn of(
    serving: &ModelServing,
    groups: &[Group],
    revision: &Arc<str>,
    now: Timestamp,
) -> Status {
    let mut status = serving.status.clone().unwrap_or_default();
    let mut places = Places::default();
    for (place, group) in groups.iter().enumerate() {
        if group.state != GroupState::Running {
            places.progressing.push(place);
        }
        if group.state == GroupState::Deleting {
            continue;
        }
        let new = group.revision == *revision;
        if new { &mut places.updated } else { &mut places.current }.push(place);
    }
    set_condition(&mut status.conditions, serving, &places, now);
    let all = count(groups.len());
    let available = groups.iter().filter(|group| group.state == GroupState::Running).count();
    status.replicas = all;
    status.available_replicas = count(available);
    status.updated_replicas = count(places.updated.len());
    status.current_replicas = count(places.current.len());
    status.current_revision = current_revision(&status, groups, &places, revision);
    status.update_revision = revision.to_string();
    let wanted = budget::replicas(serving);
    let complete = [status.updated_replicas, status.available_replicas, status.replicas];
    if budget::group_partition(serving).is_none() && complete == [wanted; 3] {
        status.current_replicas = status.updated_replicas;
    }
    status.observed_generation = serving.metadata.generation.unwrap_or_default();
    status.label_selector = naming::selector(serving);
    status
}

/// The revision that groups come from: it stays while a group has it, then it is what most of the others have.
fn current_revision(status: &Status, groups: &[Group], places: &Places, new: &Arc<str>) -> String {
    let old: Vec<&str> =
        places.current.iter().filter_map(|at| groups.get(*at)).map(|it| &*it.revision).collect();
    if old.contains(&status.current_revision.as_str()) {
        return status.current_revision.clone();
    }
    let times = |revision: &str| old.iter().filter(|known| **known == revision).count();
    // Of those that are equally frequent, the one of the lowest group.
    let most = old.iter().rev().max_by_key(|revision| times(revision));
    most.filter(|most| !most.is_empty()).map_or_else(|| new.to_string(), |most| (*most).to_owned())
}

/// Raises one condition, and lowers those that cannot be true beside it. One that is true already stays as it is, with
/// its message. Says whether anything has changed.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    serving: &ModelServing,
    places: &Places,
    now: Timestamp,
) -> bool {
    let raised = raised(serving, places, now);
    let mut changed = false;
    let mut found = false;
    for condition in conditions.iter_mut() {
        if condition.kind == raised.kind {
            found = true;
            if condition.status != raised.status {
                *condition = raised.clone();
                changed = true;
            }
        } else if excludes(&condition.kind, &raised.kind) && condition.status == "True" {
            condition.status = "False".to_owned();
            changed = true;
        }
    }
    if !found {
        conditions.push(raised);
    }
    changed || !found
}

fn raised(serving: &ModelServing, places: &Places, now: Timestamp) -> Condition {
    let partition = budget::group_partition(serving).unwrap_or_default();
    let (kind, reason, message) = if places.progressing.is_empty() {
        (AVAILABLE, "AllGroupsReady", "All Serving groups are ready".to_owned())
    } else {
        let message = format!("Some groups is progressing: {}", list(&places.progressing));
        if count(places.current.len()) > partition {
            let updated = list(&places.updated);
            (UPDATING, "GroupsUpdating", format!("{message}, Updated Groups are: {updated}"))
        } else {
            (PROGRESSING, "GroupProgressing", message)
        }
    };
    // Kubernetes keeps whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: now.to_string(),
        observed_generation: 0,
    }
}

/// Being available, and being on the way there.
fn excludes(one: &str, other: &str) -> bool {
    (one == AVAILABLE) != (other == AVAILABLE)
        && [AVAILABLE, PROGRESSING, UPDATING].contains(&one)
        && [AVAILABLE, PROGRESSING, UPDATING].contains(&other)
}

fn list(places: &[usize]) -> String {
    let places: Vec<String> = places.iter().map(usize::to_string).collect();
    format!("[{}]", places.join(" "))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
