//! A task has ended: what follows. Pure.

use std::sync::Arc;
use std::time::Duration;

use super::{Effect, Transition};
use crate::ranktables::error::GroupError;
use crate::ranktables::events as event;
use crate::ranktables::group::RankGroup;
use crate::ranktables::member::Home;
use crate::ranktables::metrics::Measure;
use crate::ranktables::phase::{FailedAttempt, MadeTable, Moment, Phase};
use crate::ranktables::record::{Content, Record};
use crate::ranktables::task::{Task, TaskResult};
use muster_runtime::writer::WriteError;

impl RankGroup {
    /// A task has ended. Except where another one follows at once, the group is to be reconciled then.
    pub fn task_ended(&mut self, result: TaskResult, now: Moment) -> Transition {
        let mut out = Transition::default();
        match result {
            TaskResult::Recorded(record) => {
                out.measure(Measure::RecordWritten);
                let created = self.recorded.record.is_none();
                self.set_record(Some(record), now.time);
                if created {
                    let name = crate::names::record(&self.key.name);
                    let note = format!("ConfigMap {name} is there, empty");
                    out.event(false, event::CONFIG_MAP_CREATED, note);
                }
            }
            TaskResult::Composed(made) => match made {
                Ok((table, content)) => self.composed(table, content, &mut out),
                Err(error) => self.not_composed(error.reason(), error.to_string(), now, &mut out),
            },
            TaskResult::Published { record, took } => self.published(record, took, now, &mut out),
            TaskResult::Loaded { generation, blob } => self.recorded.set_table(generation, blob),
            TaskResult::Lost => {
                // Nobody can say what it was: another generation takes its place.
                if let Some(record) = &mut self.recorded.record {
                    Arc::make_mut(record).input = None;
                }
                out.failed = Some(GroupError::TableLost);
            }
            TaskResult::PodsAnnotated(uids) => {
                out.failed = uids.is_empty().then_some(GroupError::PodsNotAnnotated);
                self.pods_annotated(&uids);
            }
            TaskResult::Conditions { resource_version, conditions } => {
                if let Some(record) = &mut self.recorded.record {
                    let record: &mut Record = Arc::make_mut(record);
                    (record.resource_version, record.conditions) = (resource_version, conditions);
                }
            }
            // Pods may have come in the meantime.
            TaskResult::Deleted => self.set_record(None, now.time),
            TaskResult::Failed { error, found } => {
                self.write_failed(&error, &mut out);
                out.failed = Some(error.into());
                if let Some(found) = found {
                    self.set_record(found, now.time);
                }
            }
        }
        out
    }

    /// The table is made: it is recorded before any agent hears of it.
    fn composed(&mut self, table: MadeTable, content: Content, out: &mut Transition) {
        let Phase::Composing(plan) = std::mem::take(&mut self.phase) else { return };
        let record = Record {
            digest: Some(table.blob.digest()),
            content,
            numbering: table.composed.numbering.clone(),
            ..plan.record.clone()
        };
        self.phase = Phase::Recording { plan, table };
        out.push(Effect::Run(Box::new(Task::Publish(record))));
    }

    fn not_composed(
        &mut self,
        reason: &'static str,
        message: String,
        now: Moment,
        out: &mut Transition,
    ) {
        out.measure(Measure::Failed(reason));
        if let Phase::Composing(plan) = &self.phase {
            let attempt = FailedAttempt { source: plan.source, message };
            self.phase = Phase::Failed { attempt, since: now.time };
        }
    }

    /// The generation is recorded: it can be delivered.
    fn published(&mut self, record: Record, took: Duration, now: Moment, out: &mut Transition) {
        let Phase::Recording { plan, table } = std::mem::take(&mut self.phase) else { return };
        let MadeTable { composed, blob, took: made } = table;
        out.measure(Measure::RecordWritten);
        out.measure(Measure::Published { made, recorded: took });
        let generation = record.generation;
        let lost = record.content == Content::None;
        let unread = self.has_readers() && !matches!(record.content, Content::Text(_));
        self.set_record(Some(record), now.time);
        self.recorded.set_table(generation, blob);
        self.phase = Phase::Delivering {
            input_complete: Some(plan.input_complete),
            recorded: Some(now.clock),
        };
        let (ranks, size) = (composed.ranks, composed.text.len());
        let note = format!(
            "generation {generation}: {} servers, {ranks} ranks, {size} bytes, made in {made:.1?}",
            composed.servers
        );
        out.event(false, event::GENERATED, note);
        if lost || unread {
            let held = if lost {
                "the ConfigMap holds its digest only"
            } else {
                "pods that mount the ConfigMap cannot read it"
            };
            let note = format!(
                "the table has {size} bytes, a ConfigMap holds 1 MiB: {held}; use the delivery by agents"
            );
            out.event(true, event::TOO_LARGE, note);
        }
        out.push(Effect::Check(composed.text));
    }

    fn pods_annotated(&mut self, uids: &[String]) {
        let generation = self.record().map(|record| record.generation);
        for uid in uids {
            if let Some(member) = self.members.get_mut(uid)
                && let Home::ConfigMap { announced } = &mut member.home
            {
                *announced = generation;
            }
        }
    }

    /// Nothing was written: whatever was under way begins anew, later.
    fn write_failed(&mut self, error: &WriteError, out: &mut Transition) {
        if matches!(self.phase, Phase::Composing(_) | Phase::Recording { .. }) {
            self.phase = Phase::Waiting { since: None };
        }
        // Another leader, a record that goes with its owner or that another has made: nothing that somebody should mend.
        let nobodys_fault = matches!(
            error,
            WriteError::NotLeader(_)
                | WriteError::Conflict { .. }
                | WriteError::Exists { .. }
                | WriteError::Gone { .. }
        );
        if !nobodys_fault {
            out.measure(Measure::Failed(error.reason()));
        }
        // A quota, a policy: somebody must do something, and should not have to read our log for that.
        if matches!(error, WriteError::Refused { .. }) {
            let text = error.to_string();
            if self.reported.get_or_insert_default().set_failed(&text) {
                out.event(true, event::GENERATION_FAILED, text);
            }
        }
    }
}
