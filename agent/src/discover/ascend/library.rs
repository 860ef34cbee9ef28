//! Asking the management library instead of tools.
//!
//! The library is C code in this process and may hang, so it is called in a thread of its own, with a time limit. The
//! thread of a call that hangs cannot be ended: it is left alone, and nobody calls the library again until it
//! returns. A crash of the library is a crash of the agent, which is why this is a feature that is off by default.
//!
//! Below another root than `/` the library is opened from there; what it needs itself must be where the loader finds
//! it. Where that fails it is a finding, and tools are asked as without the feature.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_dcmi::{Dcmi, Error, Port};
use muster_proto::device::{Health, PciAddress};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::LibraryAnswers;
use super::ask::AskErrors;
use super::files::Files;
use super::merge::Facts;
use super::parse::info::Row;
use super::parse::mapping::Numbers;
use super::parse::spod::{Spod, given};
use super::parse::{MOST, is_reachable};
use crate::tool::{ToolError, Tools};

/// How long everything may take.
const LIMIT: Duration = Duration::from_secs(10);

const NAME: &str = "libdcmi.so";

/// The library, opened when it is first needed. Locked while it is being called.
#[derive(Clone, Debug)]
pub struct Library {
    open: Arc<Mutex<Option<Dcmi>>>,
    pub(super) limit: Duration,
}

/// What it says of all chips.
#[derive(Debug, Default)]
struct Answer {
    rows: Vec<Row>,
    numbers: Vec<Numbers>,
    ip: BTreeMap<u32, Option<IpAddr>>,
    spod: BTreeMap<(u32, u32), Spod>,
}

// === impl Library ===

impl Default for Library {
    fn default() -> Self {
        Self { open: Arc::default(), limit: LIMIT }
    }
}

impl Library {
    /// Puts what the library says into the facts, and returns what need not be asked of tools.
    pub async fn ask(
        &self,
        files: &Files,
        tools: &Tools,
        facts: &mut Facts,
        errors: &mut AskErrors,
    ) -> LibraryAnswers {
        let path = format!("{}/lib64/driver/{NAME}", files.driver);
        let place = match tools.trusted(&path) {
            Ok(place) => place,
            // Not installed: tools it is.
            Err(ToolError::Absent(_)) => return LibraryAnswers::default(),
            Err(error) => {
                errors.add_library(NAME, error.reason(), &error);
                return LibraryAnswers::default();
            }
        };
        let answer = match self.call(place).await {
            Ok(answer) => answer,
            Err((reason, message)) => {
                errors.add_library(NAME, reason, &message);
                return LibraryAnswers::default();
            }
        };
        let answers = LibraryAnswers {
            chips: true,
            ip: answer.ip.keys().copied().collect(),
            spod: answer.spod.keys().copied().collect(),
        };
        facts.rows = Some(answer.rows);
        facts.numbers = Some(answer.numbers);
        facts.ip.extend(answer.ip);
        facts.spod.extend(answer.spod);
        answers
    }

    async fn call(&self, path: PathBuf) -> Result<Answer, (&'static str, String)> {
        let (done, answer) = oneshot::channel();
        let library = Arc::clone(&self.open);
        let limit = self.limit;
        let hangs = || ("library-hangs", format!("{NAME} has not answered within {limit:?}"));
        // A thread that does not end must not keep the runtime from ending: not a blocking task.
        let thread = std::thread::Builder::new().name("dcmi".to_owned()).spawn(move || {
            let Some(mut open) = library.try_lock() else { return };
            // Nobody may be waiting any more.
            let _left = done.send(answer_of(&mut open, path));
        });
        if let Err(error) = thread {
            return Err(("library-unusable", error.to_string()));
        }
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => answer.map_err(|error| (error.reason(), error.to_string())),
            // It is locked by a call that hangs, or this one does.
            Ok(Err(_)) | Err(_) => Err(hangs()),
        }
    }
}

fn answer_of(open: &mut Option<Dcmi>, path: PathBuf) -> Result<Answer, Error> {
    let dcmi = match open {
        Some(dcmi) => dcmi,
        none => none.insert(Dcmi::open(&path)?),
    };
    let mut answer = Answer::default();
    for card in dcmi.cards()? {
        for chip in dcmi.chips(card)? {
            answer.add(dcmi, card, chip)?;
        }
    }
    match answer.rows.is_empty() {
        true => Err(Error::Odd("dcmi_get_card_list")),
        false => Ok(answer),
    }
}

// === impl Answer ===

impl Answer {
    /// Adds a chip. One that is not ready has no numbers and is left out: nobody can say which it is.
    fn add(&mut self, dcmi: &Dcmi, npu: u32, chip: u32) -> Result<(), Error> {
        let logic = match dcmi.logic_id(npu, chip) {
            Err(Error::NotReady(_)) => return Ok(()),
            logic => logic?,
        };
        let phy = dcmi.phy_id(logic)?;
        if phy as usize >= MOST {
            return Err(Error::Odd("dcmi_get_device_phyid_from_logicid"));
        }
        let pci = dcmi.pci(npu, chip).ok().map(|pci| PciAddress {
            domain: pci.domain,
            bus: pci.bus,
            slot: pci.slot,
            function: pci.function,
        });
        let health = match dcmi.health(npu, chip) {
            Ok(muster_dcmi::Health::Ok) => Health::Ok,
            Ok(muster_dcmi::Health::Warning) => Health::Degraded("Warning".to_owned()),
            Ok(muster_dcmi::Health::Alarm) => Health::Faulty("Alarm".to_owned()),
            Ok(muster_dcmi::Health::Critical) => Health::Faulty("Critical".to_owned()),
            Ok(muster_dcmi::Health::Unknown) | Err(_) => Health::Unknown,
        };
        let name = dcmi.name(npu, chip).unwrap_or_default();
        self.rows.push(Row { npu, chip, phy: Some(phy), name, health, pci });
        self.numbers.push(Numbers { npu, chip, logic: Some(logic), phy: Some(phy) });
        // What it does not say here, tools are asked for.
        if let Ok(ip) = dcmi.ip(npu, chip, Port::Roce) {
            self.ip.insert(phy, Some(ip).filter(is_reachable));
        }
        if let Ok(place) = dcmi.super_pod(npu, chip) {
            let [sdid, size, id, server] =
                [place.sdid, place.size, place.id, place.server].map(given);
            self.spod.insert((npu, chip), Spod { sdid, size, id, server });
        }
        Ok(())
    }
}
