//! What a coordinator that wants to lead does next. Pure: time, answers and the clock on the wall are parameters.
//!
//! With a lease of 15 s: a leader renews every 5 s and its fence stands for 10 s from before the last renewal was sent;
//! each request may take 2.5 s, so that two fit in between. Others look every 2.5 s, or when the watch tells them to,
//! and take over when they have seen no change for 15 s.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::record::{self, Claim, Record};
use super::{LONGEST, SHORTEST, Settings};

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease.
    Look,
    /// Create the Lease: there is none.
    Create,
    /// Become the leader, in a new epoch.
    Take,
    /// Stay the leader.
    Renew,
    /// Nothing before then.
    Wait {
        /// When to ask again.
        until: Instant,
    },
}

/// What [`decide`] must know about us.
#[derive(Clone, Debug)]
pub struct Me {
    identity: String,
    lease: Duration,
    /// We lead.
    term: Option<Term>,
    /// The epoch that we tried to lead in last; the answer may have been lost.
    tried: Option<u64>,
    /// We have seen a Lease.
    ever: bool,
    /// Until when nobody else can lead, since nobody else did when we last renewed.
    ours_until: Option<Instant>,
}

/// The time in which we lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its epoch.
    pub epoch: u64,
    /// It ends then, unless it is renewed.
    pub until: Instant,
    /// When to renew.
    renew: Instant,
}

/// A coordinator that wants to lead.
#[derive(Debug)]
pub struct Candidate {
    me: Me,
    name: String,
    address: String,
    seen: Option<Seen>,
    /// What was seen may be out of date.
    stale: bool,
    looked: Option<Instant>,
    /// Something failed: nothing is sent before then.
    hold: Option<Instant>,
    conflicts: u32,
    /// The highest epoch that was seen.
    highest: u64,
}

#[derive(Debug)]
struct Seen {
    lease: Option<Lease>,
    record: Option<Record>,
    since: Instant,
}

/// What to do about the Lease as it was seen, when it has been so `since` then.
pub fn decide(seen: Option<&Record>, me: &Me, since: Instant, now: Instant) -> Step {
    let Some(record) = seen else {
        // Whoever led when it was deleted may go on for a while, unless that was us.
        let free = !me.ever || me.ours_until.is_some_and(|until| now < until);
        let until = since + me.lease;
        return if free || now >= until { Step::Create } else { Step::Wait { until } };
    };
    if let Some(term) = &me.term {
        let until = term.renew;
        return if now >= until { Step::Renew } else { Step::Wait { until } };
    }
    // A request of ours has been heard, but not its answer.
    let ours = me.holds(record) && me.tried.is_some() && record.epoch == me.tried;
    let until = since + record.duration.unwrap_or_default().clamp(me.lease, LONGEST);
    if record.is_free() || ours || now >= until { Step::Take } else { Step::Wait { until } }
}

fn resource_version(lease: Option<&Lease>) -> Option<&str> {
    lease?.metadata.resource_version.as_deref()
}

// === impl Me ===

impl Me {
    fn holds(&self, record: &Record) -> bool {
        record.holder.as_deref() == Some(&self.identity)
    }
}

// === impl Candidate ===

impl Candidate {
    /// One that has seen nothing yet.
    pub fn new(settings: &Settings) -> Self {
        let me = Me {
            identity: settings.identity.clone(),
            lease: settings.lease.clamp(SHORTEST, LONGEST),
            term: None,
            tried: None,
            ever: false,
            ours_until: None,
        };
        Self {
            me,
            name: settings.name.clone(),
            address: settings.address.clone(),
            seen: None,
            stale: true,
            looked: None,
            hold: None,
            conflicts: 0,
            highest: 0,
        }
    }

    /// What to do now.
    pub fn step(&mut self, now: Instant) -> Step {
        if self.me.term.is_some_and(|term| now >= term.until) {
            self.depose();
        }
        let end = self.me.term.map(|term| term.until);
        let wait = |until: Instant| Step::Wait { until: end.map_or(until, |end| until.min(end)) };
        if let Some(hold) = self.hold.filter(|hold| now < *hold) {
            return wait(hold);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.stale) else {
            // However often the Lease changes, it is not read all the time.
            let gap = self.looked.map(|looked| looked + self.me.lease / 60);
            return gap.filter(|gap| now < *gap).map_or(Step::Look, wait);
        };
        match decide(seen.record.as_ref(), &self.me, seen.since, now) {
            Step::Wait { until } if end.is_none() => {
                let look = self.looked.unwrap_or(now) + self.me.lease / 6;
                if now >= look { Step::Look } else { wait(until.min(look)) }
            }
            Step::Wait { until } => wait(until),
            step => step,
        }
    }

