//! A group at work: what is under way for it, what was handed out, what was said.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::delivery::Delivery;
use tokio::time::Instant;

use super::compose::Input;
use super::delivery::Standing;
use super::flight::{Table, Task};
use super::group::{Group, Outlook, Patience, Step, Template, Verdict, seconds};
use super::member::{GroupKey, Home};
use super::record::{Content, Record, State};
use crate::conditions::{self, Condition, RANKTABLE_DELIVERED, RANKTABLE_READY, reason};
use muster_hub::Hub;

/// Permissions of a table: a pod's containers may run as anybody.
const MODE: u32 = 0o644;

/// How long a group must wait for something before its record says so.
const SETTLED: Duration = Duration::from_secs(1);

/// First wait after a write that failed; it doubles.
const AGAIN: Duration = Duration::from_millis(200);
/// Longest wait.
const AGAIN_MOST: Duration = Duration::from_secs(30);

/// A group, and what is done for it.
#[derive(Debug)]
pub struct Entry {
    /// What is known.
    pub group: Group,
    /// Whether something is under way.
    pub busy: bool,
    /// Whether the record has changed while something was.
    pub missed: bool,
    /// The table that the record names, ready to be handed out.
    pub table: Option<Table>,
    /// Who was told of it.
    pub handed: BTreeSet<String>,
    /// When something about it was heard last.
    pub heard: Option<Instant>,
    /// When the last piece of its input came.
    pub complete: Option<Instant>,
    /// When its table was recorded, until it is handed out for the first time.
    pub published: Option<Instant>,
    /// When the table was recorded, as far as this coordinator did it or saw it.
    pub recorded: Option<Timestamp>,
    /// What was said, so that it is not said again.
    pub said: Said,
    /// Whether it was looked at before.
    pub looked: bool,
    /// Writes that failed since the last that did not.
    pub failures: u32,
    /// The uid of the record that was seen last.
    own: Option<String>,
    /// How often somebody has deleted the record.
    pub losses: u32,
    /// Not before then.
    pub not_before: Option<Instant>,
    /// Not before then either: it was looked at a moment ago.
    pub paused: Option<Instant>,
    /// When it is looked at again, even if nothing changes.
    pub wake: Option<Instant>,
}

/// What was said about a group as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// That pods hold nothing that is known.
    pub missing: bool,
    /// That there is no table, for this reason.
    pub failed: Option<String>,
    /// That everybody has this generation.
    pub delivered: u64,
    /// That somebody is late with this generation.
    pub late: u64,
}

// === impl Said ===

impl Said {
    /// What another coordinator has said of this record, and is not said again.
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
}

// === impl Entry ===

impl Entry {
    /// A group of which nothing is known.
    pub fn new(key: GroupKey) -> Self {
        Self {
            group: Group::new(key),
            busy: false,
            missed: false,
            table: None,
            handed: BTreeSet::new(),
            heard: None,
            complete: None,
            published: None,
            recorded: None,
            own: None,
            said: Said::default(),
            looked: false,
            failures: 0,
            losses: 0,
            not_before: None,
            paused: None,
            wake: None,
        }
    }

