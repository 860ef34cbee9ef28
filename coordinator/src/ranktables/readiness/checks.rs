//! The checks of a group in their order: the first that has something to say decides what comes next. Pure.

use std::cell::OnceCell;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::delivery::Digest;

use super::{Action, NextStep, Timeouts};
use crate::ranktables::conditions::reason;
use crate::ranktables::digests;
use crate::ranktables::group::{RankGroup, Template, seconds};
use crate::ranktables::member::{Life, Member};
use crate::ranktables::phase::TableSource;
use crate::ranktables::record::{Record, State};

/// A check of a group: what comes next, if it has something to say.
type Check = fn(&Situation<'_>) -> Option<NextStep>;

/// The checks, in their order. If none has anything to say, the next generation is composed.
const CHECKS: [Check; 14] = [
    has_pods,
    has_a_record,
    the_record_is_ours,
    the_job_has_not_finished,
    nobody_reads_an_old_table,
    marks_are_valid,
    one_model_serving_at_most,
    somebody_lives,
    all_pods_are_there,
    all_devices_are_known,
    the_template_is_valid,
    addresses_are_known,
    the_record_does_not_hold,
    it_has_not_failed_before,
];

/// Pods of two objects of this kind never share a table, whatever they are called.
const SERVING: &str = muster_modelserving::api::KIND;

/// A group at a moment.
struct Situation<'a> {
    group: &'a RankGroup,
    record: Option<&'a Record>,
    template: &'a Template,
    timeouts: &'a Timeouts,
    now: Timestamp,
    live: Vec<&'a Member>,
    done: usize,
    youngest: Option<&'a Member>,
    /// Digest of the pods.
    members: Digest,
    /// What a table would be made from: many pods, so it is found out once.
    source: OnceCell<Option<TableSource>>,
}

// === impl RankGroup ===

impl RankGroup {
    /// What is to be done.
    pub fn next_step(&self, template: &Template, timeouts: &Timeouts, now: Timestamp) -> NextStep {
        let live: Vec<&Member> = self.live().collect();
        let situation = Situation {
            group: self,
            record: self.record(),
            template,
            timeouts,
            now,
            done: self.members.values().filter(|member| member.life == Life::Done).count(),
            youngest: self.youngest(),
            members: digests::members(&live),
            source: OnceCell::new(),
            live,
        };
        let next = CHECKS.iter().find_map(|check| check(&situation));
        next.unwrap_or_else(|| situation.compose())
    }
}

fn has_pods(at: &Situation<'_>) -> Option<NextStep> {
    let message = "no pod of the group is there".to_owned();
    at.youngest.is_none().then(|| NextStep::wait(reason::NO_PODS, message))
}

fn has_a_record(at: &Situation<'_>) -> Option<NextStep> {
    let message = "the record is being created".to_owned();
    let create = || NextStep::wait(reason::WAITING, message).with(Action::Create);
    at.record.is_none().then(create)
}

fn the_record_is_ours(at: &Situation<'_>) -> Option<NextStep> {
    let name = crate::names::record(&at.group.key.name);
    let message = format!(
        "a ConfigMap {name} is there that is no record of a rank table: rename it, or the group"
    );
    at.record?.foreign.then(|| NextStep::wait(reason::NAME_TAKEN, message))
}

/// A table of a job that ends stays as it is, for its own pods: whoever came later has no part in it.
fn the_job_has_not_finished(at: &Situation<'_>) -> Option<NextStep> {
    let took_part = || at.group.members.values().filter(|member| member.life != Life::Over);
    let recorded = || {
        let theirs: Vec<&Member> = took_part().collect();
        at.record.and_then(|record| record.members) == Some(digests::members(&theirs))
    };
    (at.done > 0 && recorded()).then(|| {
        let message = format!("{} pods have finished; the table stays as it is", at.done);
        match at.is_published() {
            true => NextStep::hand_out(reason::FINISHED, message),
            false => NextStep::wait(reason::FINISHED, message),
        }
    })
}

/// Before anything else that may be wrong: a pod that comes must not read what was there before it.
fn nobody_reads_an_old_table(at: &Situation<'_>) -> Option<NextStep> {
    (at.is_published() && !at.has_recorded_members() && at.group.has_readers()).then(|| {
        let message = "pods have come or gone; the last table is taken away".to_owned();
        NextStep::wait(reason::CHANGING, message).with(Action::Blank)
    })
}

