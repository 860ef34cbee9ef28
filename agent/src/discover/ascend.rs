//! Ascend devices.
//!
//! ```text
//!   files ───────────────┐
//!   npu-smi, hccn_tool ──┼─▶ Facts ─▶ merge (pure) ─▶ Part
//!   libdcmi (feature) ───┘     ▲
//!                              └─ slow facts are kept between looks
//! ```
//!
//! Health and links are asked in every look. What hardly ever changes (numbers, topology, addresses, the place in
//! a super-pod) is asked again when the devices, the driver or `hccn.conf` change, or when it has become old. A source
//! that fails is a finding; what the others said stays.
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

use self::ask::{Answers, Ask, Troubles};
use self::files::Files;
use self::merge::{Facts, merge};
use self::parse::{conf::Conf, hccn};
use super::Part;
use crate::host::Host;
use crate::tool::Tools;

/// How long slow facts are believed.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Finds Ascend devices, and remembers what it found.
#[derive(Debug)]
pub struct Ascend {
    refresh_after: SignedDuration,
    facts: Facts,
    /// What the facts are of, and since when they are all known.
    of: Option<Subject>,
    asked: Option<Timestamp>,
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

/// What the library has told in this look, so that tools need not be asked.
#[derive(Debug, Default)]
struct Told {
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

    /// What files say now, with what tools said in the last look while driver and `hccn.conf` are the same.
    /// Reads files only: milliseconds.
    pub fn files(&self, host: &Host) -> Part {
        let files = Files::read(host);
        let subject = Subject::of(&files);
        let same = |of: &Subject| (&of.driver, &of.conf) == (&subject.driver, &subject.conf);
        match &self.of {
            Some(of) if same(of) => self.tell(&files, &self.facts),
            _ => self.tell(&files, &Facts::default()),
        }
    }

    /// What files, tools and the library say. `now` tells how old slow facts are.
    pub async fn look(&mut self, host: &Host, tools: &Tools, now: Timestamp) -> Part {
        let files = Files::read(host);
        if files.ids.is_empty() {
            // Nobody to ask about. Who was seen before is gone.
            (self.facts, self.of, self.asked) = (Facts::default(), None, None);
            return self.tell(&files, &Facts::default());
        }
        let due = self.is_due(&files, now);
        let mut troubles = Troubles::default();
        self.facts.of.clone_from(&files.ids);
        #[cfg(feature = "dcmi")]
        let told = self.library.ask(&files, tools, &mut self.facts, &mut troubles).await;
        #[cfg(not(feature = "dcmi"))]
        let told = Told::default();
        let ask = Ask::new(tools, &files.driver);
        self.ask_chips(&files, &ask, due, &told, &mut troubles).await;
        self.ask_ports(&files, &ask, due, &told, &mut troubles).await;
        if due {
            self.asked = Some(now);
        }
        let mut part = self.tell(&files, &self.facts);
        part.findings.extend(troubles.findings());
        part
    }

    /// Whether slow facts must be asked again; forgets those of other devices, another driver or file.
    fn is_due(&mut self, files: &Files, now: Timestamp) -> bool {
        let subject = Subject::of(files);
        if self.of.as_ref() != Some(&subject) {
            self.facts = Facts::default();
            self.of = Some(subject);
            self.asked = None;
        }
        let young = |asked: Timestamp| {
            let age = now.duration_since(asked);
            !age.is_negative() && age < self.refresh_after
        };
        !self.asked.is_some_and(young)
    }

    /// `npu-smi` of all chips. What fails keeps its last answer, except health: that is unknown then.
    async fn ask_chips(
        &mut self,
        files: &Files,
        ask: &Ask<'_>,
        due: bool,
        told: &Told,
        troubles: &mut Troubles,
    ) {
        let facts = &mut self.facts;
        let info = async { if told.chips { None } else { Some(ask.info().await) } };
        let numbers = async {
            let wanted = !told.chips && (due || facts.numbers.is_none());
            if wanted { Some(ask.numbers().await) } else { None }
        };
        let topo = async {
            let wanted = due || facts.topo.is_none();
            if wanted { Some(ask.topo(files.chip()).await) } else { None }
        };
        let (info, numbers, topo) = tokio::join!(info, numbers, topo);
        match info {
            Some(Ok(rows)) => facts.rows = Some(rows),
            Some(Err(trouble)) => {
                troubles.add("npu-smi", "info", &trouble, None);
                for row in facts.rows.iter_mut().flatten() {
                    row.health = Health::Unknown;
                }
            }
            None => {}
        }
        match numbers {
            Some(Ok(numbers)) => facts.numbers = Some(numbers),
            Some(Err(trouble)) => troubles.add("npu-smi", "info -m", &trouble, None),
            None => {}
        }
        match topo {
            Some(Ok(topo)) => facts.topo = Some(topo),
            Some(Err(trouble)) => troubles.add("npu-smi", "info -t topo", &trouble, None),
            None => {}
        }
    }

