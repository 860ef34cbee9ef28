//! What is reported about a group: once, when it changes. Pure.

use tokio::time::Instant;

use super::conditions::{Condition, RANKTABLE_DELIVERED, RANKTABLE_READY, reason};
use super::delivery::DeliveryStatus;
use super::events as event;
use super::group::RankGroup;
use super::machine::{Effect, Transition};
use super::metrics::Measure;
use super::phase::Moment;
use super::readiness::NextStep;
use super::record::Record;
use super::status::GroupStatus;

/// What was reported about a group as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// That pods hold nothing that is known.
    missing: bool,
    /// That there is no table, for this reason.
    failed: Option<String>,
    /// That everybody has this generation.
    delivered: u64,
    /// That somebody is late with this generation.
    late: u64,
}

// === impl Reported ===

impl Reported {
    /// What another coordinator has reported of this record, and is not reported again.
    fn before(record: &Record) -> Self {
        let find = |kind: &str| record.conditions.iter().find(|one| one.kind == kind);
        let generation = |reason: &str| match find(RANKTABLE_DELIVERED) {
            Some(one) if one.reason == reason => record.generation,
            _ => 0,
        };
        let stuck =
            find(RANKTABLE_READY).filter(|one| reason::STUCK.contains(&one.reason.as_str()));
        Self {
            missing: false,
            failed: stuck.map(|one| match one.reason.as_str() {
                reason::TIMEOUT => reason::TIMEOUT.to_owned(),
                _ => one.message.clone(),
            }),
            delivered: generation(reason::DELIVERED),
            late: generation(reason::LATE),
        }
    }

    /// There is no table, for this reason. Whether that is news.
    pub fn set_failed(&mut self, why: &str) -> bool {
        let news = self.failed.as_deref() != Some(why);
        if news {
            self.failed = Some(why.to_owned());
        }
        news
    }
}

// === impl RankGroup ===

impl RankGroup {
    /// Reports what is new.
    pub(super) fn report(
        &mut self,
        next: &NextStep,
        status: Option<&DeliveryStatus>,
        late: bool,
        input_complete: Option<Instant>,
        now: Moment,
        out: &mut Transition,
    ) {
        let record = self.recorded.record.as_deref();
        let reported =
            self.reported.get_or_insert_with(|| record.map(Reported::before).unwrap_or_default());
        let readiness = &next.readiness;
        if readiness.ready {
            (reported.missing, reported.failed) = (false, None);
        }
        if !next.missing.is_empty() && !std::mem::replace(&mut reported.missing, true) {
            out.event(true, event::ANNOTATION_MISSING, readiness.message.clone());
        }
        // How many are missing changes; that they are missing for too long is reported once.
        let failed = match readiness.reason {
            reason::TIMEOUT => reason::TIMEOUT,
            _ => readiness.message.as_str(),
        };
        if next.has_failed() && reported.set_failed(failed) {
            out.effects.extend(failure(readiness.reason));
            let note = format!("{}: {}", readiness.reason, readiness.message);
            out.event(true, event::GENERATION_FAILED, note);
        }
        let Some(status) = status else { return };
        if status.is_complete() && reported.delivered < status.generation && readiness.ready {
            reported.delivered = status.generation;
            let took = input_complete.map(|since| now.clock - since);
            out.effects.extend(took.map(|took| Effect::Measure(Measure::Delivered(took))));
            let took = took
                .map(|took| format!(", {took:.1?} after its input was complete"))
                .unwrap_or_default();
            out.event(false, event::DELIVERED, format!("{}{took}", status.message(false)));
        } else if !status.is_complete() && late && reported.late < status.generation {
            reported.late = status.generation;
            out.event(true, event::LATE, status.message(true));
        }
    }

    /// How the group stands, for whoever asks.
    pub(super) fn status(
        &self,
        next: &NextStep,
        status: Option<&DeliveryStatus>,
        conditions: Vec<Condition>,
    ) -> GroupStatus {
        let (delivered, receivers) = status.map_or((0, 0), |status| (status.there, status.all));
        GroupStatus {
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            pods: self.live().count(),
            generation: self.record().map_or(0, |record| record.generation),
            delivered,
            receivers,
            ready: next.readiness.ready,
            reason: next.readiness.reason.to_owned(),
            message: next.readiness.message.clone(),
            conditions,
        }
    }
}

/// Counts that there is no table for this reason.
fn failure(reason: &str) -> Option<Effect> {
    let reason = match reason {
        reason::TIMEOUT => "timeout",
        reason::TEMPLATE_INVALID => "template-invalid",
        reason::INVALID_MARKS => "invalid-marks",
        reason::NAME_TAKEN => "name-taken",
        // Counted when it happened.
        _ => return None,
    };
    Some(Effect::Measure(Measure::Failed(reason)))
}