fn marks_are_valid(at: &Situation<'_>) -> Option<NextStep> {
    let youngest = at.youngest?;
    let problem = youngest.marks.size.as_ref().err()?;
    Some(NextStep::wait(reason::INVALID_MARKS, format!("pod {}: {problem}", youngest.pod.name)))
}

fn one_model_serving_at_most(at: &Situation<'_>) -> Option<NextStep> {
    let mut servings = at.live.iter().filter_map(|member| member.owner.as_ref());
    let first = servings.find(|owner| owner.kind == SERVING)?;
    let other = servings.find(|owner| owner.kind == SERVING && owner.uid != first.uid)?;
    let message = format!(
        "ModelServings {} and {} both have pods in it: rename one of them",
        first.name, other.name
    );
    Some(NextStep::wait(reason::INVALID_MARKS, message))
}

fn somebody_lives(at: &Situation<'_>) -> Option<NextStep> {
    let message = format!("{} pods have finished", at.done);
    at.live.is_empty().then(|| NextStep::wait(reason::FINISHED, message))
}

fn all_pods_are_there(at: &Situation<'_>) -> Option<NextStep> {
    let (there, size) = (at.live.len(), at.size());
    let message = format!("{there} of {size} pods are there");
    (there != size).then(|| at.lacking(reason::WAITING_FOR_PODS, message))
}

fn all_devices_are_known(at: &Situation<'_>) -> Option<NextStep> {
    let bare: Vec<&Member> =
        at.live.iter().copied().filter(|member| member.devices.is_none()).collect();
    if bare.is_empty() {
        return None;
    }
    // A coordinator that has just begun to lead knows little yet; what is recorded stays.
    if at.holds_members() && !bare.iter().any(|member| member.reported) {
        let message = format!(
            "generation {}; {} of {} agents have not confirmed their devices to this coordinator yet",
            at.generation(),
            bare.len(),
            at.size()
        );
        return Some(NextStep::hand_out(reason::PUBLISHED, message));
    }
    Some(at.without_devices(&bare))
}

fn the_template_is_valid(at: &Situation<'_>) -> Option<NextStep> {
    let problem = at.template.as_ref().err()?;
    // Those that run keep their table, whatever becomes of its template.
    Some(match at.holds_members() && at.runs_as_recorded() {
        true => at.published(),
        false => NextStep::wait(reason::TEMPLATE_INVALID, problem.clone()),
    })
}

fn addresses_are_known(at: &Situation<'_>) -> Option<NextStep> {
    let template = at.template.as_ref().ok().filter(|template| template.needs_addresses())?;
    let addressed =
        |member: &&&Member| !member.pod.pod_ip.is_empty() && !member.pod.host_ip.is_empty();
    let (with, size) = (at.live.iter().filter(addressed).count(), at.size());
    let message = format!(
        "{with} of {size} pods have an address, which the template {} needs",
        template.name
    );
    (with < size).then(|| at.lacking(reason::WAITING_FOR_ADDRESSES, message))
}

fn the_record_does_not_hold(at: &Situation<'_>) -> Option<NextStep> {
    let (record, source) = (at.record?, at.source()?);
    let started = at.live.iter().any(|member| member.started);
    let holds = at.holds_members()
        && record.input == Some(source.input)
        && (record.template == Some(source.template) || started);
    (holds && at.group.highest_generation() <= record.generation).then(|| at.published())
}

fn it_has_not_failed_before(at: &Situation<'_>) -> Option<NextStep> {
    let failed = at.group.phase.failed_attempt()?;
    (Some(failed.source) == at.source())
        .then(|| NextStep::wait(reason::GENERATION_FAILED, failed.message.clone()))
}

// === impl Situation ===

