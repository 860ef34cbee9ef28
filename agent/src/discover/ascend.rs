//! Ascend devices.
//!
//! ```text
//!   files ───────────────┐
//!   npu-smi, hccn_tool ──┼─▶ Facts ─▶ merge (pure) ─▶ SourceReport
//!   libdcmi (feature) ───┘     ▲
//!                              └─ slow facts are kept between scans
//! ```
//!
//! Health and links are asked in every full scan. What hardly ever changes (numbers, topology, addresses, the place in
//! a super-pod) becomes stale when the devices, the driver or `hccn.conf` change, or when it has become old, and asked
//! in each full scan until it is answered. Until then the last answer counts: a tool that hangs takes nothing from devices that
//! are still there. A source that fails is a finding; what the others said stays.
//!
//! Start reading at [`mod@merge`].

mod ask;
pub mod files;
#[cfg(feature = "dcmi")]
mod library;
pub mod links;
pub mod merge;
pub mod parse;
pub mod place;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use muster_proto::device::{Chip, Device, Health};
use parking_lot::Mutex;

use self::ask::{Answers, Ask, AskErrors};
use self::files::Files;
use self::merge::{Facts, list, merge};
use self::parse::{conf::Conf, hccn, spod::Spod};
use super::SourceReport;
use crate::problem::Finding;
use crate::tool::Tools;

/// How long slow facts are believed.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Finds Ascend devices, and remembers what it found.
#[derive(Debug)]
pub struct Ascend {
    refresh_after: SignedDuration,
    facts: Facts,
    /// What the facts are of, when slow ones last became stale, and which of them still are.
    of: Option<Subject>,
    asked: Option<Timestamp>,
    stale: Stale,
    /// Devices as they were when their files were last there. Who is gone stays a fault until it comes back
    /// or the agent starts anew.
    seen: Mutex<BTreeMap<u32, Device>>,
    #[cfg(feature = "dcmi")]
    library: library::Library,
}

/// When this changes, slow facts are asked again.
#[derive(Clone, Debug, PartialEq)]
struct Subject {
    ids: BTreeSet<u32>,
    driver: (String, Option<String>),
    conf: Option<Conf>,
}

/// Slow facts that are to be asked, in each look until they are answered.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stale {
    numbers: bool,
    topo: bool,
    ip: BTreeSet<u32>,
    vnic: BTreeSet<u32>,
    lldp: BTreeSet<u32>,
    spod: BTreeSet<u32>,
}

/// What the library has told in this look, so that tools need not be asked.
#[derive(Debug, Default)]
struct LibraryAnswers {
    /// The chips, their numbers and their health.
    chips: bool,
    /// Addresses of these devices.
    ip: BTreeSet<u32>,
    /// Places in the super-pod of these NPUs and chips.
    spod: BTreeSet<(u32, u32)>,
}

// === impl Ascend ===

impl Default for Ascend {
    fn default() -> Self {
        Self::new()
    }
}