    /// `hccn_tool` of each port, and each die's place in a super-pod.
    async fn ask_ports(
        &mut self,
        files: &Files,
        ask: &Ask<'_>,
        due: bool,
        told: &Told,
        troubles: &mut Troubles,
    ) {
        let chip = self.facts.chip(files);
        if !chip.has_port() {
            return;
        }
        let seen: BTreeSet<u32> = self.seen.lock().keys().copied().collect();
        let placed = self.facts.placed(files, &seen).unwrap_or_default();
        let cards = placed.iter().filter(|(id, _)| files.ids.contains(id));
        let cards: BTreeMap<(u32, u32), u32> =
            cards.map(|(id, row)| ((row.npu, row.chip), *id)).collect();
        let facts = &mut self.facts;
        let all: Vec<u32> = files.ids.iter().copied().collect();
        // A port without an address may get one at any time: it is asked again in each look.
        let has = |known: &BTreeMap<u32, Option<IpAddr>>, id: &u32| {
            known.get(id).is_some_and(|address| address.is_some())
        };
        let super_pod = chip == Chip::AscendA3;
        let of = |wanted: &dyn Fn(&u32) -> bool| -> Vec<u32> {
            all.iter().copied().filter(|id| wanted(id)).collect()
        };
        let ip = of(&|id| !told.ip.contains(id) && (due || !has(&facts.ip, id)));
        let vnic = of(&|id| super_pod && (due || !has(&facts.vnic, id)));
        let lldp = of(&|id| due || !facts.lldp.contains_key(id));
        let place = |card: &(u32, u32)| {
            super_pod && !told.spod.contains(card) && (due || !facts.spod.contains_key(card))
        };
        let spod: Vec<(u32, u32)> = cards.keys().copied().filter(place).collect();
        let (link, ip, vnic, lldp, spod) = tokio::join!(
            ask.ports("-link", &all, hccn::link),
            ask.ports("-ip", &ip, hccn::ip),
            ask.ports("-vnic", &vnic, hccn::ip),
            ask.lldp(&lldp),
            ask.spod(&spod),
        );
        facts.link.clear();
        keep(&mut facts.link, link, |id, trouble| {
            troubles.add("hccn_tool", "-link", &trouble, Some(id));
        });
        keep(&mut facts.ip, ip, |id, trouble| {
            troubles.add("hccn_tool", "-ip", &trouble, Some(id));
        });
        keep(&mut facts.vnic, vnic, |id, trouble| {
            // A server outside of a super-pod has no such network.
            if !trouble.is_refusal() {
                troubles.add("hccn_tool", "-vnic", &trouble, Some(id));
            }
        });
        keep(&mut facts.lldp, lldp, |id, trouble| {
            troubles.add("hccn_tool", "-lldp", &trouble, Some(id));
        });
        keep(&mut facts.spod, spod, |card, trouble| {
            let id = cards.get(&card).copied();
            troubles.add("npu-smi", "info -t spod-info", &trouble, id);
        });
    }

    /// The answer; devices whose files are there are remembered.
    fn tell(&self, files: &Files, facts: &Facts) -> Part {
        let mut seen = self.seen.lock();
        let part = merge(files, facts, &seen);
        for device in part.devices.iter().filter(|device| files.ids.contains(&device.id)) {
            seen.insert(device.id, device.clone());
        }
        part
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

/// Keeps answers; troubles go to `complain`.
fn keep<K: Ord, T>(
    known: &mut BTreeMap<K, T>,
    answers: Answers<K, T>,
    mut complain: impl FnMut(K, ask::Trouble),
) {
    for (key, answer) in answers {
        match answer {
            Ok(answer) => {
                known.insert(key, answer);
            }
            Err(trouble) => complain(key, trouble),
        }
    }
}