impl Situation<'_> {
    fn is_published(&self) -> bool {
        self.record.is_some_and(|record| record.state == State::Published)
    }

    fn has_recorded_members(&self) -> bool {
        self.record.is_some_and(|record| record.members == Some(self.members))
    }

    /// Whether the record has a table for exactly these pods.
    fn holds_members(&self) -> bool {
        self.is_published() && self.has_recorded_members()
    }

    fn generation(&self) -> u64 {
        self.record.map_or(0, |record| record.generation)
    }

    /// How many pods the group has. Marks that cannot be read were found before.
    fn size(&self) -> usize {
        self.youngest.and_then(|youngest| youngest.marks.size.clone().ok()).unwrap_or_default()
    }

    /// What a table would be made from.
    fn source(&self) -> Option<TableSource> {
        *self.source.get_or_init(|| {
            let template = self.template.as_ref().ok()?;
            let input = digests::input(&self.live, template.needs_addresses());
            Some(TableSource { input, template: template.digest() })
        })
    }

    /// Whether a pod has started, and nothing that the table was made from has changed.
    fn runs_as_recorded(&self) -> bool {
        let same = |addresses| {
            let input = digests::input(&self.live, addresses);
            self.record.is_some_and(|record| record.input == Some(input))
        };
        self.live.iter().any(|member| member.started) && (same(false) || same(true))
    }

    fn published(&self) -> NextStep {
        let message = format!("generation {}, {} pods", self.generation(), self.live.len());
        NextStep::hand_out(reason::PUBLISHED, message)
    }

    fn compose(&self) -> NextStep {
        let Some(source) = self.source() else {
            return NextStep::wait(reason::TEMPLATE_INVALID, "there is no template".to_owned());
        };
        let record = self.record;
        let same = record.filter(|record| record.input == Some(source.input));
        let changed = same.map(|record| record.changed.clone()).filter(|text| !text.is_empty());
        let changed = changed.unwrap_or_else(|| seconds(self.now));
        // Anybody may have written anything into the record.
        let highest = self.generation().max(self.group.highest_generation());
        let generation = highest.saturating_add(1);
        let message = format!("generation {generation} is being made");
        let members = self.members;
        NextStep::wait(reason::COMPOSING, message).with(Action::Compose {
            generation,
            changed,
            members,
            source,
        })
    }

    fn without_devices(&self, bare: &[&Member]) -> NextStep {
        let why = |member: &Member| {
            let (pod, node) = (&member.pod.name, &member.pod.node);
            match () {
                () if node.is_empty() => format!("{pod} has no node yet"),
                () if !member.table.connected => {
                    format!("{pod} (the agent of node {node} has no stream)")
                }
                () => format!("{pod} (node {node} reports no working devices of it)"),
            }
        };
        let named: Vec<String> = bare.iter().take(3).map(|member| why(member)).collect();
        let more = bare.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let size = self.size();
        let message = format!(
            "devices of {} of {size} pods are known; missing: {}{more}",
            size.saturating_sub(bare.len()),
            named.join(", ")
        );
        let next = self.lacking(reason::WAITING_FOR_DEVICES, message);
        let quiet = after(self.since(), self.timeouts.missing);
        if quiet > self.now {
            let again = next.again.map_or(quiet, |again| again.min(quiet));
            return NextStep { again: Some(again), ..next };
        }
        let placed = bare.iter().filter(|member| !member.pod.node.is_empty());
        NextStep { missing: placed.map(|member| member.pod.name.clone()).collect(), ..next }
    }

    /// Something is missing: the group waits, and has failed after its time.
    fn lacking(&self, reason: &'static str, message: String) -> NextStep {
        let limit = self.youngest.and_then(|member| member.marks.timeout);
        let limit = limit.unwrap_or(self.timeouts.failed);
        let end = after(self.since(), limit);
        if end <= self.now {
            let message = format!("{message}, after {} s", limit.as_secs());
            return NextStep::wait(reason::TIMEOUT, message);
        }
        NextStep { again: Some(end), ..NextStep::wait(reason, message) }
    }

    /// Since when the group waits: the youngest pod's creation, or what this coordinator saw later.
    fn since(&self) -> Timestamp {
        let created = self.youngest.map_or(self.now, |member| member.created);
        let seen = self.group.phase.waiting_since();
        seen.map_or(created, |seen| seen.max(created)).min(self.now)
    }
}

fn after(since: Timestamp, time: Duration) -> Timestamp {
    since.checked_add(time).unwrap_or(Timestamp::MAX)
}