    /// How long a request that is sent now may take.
    pub fn limit(&self, now: Instant) -> Duration {
        let limit = self.me.lease / 6;
        self.me.term.map_or(limit, |term| limit.min(term.until.saturating_duration_since(now)))
    }

    /// We lead, or not. It is as of the last [`Candidate::step`].
    pub fn term(&self) -> Option<Term> {
        self.me.term
    }

    /// Where the leader is that was last seen, if that is not us.
    pub fn leader(&self) -> Option<&str> {
        let record = self.seen.as_ref()?.record.as_ref()?;
        let other = record.holder.is_some() && !self.me.holds(record);
        record.address.as_deref().filter(|_| other)
    }

    /// We do not lead any more.
    pub fn depose(&mut self) {
        self.me.term = None;
        self.stale = true;
    }

    /// Somebody says that the Lease has changed: this is its resourceVersion now, if it is there.
    pub fn nudge(&mut self, version: Option<&str>) {
        let known = self.seen.as_ref().and_then(|seen| resource_version(seen.lease.as_ref()));
        self.stale |= known != version;
    }

    /// The Lease was read; the answer came `at` then.
    pub fn found(&mut self, lease: Option<Lease>, at: Instant) {
        let record = lease.as_ref().map(Record::read);
        if let Some(record) = &record {
            self.me.ever = true;
            self.highest = self.highest.max(record.epoch.unwrap_or(0));
        }
        if let Some(term) = self.me.term {
            // An epoch that somebody made smaller by hand is put right by the next renewal.
            let ours =
                |record: &Record| self.me.holds(record) && record.epoch.unwrap_or(0) <= term.epoch;
            if !record.as_ref().is_some_and(ours) {
                self.me.term = None;
            }
        }
        if record.as_ref().is_some_and(|record| !self.me.holds(record)) {
            self.me.ours_until = None;
        }
        let same = self.seen.as_ref().filter(|seen| seen.record == record);
        let since = same.map_or(at, |seen| seen.since);
        if same.is_none() {
            self.conflicts = 0;
        }
        self.seen = Some(Seen { lease, record, since });
        self.stale = false;
        self.looked = Some(at);
    }

    /// What to write for a step, and the epoch in it. Nothing if the step writes nothing.
    pub fn draft(&mut self, step: Step, wall: Timestamp) -> Option<(Lease, u64)> {
        let found = self.seen.as_ref()?.lease.as_ref();
        let next = || {
            let clock = u64::try_from(wall.as_second()).unwrap_or(0);
            clock.min(record::LARGEST_EPOCH / 2).max(self.highest + 1)
        };
        let epoch = match step {
            Step::Renew => self.me.term?.epoch,
            _ => next(),
        };
        let (identity, address, lease) = (&*self.me.identity, &*self.address, self.me.lease);
        let claim = Claim { identity, address, epoch, lease, wall };
        let lease = match step {
            Step::Create => claim.created(&self.name),
            Step::Take => claim.taken(found?),
            Step::Renew => claim.renewed(found?),
            Step::Look | Step::Wait { .. } => return None,
        };
        // What was only tried does not count: epochs would run ahead of the clock, which is all that is left of them
        // when somebody deletes the Lease.
        self.me.tried = Some(epoch);
        // Until the answer is there nobody knows what the Lease says.
        self.stale = true;
        Some((lease, epoch))
    }

    /// The Lease was written as drafted. It was `sent` then, and the answer came `at` then.
    pub fn wrote(&mut self, lease: Lease, epoch: u64, sent: Instant, at: Instant) {
        self.found(Some(lease), at);
        (self.hold, self.conflicts) = (None, 0);
        let until = sent + self.me.lease * 2 / 3;
        let over = self.me.term.is_some_and(|term| at >= term.until);
        if over || at >= until {
            // Too late: what has ended does not stand again.
            self.depose();
            return;
        }
        self.me.ours_until = Some(until);
        self.me.term = Some(Term { epoch, until, renew: sent + self.me.lease / 3 });
    }

    /// A request that was `sent` then has failed. Who was only slower than somebody else may look again at once.
    pub fn failed(&mut self, conflict: bool, sent: Instant) {
        self.stale = true;
        if conflict {
            self.conflicts += 1;
            self.looked = None;
        }
        if !conflict || self.conflicts > 1 {
            self.hold = Some(sent + self.me.lease / 12);
        }
    }

    /// What to write to give the Lease back, if it is ours. The term is over.
    pub fn release(&mut self) -> Option<Lease> {
        let ours = self
            .seen
            .as_ref()
            .filter(|seen| seen.record.as_ref().is_some_and(|record| self.me.holds(record)));
        let lease = ours.and_then(|seen| seen.lease.as_ref()).map(record::released);
        self.depose();
        lease
    }

    /// Whether what was seen may be out of date.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Whether we have ever tried to lead.
    pub fn has_tried(&self) -> bool {
        self.me.tried.is_some()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
