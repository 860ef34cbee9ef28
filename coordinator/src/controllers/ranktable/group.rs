//! What is to be done about a group, given everything that is known of it. Pure.
//!
//! ```text
//!   no record ─▶ create it, empty
//!   members change, read by ConfigMap volume ─▶ blank it
//!   pods or devices missing ─▶ wait, and say for what
//!   complete, and not what the record was made from ─▶ compose the next generation
//!   complete, as recorded ─▶ hand it out to who lacks it
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_proto::delivery::Digest;
use muster_ranktable::{Order, TableTemplate};

use super::digests;
use super::member::{GroupKey, Home, Life, Member};
use super::record::{LAST_GENERATION, Record, State};
use crate::conditions::reason;

/// Times that decide.
#[derive(Clone, Debug)]
pub struct Patience {
    /// After which a group without a table has failed.
    pub failed: Duration,
    /// After which it is said which pods hold nothing that is known.
    pub missing: Duration,
    /// After which it is said who does not have the table yet.
    pub late: Duration,
}

/// A rank group.
#[derive(Debug)]
pub struct Group {
    /// Which.
    pub key: GroupKey,
    /// Its pods, by uid.
    pub members: BTreeMap<String, Member>,
    /// What is recorded.
    pub record: Option<Arc<Record>>,
    /// What was tried with this input and this template, and failed.
    pub failed: Option<Failed>,
    /// The highest generation that this coordinator has ever seen recorded; records may be lost or changed by hand.
    pub floor: u64,
    /// Since when something is missing, as far as this coordinator has seen.
    pub lacking: Option<Timestamp>,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// With this input.
    pub input: Digest,
    /// And this template.
    pub template: Digest,
    /// For metrics.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// The template of a group, as far as it can be had.
pub type Template = Result<Arc<TableTemplate>, String>;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// Create the record.
    Create,
    /// Take the table out of the record.
    Blank,
    /// Make and record a table.
    Compose {
        /// Its generation.
        generation: u64,
        /// When its input changed.
        changed: String,
        /// Of the pods.
        members: Digest,
        /// Of the input.
        input: Digest,
    },
    /// The record holds: who lacks the table gets it.
    HandOut,
}

/// How the making of a table stands: one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether there is a table of the group as it is.
    pub ready: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for a person.
    pub message: String,
}

/// What is to be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// What.
    pub step: Step,
    /// Why.
    pub verdict: Verdict,
    /// Pods that hold nothing that is known although they have a node, some of them.
    pub missing: Vec<String>,
    /// When to look again, even if nothing changes.
    pub again: Option<Timestamp>,
}

// === impl Patience ===

impl Default for Patience {
    fn default() -> Self {
        Self {
            failed: Duration::from_secs(600),
            missing: Duration::from_secs(10),
            late: Duration::from_secs(5),
        }
    }
}

/// Pods of two objects of this kind never share a table, whatever they are called.
const SERVING: &str = muster_modelserving::api::KIND;

// === impl Group ===

impl Group {
    /// A group of which nothing is known.
    pub fn new(key: GroupKey) -> Self {
        Self { key, members: BTreeMap::new(), record: None, failed: None, floor: 0, lacking: None }
    }

