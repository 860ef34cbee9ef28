//! Phases and conditions: one of each type, with the newest at the end.

use jiff::Timestamp;

use super::Event;
use crate::api::{Condition, Counts, Status, phase};
use crate::names::reason;

/// The phase that the coordinator's pod leads to.
pub fn next(coordinator: Counts) -> Option<&'static str> {
    if coordinator.active > 0 {
        Some(phase::RUNNING)
    } else if coordinator.failed > 0 {
        Some(phase::FAILED)
    } else if coordinator.succeeded > 0 {
        Some(phase::SUCCEEDED)
    } else {
        None
    }
}

/// Enters a phase; what is said about it, if anything has changed.
pub fn enter(status: &mut Status, job: &str, to: &'static str, now: Timestamp) -> Option<Event> {
    let (reason, message) = match to {
        phase::CREATED => (reason::CREATED, format!("DIJob {job} created")),
        phase::RUNNING => {
            (reason::RUNNING, format!("coordinator and aggregator of DIJob {job} are running"))
        }
        phase::FAILED => (reason::FAILED, format!("DIJob {job} failed because coordinator failed")),
        _ => (reason::SUCCEEDED, format!("DIJob {job} succeeded because coordinator succeeded")),
    };
    let event = enter_with(status, to, reason, message, now)?;
    (to != phase::RUNNING).then_some(event)
}

fn enter_with(
    status: &mut Status,
    to: &'static str,
    reason: &'static str,
    message: String,
    now: Timestamp,
) -> Option<Event> {
    let changed = status.phase != to;
    to.clone_into(&mut status.phase);
    let now = written(now);
    if phase::is_final(to) {
        let running = status.conditions.iter_mut();
        for known in running.filter(|one| one.kind == phase::RUNNING && one.status == "True") {
            "False".clone_into(&mut known.status);
            known.last_update_time.clone_from(&now);
            known.last_transition_time.clone_from(&now);
        }
    }
    let new = Condition {
        kind: to.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.clone(),
        last_update_time: now.clone(),
        last_transition_time: now,
    };
    set(&mut status.conditions, new);
    changed.then_some(Event { warning: to == phase::FAILED, reason, message })
}

fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(at) = conditions.iter().position(|known| known.kind == new.kind) {
        let Some(known) = conditions.get(at) else { return };
        if known.reason == new.reason && known.status == new.status {
            return;
        }
        if known.status == new.status {
            new.last_transition_time.clone_from(&known.last_transition_time);
        }
        conditions.remove(at);
    }
    conditions.push(new);
}

/// The status of a job that cannot be read; none if it says so already, or has ended.
pub fn unreadable(
    known: Option<Status>,
    job: &str,
    why: &str,
    now: Timestamp,
) -> Option<(Status, Event)> {
    let mut status = known.unwrap_or_default();
    if phase::is_final(&status.phase) {
        return None;
    }
    let why: String = why.chars().take(500).collect();
    let message = format!("failed to convert DIJob {job}: {why}");
    let event = enter_with(&mut status, phase::FAILED, reason::FAILED, message, now)?;
    Some((status, event))
}

fn written(now: Timestamp) -> String {
    // Kubernetes writes whole seconds.
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