impl Ascend {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            refresh_after: REFRESH_AFTER,
            facts: Facts::default(),
            of: None,
            asked: None,
            stale: Stale::default(),
            seen: Mutex::default(),
            #[cfg(feature = "dcmi")]
            library: library::Library::default(),
        }
    }

    /// The same, believing slow facts for so long.
    #[must_use]
    pub fn refresh_after(mut self, time: SignedDuration) -> Self {
        self.refresh_after = time;
        self
    }

    /// What files say now, with what tools said in the last look. Asks nobody.
    pub fn scan_files(&self, files: &Files) -> SourceReport {
        self.report(files, &self.facts)
    }

    /// Whether tools should be asked soon: devices, driver or `hccn.conf` are not those that they were asked about.
    pub fn is_due(&self, files: &Files) -> bool {
        match &self.of {
            Some(of) => *of != Subject::of(files),
            None => !files.ids.is_empty(),
        }
    }

    /// What files, tools and the library say. `now` tells how old slow facts are. Reads no files of drivers.
    pub async fn scan_all(&mut self, files: &Files, tools: &Tools, now: Timestamp) -> SourceReport {
        if files.ids.is_empty() {
            // Nobody to ask about. Who was seen before is gone.
            (self.facts, self.of, self.asked) = (Facts::default(), None, None);
            return self.report(files, &Facts::default());
        }
        self.mark_stale(files, now);
        let mut errors = AskErrors::default();
        self.facts.asked = true;
        #[cfg(feature = "dcmi")]
        let answers = self.library.ask(files, tools, &mut self.facts, &mut errors).await;
        #[cfg(not(feature = "dcmi"))]
        let answers = LibraryAnswers::default();
        let ask = Ask::new(tools, &files.driver);
        self.ask_chips(files, &ask, &answers, &mut errors).await;
        let refused = self.ask_ports(files, &ask, &answers, &mut errors).await;
        let mut report = self.report(files, &self.facts);
        report.findings.extend(errors.findings());
        report.findings.extend(refused);
        report
    }

    /// Notes which slow facts must be asked again; forgets those of devices that are gone.
    fn mark_stale(&mut self, files: &Files, now: Timestamp) {
        let subject = Subject::of(files);
        let young = |asked: Timestamp| {
            let age = now.duration_since(asked);
            !age.is_negative() && age < self.refresh_after
        };
        let same = self.of.as_ref() == Some(&subject);
        if !same {
            self.facts.keep(&files.ids);
        }
        if !same || !self.asked.is_some_and(young) {
            self.of = Some(subject);
            self.asked = Some(now);
            self.stale = Stale::all(&files.ids);
        }
    }

    /// `npu-smi` of all chips. What fails keeps its last answer, except health: that is unknown then.
    async fn ask_chips(
        &mut self,
        files: &Files,
        ask: &Ask<'_>,
        answers: &LibraryAnswers,
        errors: &mut AskErrors,
    ) {
        let (facts, stale) = (&mut self.facts, &mut self.stale);
        if answers.chips {
            facts.of.clone_from(&files.ids);
            stale.numbers = false;
        }
        let info = async { if answers.chips { None } else { Some(ask.info().await) } };
        let numbers = async { if stale.numbers { Some(ask.numbers().await) } else { None } };
        let topo = async { if stale.topo { Some(ask.topo(files.chip()).await) } else { None } };
        let (info, numbers, topo) = tokio::join!(info, numbers, topo);
        match info {
            Some(Ok(rows)) => {
                facts.rows = Some(rows);
                facts.of.clone_from(&files.ids);
            }
            Some(Err(error)) => {
                errors.add("npu-smi", "info", &error, None);
                for row in facts.rows.iter_mut().flatten() {
                    row.health = Health::Unknown;
                }
            }
            None => {}
        }
        match numbers {
            Some(Ok(numbers)) => (facts.numbers, stale.numbers) = (Some(numbers), false),
            Some(Err(error)) => errors.add("npu-smi", "info -m", &error, None),
            None => {}
        }
        match topo {
            Some(Ok(topo)) => (facts.topo, stale.topo) = (Some(topo), false),
            Some(Err(error)) => errors.add("npu-smi", "info -t topo", &error, None),
            None => {}
        }
    }

    /// `hccn_tool` of each port, and each die's place in a super-pod. Returns who refused to tell the place, if that
    /// is a problem.
    async fn ask_ports(
        &mut self,
        files: &Files,
        ask: &Ask<'_>,
        answers: &LibraryAnswers,
        errors: &mut AskErrors,
    ) -> Option<Finding> {
        let chip = self.facts.chip(files);
        if !chip.has_port() {
            return None;
        }
        let seen: BTreeSet<u32> = self.seen.lock().keys().copied().collect();
        let placed = self.facts.placed(files, &seen).unwrap_or_default();
        let cards = placed.iter().filter(|(id, _)| files.ids.contains(id));
        let cards: BTreeMap<(u32, u32), u32> =
            cards.map(|(id, row)| ((row.npu, row.chip), *id)).collect();
        let (facts, stale) = (&mut self.facts, &mut self.stale);
        if !cards.is_empty() {
            facts.spod.retain(|card, _| cards.contains_key(card));
        }
        for (_, id) in cards.iter().filter(|(card, _)| answers.spod.contains(card)) {
            stale.spod.remove(id);
        }
        stale.ip.retain(|id| !answers.ip.contains(id));
        let all: Vec<u32> = files.ids.iter().copied().collect();
        // A port without an address may get one at any time: it is asked again in each look.
        let has = |known: &BTreeMap<u32, Option<IpAddr>>, id: &u32| {
            known.get(id).is_some_and(|address| address.is_some())
        };
        let super_pod = chip == Chip::AscendA3;
        let of = |wanted: &dyn Fn(&u32) -> bool| -> Vec<u32> {
            all.iter().copied().filter(|id| wanted(id)).collect()
        };
        let ip =
            of(&|id| !answers.ip.contains(id) && (stale.ip.contains(id) || !has(&facts.ip, id)));
        let vnic = of(&|id| super_pod && (stale.vnic.contains(id) || !has(&facts.vnic, id)));
        let lldp = of(&|id| stale.lldp.contains(id));
        let places = cards.iter().filter(|(_, id)| super_pod && stale.spod.contains(id));
        let places: Vec<(u32, u32)> = places.map(|(card, _)| *card).collect();
        let (link, ip, vnic, lldp, spod) = tokio::join!(
            ask.ports("-link", &all, hccn::link),
            ask.ports("-ip", &ip, hccn::ip),
            ask.ports("-vnic", &vnic, hccn::ip),
            ask.lldp(&lldp),
            ask.spod(&places),
        );
        facts.link.clear();
        keep(&mut facts.link, link, &mut BTreeSet::new(), |id, error| {
            errors.add("hccn_tool", "-link", &error, Some(id));
        });
        keep(&mut facts.ip, ip, &mut stale.ip, |id, error| {
            errors.add("hccn_tool", "-ip", &error, Some(id));
        });
        keep(&mut facts.vnic, vnic, &mut stale.vnic, |id, error| {
            // A server outside of a super-pod has no such network.
            if !error.is_refusal() {
                errors.add("hccn_tool", "-vnic", &error, Some(id));
            }
        });
        keep(&mut facts.lldp, lldp, &mut stale.lldp, |id, error| {
            errors.add("hccn_tool", "-lldp", &error, Some(id));
        });
        let mut refused = BTreeMap::new();
        let mut stale_places: BTreeSet<(u32, u32)> = places.into_iter().collect();
        keep(&mut facts.spod, spod, &mut stale_places, |card, error| {
            let id = cards.get(&card).copied();
            match id.filter(|_| error.is_refusal()) {
                Some(id) => _ = refused.insert(id, error.to_string()),
                None => errors.add("npu-smi", "info -t spod-info", &error, id),
            }
        });
        // A server that is in no super-pod refuses for all its dies, and need not be asked again soon.
        let is_member = facts.spod.values().any(Spod::is_place);
        let answered = |card: &(u32, u32), id: &u32| {
            !stale_places.contains(card) || (!is_member && refused.contains_key(id))
        };
        for (_, id) in cards.iter().filter(|(card, id)| answered(card, id)) {
            stale.spod.remove(id);
        }
        let said = refused.values().next().filter(|_| is_member)?;
        let which: Vec<u32> = refused.keys().copied().collect();
        let message = format!(
            "{}: npu-smi refuses to tell the place in the super-pod, and this node is in one; what it said before \
             is kept, and it is asked again: {said}",
            list(&which)
        );
        Some(Finding::new("super-pod-partial", "super-pod places", message))
    }

    /// The answer; devices whose files are there are remembered.
    fn report(&self, files: &Files, facts: &Facts) -> SourceReport {
        let mut seen = self.seen.lock();
        let report = merge(files, facts, &seen);
        for device in report.devices.iter().filter(|device| files.ids.contains(&device.id)) {
            seen.insert(device.id, device.clone());
        }
        report
    }
}

// === impl Subject ===

impl Subject {
    fn of(files: &Files) -> Self {
        Self {
            ids: files.ids.clone(),
            driver: (files.driver.clone(), files.version.clone()),
            conf: files.conf.clone(),
        }
    }
}

// === impl Stale ===

impl Stale {
    /// Everything of these devices.
    fn all(ids: &BTreeSet<u32>) -> Self {
        let [ip, vnic, lldp, spod] = [(); 4].map(|()| ids.clone());
        Self { numbers: true, topo: true, ip, vnic, lldp, spod }
    }
}

/// Keeps answers, which are no longer stale; errors go to `complain`.
fn keep<K: Ord, T>(
    known: &mut BTreeMap<K, T>,
    answers: Answers<K, T>,
    stale: &mut BTreeSet<K>,
    mut complain: impl FnMut(K, ask::AskError),
) {
    for (key, answer) in answers {
        match answer {
            Ok(answer) => {
                stale.remove(&key);
                known.insert(key, answer);
            }
            Err(error) => complain(key, error),
        }
    }
}
