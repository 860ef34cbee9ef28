//! A rank group: its pods, its record, and where it stands. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_hub::blob::Blob;
use muster_proto::delivery::Digest;
use muster_ranktable::{Order, TableTemplate};
use tokio::time::Instant;

use super::member::{GroupKey, Home, Life, Member};
use super::phase::{Moment, Phase};
use super::record::{LAST_GENERATION, Record, State};
use super::report::Reported;

/// After the first deletion of a record by somebody else it is made again after this, after the next one after twice as long.
const RECREATE_FIRST: Duration = Duration::from_millis(200);
/// No longer than this.
const RECREATE_LONGEST: Duration = Duration::from_secs(30);

/// The template of a group, as far as it can be had.
pub type Template = Result<Arc<TableTemplate>, String>;

/// A rank group.
#[derive(Debug)]
pub struct RankGroup {
    /// Its namespace and name.
    pub key: GroupKey,
    /// Its pods, by uid.
    pub members: BTreeMap<String, Member>,
    /// What is known of its record.
    pub recorded: Recorded,
    /// Where it stands.
    pub phase: Phase,
    /// What was reported, so that it is not reported again; none before the first reconcile.
    pub reported: Option<Reported>,
    /// When anything about its pods changed last.
    pub changed_at: Option<Instant>,
    /// It is not reconciled before.
    pub held_until: Option<Instant>,
}

/// What is known of a group's record.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The record, if there is one.
    pub record: Option<Arc<Record>>,
    /// The table that it names, ready to be sent; none before it is made or loaded.
    pub table: Option<PackedTable>,
    /// Since when it has this generation and table, as far as this coordinator wrote or saw it.
    pub since: Option<Timestamp>,
    /// The highest generation that this coordinator has ever seen recorded: records may be lost or changed by hand.
    pub highest: u64,
    /// Uid of the last record that was ours.
    uid: Option<String>,
    /// How often somebody has deleted it.
    deletions: u32,
}

/// A table that can be sent.
#[derive(Clone, Debug)]
pub struct PackedTable {
    /// Its generation.
    pub generation: u64,
    /// As it travels.
    pub blob: Arc<Blob>,
    /// Uids of the pods whose agents were sent it.
    pub sent: BTreeSet<String>,
}

// === impl RankGroup ===

impl RankGroup {
    /// A group of which nothing is known.
    pub fn new(key: GroupKey) -> Self {
        Self {
            key,
            members: BTreeMap::new(),
            recorded: Recorded::default(),
            phase: Phase::default(),
            reported: None,
            changed_at: None,
            held_until: None,
        }
    }

    /// A pod has come or changed. Whether it is new.
    pub fn set_member(&mut self, mut member: Member, now: Instant) -> bool {
        if let Some(before) = self.members.get(&member.pod.uid) {
            member.remember(before);
        }
        self.changed_at = Some(now);
        let new = self.members.insert(member.pod.uid.clone(), member).is_none();
        if new {
            // Whatever was lost before, a pod that comes must not wait for it.
            self.held_until = None;
        }
        new
    }

    /// A pod is gone, or belongs to another group now.
    pub fn remove_member(&mut self, uid: &str) -> Option<Member> {
        self.forget_sent(uid);
        self.members.remove(uid)
    }

    /// The hub may have forgotten that this pod's agent was sent the table. Whether it was.
    pub fn forget_sent(&mut self, uid: &str) -> bool {
        self.recorded.table.as_mut().is_some_and(|table| table.sent.remove(uid))
    }

    /// The watch shows the record, or that it is gone.
    pub fn see_record(&mut self, record: Option<Record>, now: Moment) {
        if record.is_none() {
            self.held_until = Some(now.clock + self.recorded.deleted());
        }
        self.set_record(record, now.time);
    }

    /// The record, as somebody else or we have written it.
    pub fn set_record(&mut self, record: Option<Record>, now: Timestamp) {
        self.recorded.set(record, now);
    }

    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        self.recorded.record.as_deref()
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

    /// Whether pods read the record in a volume.
    pub fn has_readers(&self) -> bool {
        self.live().any(|member| matches!(member.home, Home::ConfigMap { .. }))
    }

    /// The highest generation that was ever recorded as far as this coordinator knows, that an agent says it has
    /// written for one of these pods, or that one of them was told of. If the record was lost, the next one must still
    /// be higher.
    pub fn highest_generation(&self) -> u64 {
        let there = self.live().filter_map(|member| match member.home {
            Home::ConfigMap { announced } => {
                announced.filter(|announced| *announced <= LAST_GENERATION)
            }
            _ => member.table.delivered.map(|(generation, _)| generation),
        });
        there.max().unwrap_or_default().max(self.recorded.highest)
    }

    /// Whether a member that its agent should give the recorded table does not have it.
    pub fn lacks_table(&self, uid: &str) -> bool {
        let Some((generation, digest)) = self.recorded.published() else { return false };
        let member = self.members.get(uid);
        member.is_some_and(|member| {
            matches!(member.home, Home::Agent(_)) && !member.has(generation, digest)
        })
    }
}

// === impl Recorded ===

impl Recorded {
    fn set(&mut self, mut record: Option<Record>, now: Timestamp) {
        if let Some(record) = &mut record {
            // Whoever takes all marks away from our record does not make it somebody else's.
            record.foreign &= self.uid.as_ref() != Some(&record.uid);
            if !record.foreign {
                self.uid = Some(record.uid.clone());
            }
        }
        let named = |record: &Record| (record.generation, record.digest);
        if record.as_ref().map(named) != self.record.as_deref().map(named) {
            self.since = Some(now);
        }
        let generation = record.as_ref().map_or(0, |record| record.generation);
        self.highest = self.highest.max(generation);
        self.record = record.map(Arc::new);
    }

    /// Somebody has deleted the record: each time it is made again later, or two would keep each other busy.
    fn deleted(&mut self) -> Duration {
        let wait = RECREATE_FIRST.saturating_mul(1 << self.deletions.min(10));
        self.deletions = self.deletions.saturating_add(1);
        wait.min(RECREATE_LONGEST)
    }

    /// Generation and digest of the table that pods should have.
    pub fn published(&self) -> Option<(u64, Digest)> {
        let record = self.record.as_ref().filter(|record| record.state == State::Published)?;
        Some((record.generation, record.digest?))
    }

    /// The table that the record names, if it is at hand.
    pub fn ready_table(&self) -> Option<&PackedTable> {
        let record = self.record.as_deref()?;
        self.table.as_ref().filter(|table| {
            table.generation == record.generation && Some(table.blob.digest()) == record.digest
        })
    }

    /// The table that the record names is at hand: nobody was sent it yet.
    pub fn set_table(&mut self, generation: u64, blob: Arc<Blob>) {
        self.table = Some(PackedTable { generation, blob, sent: BTreeSet::new() });
    }
}

/// A moment in whole seconds, as RFC 3339.
pub fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
