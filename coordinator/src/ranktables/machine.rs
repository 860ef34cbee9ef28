//! The transitions of a rank group: what happens to it, and what is to be done about that. Pure: time is an argument, and whatever
//! touches the world is an [`Effect`] that the controller carries out.
//!
//! ```text
//!   reconcile ──▶ next phase, effects ──▶ at most one of them is a task ──▶ task_ended ──▶ next phase, effects ──▶ …
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_hub::blob::Blob;
use muster_proto::delivery::Delivery;

use super::agent_report::topology;
use super::compose::{ComposeInput, Holder};
use super::conditions::Condition;
use super::delivery::DeliveryStatus;
use super::error::GroupError;
use super::group::{RankGroup, Template};
use super::member::{Devices, Home, Life, Member};
use super::metrics::Measure;
use super::phase::{Moment, Phase, Plan};
use super::readiness::{Action, NextStep, Timeouts};
use super::record::{Content, Record, State};
use super::status::GroupStatus;
use super::task::Task;
use muster_ranktable::{Order, TableTemplate};

mod ended;

/// Permissions of a table: a pod's containers may run as anybody.
const MODE: u32 = 0o644;

/// How long a record without pods and without owners is kept.
const ORPHANED: Duration = Duration::from_secs(60);

/// What a reconcile needs to know beside the group.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The template that the group asks for.
    pub template: &'a Template,
    /// Times that decide.
    pub timeouts: &'a Timeouts,
    /// Of this leader.
    pub epoch: u64,
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Run a task: the last effect of its transition, and one at a time per group.
    Run(Box<Task>),
    /// Have agents put the table into pods.
    Send {
        /// The table.
        blob: Arc<Blob>,
        /// What goes to which node.
        orders: Vec<(String, Delivery)>,
    },
    /// Record an event about the group's owner.
    Event {
        /// Whether somebody should look at it.
        warning: bool,
        /// Its reason.
        reason: &'static str,
        /// What it says.
        note: String,
    },
    /// Count or measure something.
    Measure(Measure),
    /// Show how the group stands; none: it is gone.
    Show(Option<Box<GroupStatus>>),
    /// Look at a table as its reader will.
    Check(Arc<str>),
    /// Forget the group.
    Forget,
}

/// What came of an event.
#[derive(Debug, Default)]
pub struct Transition {
    /// What is to be done, in this order.
    pub effects: Vec<Effect>,
    /// When the group is reconciled again, even if nothing changes.
    pub again: Option<Timestamp>,
    /// Why the group rests before it is reconciled again.
    pub failed: Option<GroupError>,
}

// === impl Transition ===

impl Transition {
    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn measure(&mut self, measure: Measure) {
        self.push(Effect::Measure(measure));
    }

    pub(super) fn event(&mut self, warning: bool, reason: &'static str, note: String) {
        self.push(Effect::Event { warning, reason, note });
    }