    /// A write has failed: the next one waits.
    pub fn back_off(&mut self, now: Instant) {
        let wait = AGAIN.saturating_mul(1 << self.failures.min(10)).min(AGAIN_MOST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// Somebody has deleted the record: each time it is made again later, or two would keep each other busy.
    pub fn lost(&mut self, now: Instant) {
        let wait = AGAIN.saturating_mul(1 << self.losses.min(10)).min(AGAIN_MOST);
        self.losses = self.losses.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// A write was done.
    pub fn went_well(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// The record, as somebody else or we have written it.
    pub fn recorded(&mut self, mut record: Option<Record>, now: Timestamp) {
        if let Some(record) = &mut record {
            // Whoever takes all marks away from our record does not make it somebody else's.
            record.foreign &= self.own.as_ref() != Some(&record.uid);
            if !record.foreign {
                self.own = Some(record.uid.clone());
            }
        }
        let generation = record.as_ref().map(|record| (record.generation, record.digest));
        let before = self.group.record.as_ref().map(|record| (record.generation, record.digest));
        if generation != before {
            self.recorded = Some(now);
        }
        if let Some(record) = record.as_ref().filter(|_| !self.looked) {
            self.said = Said::before(record);
        }
        let floor = record.as_ref().map_or(0, |record| record.generation);
        self.group.floor = self.group.floor.max(floor);
        self.group.record = record.map(Arc::new);
    }

    /// What is to be done first, if anything.
    pub fn task(
        &self,
        step: Step,
        template: &Template,
        epoch: u64,
        now: Timestamp,
        input: impl Fn(&Self) -> Option<Input>,
    ) -> Option<Task> {
        match step {
            Step::Wait => None,
            Step::Create => {
                let file = self.group.file(template).to_owned();
                let generation = self.group.beginning();
                let empty = Record::empty(&file, self.group.owners(), epoch);
                Some(Task::Create(Record { generation, ..empty }))
            }
            Step::Blank => {
                let record = self.group.record.as_deref()?.clone();
                Some(Task::Write(Record {
                    state: State::Changing,
                    content: Content::None,
                    epoch,
                    ..record
                }))
            }
            Step::Compose { generation, changed, members, input: digest } => {
                let known = self.group.record.as_deref()?;
                let template = template.as_ref().ok()?;
                let record = Record {
                    resource_version: known.resource_version.clone(),
                    uid: known.uid.clone(),
                    state: State::Published,
                    generation,
                    epoch,
                    digest: None,
                    members: Some(members),
                    input: Some(digest),
                    template: Some(template.digest()),
                    changed: changed.clone(),
                    file: self.group.file(&Ok(template.clone())).to_owned(),
                    content: Content::None,
                    numbering: None,
                    owners: self.group.owners(),
                    conditions: self.announced(generation, now),
                    damaged: false,
                    foreign: false,
                };
                let tried = (digest, template.digest());
                let input = Input { changed, ..input(self)? };
                Some(Task::Publish { input, tried, record })
            }
            Step::HandOut => {
                let record = self.group.record.clone()?;
                let ready = self.table.as_ref().filter(|table| {
                    table.generation == record.generation
                        && Some(table.blob.digest()) == record.digest
                });
                match ready {
                    Some(table) if record.needs_mending(table.blob.packed_size()) => {
                        let file = self.group.file(template).to_owned();
                        let record = Record { epoch, file, ..(*record).clone() };
                        Some(Task::Mend { record, blob: table.blob.clone() })
                    }
                    Some(_) => self.tell(record.generation),
                    None => {
                        let input = input(self)
                            .map(|input| Input { changed: record.changed.clone(), ..input });
                        Some(Task::Load { record, input })
                    }
                }
            }
        }
    }

    /// The pods with ConfigMap volumes that have not heard of this generation.
    fn tell(&self, generation: u64) -> Option<Task> {
        let untold = self.group.live().filter_map(|member| match member.home {
            Home::ConfigMap { told } if told != Some(generation) => {
                Some((member.pod.name.clone(), member.pod.uid.clone()))
            }
            _ => None,
        });
        let pods: Vec<_> = untold.collect();
        (!pods.is_empty()).then_some(Task::Tell { generation, pods })
    }

    /// Hands the table out to members that do not have it. How many were told.
    pub fn hand_out(&mut self, hub: &Hub) -> usize {
        let Some(table) = &self.table else { return 0 };
        let (digest, generation) = (table.blob.digest(), table.generation);
        let lacking = self.group.members.values().filter_map(|member| {
            let Home::Agent(place) = &member.home else { return None };
            let lacks = member.life == super::member::Life::Live
                && !member.has(generation, digest)
                && !self.handed.contains(&member.pod.uid);
            lacks.then_some((&member.pod, place))
        });
        let (pods, orders): (Vec<_>, Vec<_>) = lacking
            .map(|(pod, place)| {
                let place = place.clone();
                let delivery = Delivery { place, generation, digest, mode: MODE, group: None };
                (pod, (pod.node.as_str(), delivery))
            })
            .unzip();
        let mut told = 0;
        for (pod, answer) in pods.iter().zip(hub.deliver_all(orders, &table.blob)) {
            match answer {
                Ok(()) => {
                    self.handed.insert(pod.uid.clone());
                    told += 1;
                }
                // Its agent has not said yet that it has the pod; when it does, this is done again.
                Err(error) => tracing::debug!(pod = pod.name, reason = error.reason(), "{error}"),
            }
        }
        told
    }

    /// Whether a member that its agent should give the recorded table does not have it.
    pub fn lacks(&self, uid: &str) -> bool {
        let Some((generation, digest)) = self.recorded_table() else { return false };
        let member = self.group.members.get(uid);
        member.is_some_and(|member| {
            matches!(member.home, Home::Agent(_)) && !member.has(generation, digest)
        })
    }

    fn recorded_table(&self) -> Option<(u64, muster_proto::delivery::Digest)> {
        let record =
            self.group.record.as_ref().filter(|record| record.state == State::Published)?;
        Some((record.generation, record.digest?))
    }

    /// How the delivery stands, where there is something to deliver. Who is not in the recorded table cannot be late
    /// with it.
    pub fn standing(&self, step: &Step) -> Option<Standing> {
        let (generation, digest) = self.recorded_table().filter(|_| *step == Step::HandOut)?;
        Some(self.group.delivery(generation, digest))
    }

    /// Conditions of a generation that nobody has yet.
    fn announced(&self, generation: u64, now: Timestamp) -> Vec<Condition> {
        let mut list =
            self.group.record.as_ref().map(|record| record.conditions.clone()).unwrap_or_default();
        let now = seconds(now);
        let all = self.group.live().filter(|member| member.home != Home::None).count();
        let size = self.group.live().count();
        let message = format!("generation {generation}, {size} pods");
        conditions::set(&mut list, RANKTABLE_READY, true, reason::PUBLISHED, &message, &now);
        let message = format!("0 of {all} pods have generation {generation}");
        conditions::set(&mut list, RANKTABLE_DELIVERED, false, reason::DELIVERING, &message, &now);
        list
    }

    /// The conditions as they are.
    pub fn conditions(
        &self,
        outlook: &Outlook,
        standing: Option<&Standing>,
        late: bool,
        now: Timestamp,
    ) -> Vec<Condition> {
        let known = self.group.record.as_ref().map(|record| record.conditions.clone());
        let (mut list, text) = (known.unwrap_or_default(), seconds(now));
        let Verdict { ready, reason, message } = &outlook.verdict;
        conditions::set(&mut list, RANKTABLE_READY, *ready, reason, message, &text);
        if let Some(standing) = standing {
            let reason = match () {
                () if standing.is_complete() => reason::DELIVERED,
                () if late => reason::LATE,
                () => reason::DELIVERING,
            };
            let (status, message) = (standing.is_complete(), standing.message(late));
            conditions::set(&mut list, RANKTABLE_DELIVERED, status, reason, &message, &text);
        }
        list
    }

    /// Whether these conditions are worth a write: a status or a reason has changed.
    pub fn is_news(&self, outlook: &Outlook, list: &[Condition]) -> bool {
        let Some(record) = &self.group.record else { return false };
        // While something is being written this would be old at once.
        if matches!(outlook.step, Step::Create | Step::Blank | Step::Compose { .. })
            || record.foreign
        {
            return false;
        }
        let words = |list: &[Condition]| -> Vec<(String, String, String)> {
            // A message with numbers that change from moment to moment is not worth a write of its own; what is
            // written holds those of the moment.
            let message = |one: &Condition| match one.reason.as_str() {
                reason::DELIVERED
                | reason::GENERATION_FAILED
                | reason::TEMPLATE_INVALID
                | reason::INVALID_MARKS => one.message.clone(),
                _ => String::new(),
            };
            list.iter().map(|one| (one.status.clone(), one.reason.clone(), message(one))).collect()
        };
        words(list) != words(&record.conditions)
    }

    /// Whether everybody should have had the table by now.
    pub fn is_late(&self, patience: &Patience, now: Timestamp) -> bool {
        self.late_at(patience).is_some_and(|late| late <= now)
    }

    /// While pods come, say what they hold and get their table, each of these steps is over in a moment: only one that
    /// lasts is worth a write of its own. When it has lasted long enough; none: at once.
    pub fn settles_at(&self, outlook: &Outlook, delivering: bool) -> Option<Timestamp> {
        const PASSING: [&str; 3] =
            [reason::WAITING_FOR_PODS, reason::WAITING_FOR_DEVICES, reason::WAITING_FOR_ADDRESSES];
        let since = match &outlook.verdict {
            verdict if !verdict.ready && PASSING.contains(&verdict.reason) => self.group.lacking,
            verdict if verdict.ready && delivering => self.recorded,
            _ => None,
        };
        since?.checked_add(SETTLED).ok()
    }

    /// When everybody should have it.
    pub fn late_at(&self, patience: &Patience) -> Option<Timestamp> {
        self.recorded?.checked_add(patience.late).ok()
    }
}