    /// The members that take part.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.life == Life::Live)
    }

    /// The youngest member that takes part: its marks count, since a group that is scaled is marked anew.
    pub fn youngest(&self) -> Option<&Member> {
        self.live()
            .chain(self.members.values().filter(|member| member.life == Life::Done))
            .max_by_key(|member| (member.created, &member.pod.name))
    }

    /// The name of the template that its pods ask for.
    pub fn template(&self) -> Option<&str> {
        self.youngest()?.marks.template.as_deref()
    }

    /// The order of ranks: what the pods say, else what the template says. The ranks of a ModelServing follow its pods:
    /// engines expect the entry pod to have rank 0.
    pub fn order(&self, template: &TableTemplate) -> Order {
        let marks = self.youngest().map(|member| &member.marks);
        let serving = marks.is_some_and(|marks| marks.serving);
        let default = if serving { Order::Pod } else { Order::default() };
        marks.and_then(|marks| marks.order).or(template.order).unwrap_or(default)
    }

    /// The name of the file in the record: what the pods wait for, else what the template says.
    pub fn file<'a>(&'a self, template: &'a Template) -> &'a str {
        let asked = self.live().find_map(|member| match &member.home {
            Home::Agent(place) => Some(place.file.as_str()),
            _ => None,
        });
        asked
            .or(template.as_ref().ok().map(|template| template.filename.as_str()))
            .unwrap_or("ranktable.json")
    }

    /// What is to be done.
    pub fn outlook(&self, template: &Template, patience: &Patience, now: Timestamp) -> Outlook {
        let live: Vec<&Member> = self.live().collect();
        let done = self.members.values().filter(|member| member.life == Life::Done).count();
        let wait = |reason, message: String| Outlook::wait(reason, message);
        let Some(youngest) = self.youngest() else {
            return wait(reason::NO_PODS, "no pod of the group is there".to_owned());
        };
        let Some(record) = &self.record else {
            return Outlook {
                step: Step::Create,
                ..wait(reason::WAITING, "the record is being created".to_owned())
            };
        };
        if record.foreign {
            let name = crate::names::record(&self.key.name);
            let message = format!(
                "a ConfigMap {name} is there that is no record of a rank table: rename it, or the group"
            );
            return wait(reason::NAME_TAKEN, message);
        }
        let members = digests::members(&live);
        let published = record.state == State::Published;
        // A table of a job that ends stays as it is, for its own pods: whoever came later has no part in it.
        if done > 0 && self.are_recorded(record) {
            let message = format!("{done} pods have finished; the table stays as it is");
            let step = if published { Step::HandOut } else { Step::Wait };
            return Outlook { step, ..Outlook::new(published, reason::FINISHED, message) };
        }
        let same = record.members == Some(members);
        // Before anything else that may be wrong: a pod that comes must not read what was there before it.
        let by_map = live.iter().any(|member| matches!(member.home, Home::ConfigMap { .. }));
        if published && !same && by_map {
            let message = "pods have come or gone; the last table is taken away".to_owned();
            return Outlook { step: Step::Blank, ..wait(reason::CHANGING, message) };
        }
        let size = match &youngest.marks.size {
            Ok(size) => *size,
            Err(problem) => {
                return wait(
                    reason::INVALID_MARKS,
                    format!("pod {}: {problem}", youngest.pod.name),
                );
            }
        };
        let mut servings = live.iter().filter_map(|member| member.owner.as_ref());
        let first = servings.find(|owner| owner.kind == SERVING);
        if let Some(first) = first
            && let Some(other) =
                servings.find(|owner| owner.kind == SERVING && owner.uid != first.uid)
        {
            let message = format!(
                "ModelServings {} and {} both have pods in it: rename one of them",
                first.name, other.name
            );
            return wait(reason::INVALID_MARKS, message);
        }
        if live.is_empty() {
            let message = format!("{done} pods have finished");
            return wait(reason::FINISHED, message);
        }
        if live.len() != size {
            let message = format!("{} of {size} pods are there", live.len());
            return self.lacking(reason::WAITING_FOR_PODS, message, patience, now);
        }
        let bare: Vec<&&Member> = live.iter().filter(|member| member.devices.is_none()).collect();
        if !bare.is_empty() {
            // A coordinator that has just begun to lead knows little yet; what is recorded stays.
            if published && same && !bare.iter().any(|member| member.reported) {
                let message = format!(
                    "generation {}; {} of {size} agents have not confirmed their devices to this coordinator yet",
                    record.generation,
                    bare.len()
                );
                return Outlook {
                    step: Step::HandOut,
                    ..Outlook::new(true, reason::PUBLISHED, message)
                };
            }
            return self.bare(&bare, size, patience, now);
        }
        let template = match template {
            Ok(template) => template,
            // Those that run keep their table, whatever becomes of its template.
            Err(_) if published && same && self.is_running_as_recorded(record, &live) => {
                let message = format!("generation {}, {size} pods", record.generation);
                return Outlook {
                    step: Step::HandOut,
                    ..Outlook::new(true, reason::PUBLISHED, message)
                };
            }
            Err(problem) => return Outlook::new(false, reason::TEMPLATE_INVALID, problem.clone()),
        };
        let addresses = template.needs_addresses();
        let addressed =
            |member: &&&Member| !member.pod.pod_ip.is_empty() && !member.pod.host_ip.is_empty();
        let with = live.iter().filter(addressed).count();
        if addresses && with < size {
            let message = format!(
                "{with} of {size} pods have an address, which the template {} needs",
                template.name
            );
            return self.lacking(reason::WAITING_FOR_ADDRESSES, message, patience, now);
        }
        let input = digests::input(&live, addresses);
        let started = live.iter().any(|member| member.started);
        let template_same = record.template == Some(template.digest()) || started;
        if published && same && record.input == Some(input) && template_same {
            let message = format!("generation {}, {size} pods", record.generation);
            let behind = self.highest(&live) > record.generation;
            if !behind {
                return Outlook {
                    step: Step::HandOut,
                    ..Outlook::new(true, reason::PUBLISHED, message)
                };
            }
        }
        if let Some(failed) = &self.failed
            && failed.input == input
            && failed.template == template.digest()
        {
            return Outlook::new(false, reason::GENERATION_FAILED, failed.message.clone());
        }
        let changed = match record.input == Some(input) && !record.changed.is_empty() {
            true => record.changed.clone(),
            false => seconds(now),
        };
        // Anybody may have written anything into the record.
        let generation = record.generation.max(self.highest(&live)).saturating_add(1);
        let step = Step::Compose { generation, changed, members, input };
        Outlook {
            step,
            ..Outlook::new(
                false,
                reason::COMPOSING,
                format!("generation {generation} is being made"),
            )
        }
    }

    /// Whether a pod has started, and nothing that the table was made from has changed.
    fn is_running_as_recorded(&self, record: &Record, live: &[&Member]) -> bool {
        let same = |addresses| record.input == Some(digests::input(live, addresses));
        live.iter().any(|member| member.started) && (same(false) || same(true))
    }

    /// Whether those that live and those that are done are the pods of the recorded table.
    fn are_recorded(&self, record: &Record) -> bool {
        let theirs: Vec<&Member> =
            self.members.values().filter(|member| member.life != Life::Over).collect();
        record.members == Some(digests::members(&theirs))
    }

    /// The highest generation that was ever recorded as far as this coordinator knows, that an agent says it has
    /// written for one of these pods, or that one of them was told of. If the record was lost, the next one must still
    /// be higher.
    fn highest(&self, live: &[&Member]) -> u64 {
        let there = live.iter().filter_map(|member| match member.home {
            Home::ConfigMap { told } => told.filter(|told| *told <= LAST_GENERATION),
            _ => member.seat.delivered.map(|(generation, _)| generation),
        });
        there.max().unwrap_or_default().max(self.floor)
    }

    /// The generation that a new record begins with: no lower than any that pods of the group may have.
    pub fn beginning(&self) -> u64 {
        self.highest(&self.live().collect::<Vec<_>>())
    }

    fn bare(&self, bare: &[&&Member], size: usize, patience: &Patience, now: Timestamp) -> Outlook {
        let why = |member: &Member| match () {
            () if member.pod.node.is_empty() => format!("{} has no node yet", member.pod.name),
            () if !member.seat.linked => {
                format!("{} (the agent of node {} has no stream)", member.pod.name, member.pod.node)
            }
            () => {
                format!(
                    "{} (node {} reports no working devices of it)",
                    member.pod.name, member.pod.node
                )
            }
        };
        let named: Vec<String> = bare.iter().take(3).map(|member| why(member)).collect();
        let more = bare.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "devices of {} of {size} pods are known; missing: {}{more}",
            size - bare.len(),
            named.join(", ")
        );
        let outlook = self.lacking(reason::WAITING_FOR_DEVICES, message, patience, now);
        let placed = bare.iter().filter(|member| !member.pod.node.is_empty());
        let since = self.since(now);
        let quiet = after(since, patience.missing);
        match quiet <= now {
            true => Outlook {
                missing: placed.map(|member| member.pod.name.clone()).collect(),
                ..outlook
            },
            false => Outlook {
                again: Some(outlook.again.map_or(quiet, |again| again.min(quiet))),
                ..outlook
            },
        }
    }

    fn lacking(
        &self,
        reason: &'static str,
        message: String,
        patience: &Patience,
        now: Timestamp,
    ) -> Outlook {
        let limit =
            self.youngest().and_then(|member| member.marks.timeout).unwrap_or(patience.failed);
        let end = after(self.since(now), limit);
        if end <= now {
            let message = format!("{message}, after {} s", limit.as_secs());
            return Outlook::new(false, reason::TIMEOUT, message);
        }
        Outlook { again: Some(end), ..Outlook::new(false, reason, message) }
    }

    /// Since when the group waits: the youngest pod's creation, or what this coordinator saw later.
    fn since(&self, now: Timestamp) -> Timestamp {
        let created = self.youngest().map_or(now, |member| member.created);
        self.lacking.map_or(created, |seen| seen.max(created)).min(now)
    }
}

// === impl Outlook ===

impl Outlook {
    fn new(ready: bool, reason: &'static str, message: String) -> Self {
        let verdict = Verdict { ready, reason, message };
        Self { step: Step::Wait, verdict, missing: Vec::new(), again: None }
    }

    fn wait(reason: &'static str, message: String) -> Self {
        Self::new(false, reason, message)
    }

    /// Whether somebody must do something: it will not get better by itself.
    pub fn has_failed(&self) -> bool {
        reason::STUCK.contains(&self.verdict.reason)
    }
}

/// A moment in whole seconds, as RFC 3339.
pub fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

fn after(since: Timestamp, time: Duration) -> Timestamp {
    since.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