    pub(super) fn again_at(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

// === impl RankGroup ===

impl RankGroup {
    /// Something may have changed: what comes next.
    pub fn reconcile(&mut self, around: Surroundings<'_>, now: Moment) -> Transition {
        if self.members.is_empty() {
            return self.reconcile_without_pods(now);
        }
        let next = self.next_step(around.template, around.timeouts, now.time);
        let status = self.delivery_of(&next.action);
        let input_complete = self.phase.input_complete();
        let mut out = Transition { again: next.again, ..Transition::default() };
        let mut task = self.enter(&next, status.as_ref(), around, now, &mut out);
        if next.action == Action::HandOut {
            out.effects.extend(self.send_table());
        }
        let delivering = status.as_ref().is_some_and(|status| !status.is_complete());
        let late_at = self.late_at(around.timeouts);
        let late = late_at.is_some_and(|late| late <= now.time);
        if let Some(late_at) = late_at.filter(|_| delivering && !late) {
            out.again_at(late_at);
        }
        let conditions = self.conditions(&next, status.as_ref(), late, now.time);
        if task.is_none() {
            let settled = self.settled_at(&next, delivering && !late);
            task = self.write_conditions(&next, &conditions, settled, now.time, &mut out);
        }
        self.report(&next, status.as_ref(), late, input_complete, now, &mut out);
        let shown = self.status(&next, status.as_ref(), conditions);
        out.push(Effect::Show(Some(Box::new(shown))));
        out.effects.extend(task.map(Box::new).map(Effect::Run));
        out
    }

    /// A group without pods: its record goes with its owners, or after a while.
    fn reconcile_without_pods(&mut self, now: Moment) -> Transition {
        let since = self.phase.waiting_since().unwrap_or(now.time);
        self.phase = Phase::Waiting { since: Some(since) };
        let mut out = Transition::default();
        out.push(Effect::Show(None));
        let orphan = self.recorded.record.clone().filter(|record| record.owners.is_empty());
        match (orphan, since.checked_add(ORPHANED)) {
            (None, _) => out.push(Effect::Forget),
            (Some(_), Ok(end)) if end > now.time => out.again_at(end),
            (Some(record), _) => out.push(Effect::Run(Box::new(Task::Delete(record)))),
        }
        out
    }

    /// Goes to the phase that the next step asks for. The task that it needs, if any.
    fn enter(
        &mut self,
        next: &NextStep,
        status: Option<&DeliveryStatus>,
        around: Surroundings<'_>,
        now: Moment,
        out: &mut Transition,
    ) -> Option<Task> {
        if let Action::Compose { .. } = next.action
            && let Some((plan, input)) = self.plan(&next.action, around, now)
        {
            out.measure(Measure::Waited(now.clock - plan.input_complete));
            self.phase = Phase::Composing(Box::new(plan));
            return Some(Task::Compose(Box::new(input)));
        }
        let before = std::mem::take(&mut self.phase);
        let since = before.waiting_since().or(Some(now.time));
        self.phase = match (&next.action, before) {
            (Action::HandOut, _) if status.is_some_and(DeliveryStatus::is_complete) => {
                Phase::Published
            }
            (Action::HandOut, before @ Phase::Delivering { .. }) => before,
            (Action::HandOut, _) => Phase::Delivering { input_complete: None, recorded: None },
            (_, failed @ Phase::Failed { .. }) if next.is_repeated_failure() => failed,
            _ => Phase::Waiting { since },
        };
        match next.action {
            Action::Wait | Action::Compose { .. } => None,
            Action::Create => Some(self.create(around)),
            Action::Blank => self.blank(around.epoch),
            Action::HandOut => self.complete_record(around),
        }
    }

    /// The next generation: its record without a table, and what the table is made from.
    fn plan(
        &self,
        action: &Action,
        around: Surroundings<'_>,
        now: Moment,
    ) -> Option<(Plan, ComposeInput)> {
        let Action::Compose { generation, changed, members, source } = action else { return None };
        let (known, template) = (self.record()?, around.template.as_ref().ok()?);
        let record = Record {
            resource_version: known.resource_version.clone(),
            uid: known.uid.clone(),
            state: State::Published,
            generation: *generation,
            epoch: around.epoch,
            members: Some(*members),
            input: Some(source.input),
            template: Some(source.template),
            changed: changed.clone(),
            file: self.file(around.template).to_owned(),
            owners: self.owners(),
            conditions: self.announced(*generation, now.time),
            ..Record::default()
        };
        let input = self.compose_input(template, changed)?;
        let complete = self.phase.input_complete().or(self.changed_at).unwrap_or(now.clock);
        Some((Plan { record, source: *source, input_complete: complete }, input))
    }

    /// What a table of the group as it is would be made from; none while a pod holds nothing that is known.
    fn compose_input(&self, template: &Arc<TableTemplate>, changed: &str) -> Option<ComposeInput> {
        let holder = |member: &Member| {
            let report = match member.devices.as_ref()? {
                Devices::Reported(_) => member.report.clone(),
                Devices::Annotated(_) => None,
            };
            Some(Holder { pod: member.pod.clone(), report })
        };
        let order = self.order(template);
        Some(ComposeInput {
            holders: self.live().map(holder).collect::<Option<Vec<_>>>()?,
            template: template.clone(),
            changed: changed.to_owned(),
            numbering: self.record().and_then(|record| record.numbering.clone()),
            order,
            topology: (order == Order::Topology).then(|| topology(self)),
        })
    }

    fn create(&self, around: Surroundings<'_>) -> Task {
        let file = self.file(around.template).to_owned();
        let empty = Record::empty(&file, self.owners(), around.epoch);
        // No lower than any that pods of the group may have.
        Task::Create(Record { generation: self.highest_generation(), ..empty })
    }

    fn blank(&self, epoch: u64) -> Option<Task> {
        let record = self.record()?.clone();
        let (state, content) = (State::Changing, Content::None);
        Some(Task::Write(Record { state, content, epoch, ..record }))
    }

    /// The record holds, and something about it is not as it should be: its table is not at hand, somebody has changed it, or pods
    /// that read it were not told.
    fn complete_record(&self, around: Surroundings<'_>) -> Option<Task> {
        let record = self.recorded.record.clone()?;
        match self.recorded.ready_table() {
            Some(table) if record.needs_mending(table.blob.packed_size()) => {
                let file = self.file(around.template).to_owned();
                let record = Record { epoch: around.epoch, file, ..(*record).clone() };
                Some(Task::Mend { record, blob: table.blob.clone() })
            }
            Some(_) => self.announce(record.generation),
            None => {
                let template = around.template.as_ref().ok();
                let input = template.and_then(|it| self.compose_input(it, &record.changed));
                Some(Task::Load { record, input: input.map(Box::new) })
            }
        }
    }

    /// Has the pods with ConfigMap volumes annotated that have not heard of this generation.
    fn announce(&self, generation: u64) -> Option<Task> {
        let unaware = self.live().filter_map(|member| match member.home {
            Home::ConfigMap { announced } if announced != Some(generation) => {
                Some((member.pod.name.clone(), member.pod.uid.clone()))
            }
            _ => None,
        });
        let pods: Vec<_> = unaware.collect();
        (!pods.is_empty()).then_some(Task::AnnotatePods { generation, pods })
    }

    /// Sends the table to agents of pods that do not have it and were not sent it.
    fn send_table(&self) -> Option<Effect> {
        let table = self.recorded.ready_table()?;
        let (digest, generation) = (table.blob.digest(), table.generation);
        let lacking = self.members.values().filter_map(|member| {
            let Home::Agent(place) = &member.home else { return None };
            let lacks = member.life == Life::Live
                && !member.has(generation, digest)
                && !table.sent.contains(&member.pod.uid);
            let place = place.clone();
            let delivery = Delivery { place, generation, digest, mode: MODE, group: None };
            lacks.then(|| (member.pod.node.clone(), delivery))
        });
        let orders: Vec<_> = lacking.collect();
        (!orders.is_empty()).then(|| Effect::Send { blob: table.blob.clone(), orders })
    }

    /// The hub has taken the table for these pods.
    pub fn table_sent(&mut self, uids: Vec<String>, now: Moment) -> Transition {
        let mut out = Transition::default();
        if let Phase::Delivering { input_complete, recorded } = &mut self.phase
            && !uids.is_empty()
            && let Some(since) = recorded.take()
        {
            let recorded = now.clock - since;
            let whole = input_complete.map_or(recorded, |since| now.clock - since);
            out.measure(Measure::HandedOut { recorded, whole });
        }
        if let Some(table) = &mut self.recorded.table {
            table.sent.extend(uids);
        }
        out
    }

    /// How the delivery stands, where there is something to deliver. Who is not in the recorded table cannot be late
    /// with it.
    fn delivery_of(&self, action: &Action) -> Option<DeliveryStatus> {
        let (generation, digest) =
            self.recorded.published().filter(|_| *action == Action::HandOut)?;
        Some(self.delivery_status(generation, digest))
    }

    /// When everybody should have the table.
    fn late_at(&self, timeouts: &Timeouts) -> Option<Timestamp> {
        self.recorded.since?.checked_add(timeouts.late).ok()
    }

    /// The conditions are worth a write, at once or when they have lasted.
    fn write_conditions(
        &self,
        next: &NextStep,
        conditions: &[Condition],
        settled: Option<Timestamp>,
        now: Timestamp,
        out: &mut Transition,
    ) -> Option<Task> {
        let record = self.record().filter(|_| self.is_news(next, conditions))?;
        if let Some(settled) = settled.filter(|at| *at > now) {
            out.again_at(settled);
            return None;
        }
        let resource_version = record.resource_version.clone();
        Some(Task::Conditions { resource_version, conditions: conditions.to_vec() })
    }
}

#[cfg(test)]
mod tests;
