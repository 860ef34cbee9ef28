//! What was delivered, remembered over restarts: `delivered.json` in the agent's own directory.
//!
//! It lets the agent tell a coordinator what is already there, and refuse what is older. A file that cannot be read is
//! a problem and nothing more: the coordinator sends again.
//!
//! ```text
//!   {"version":1,"epoch":7,"tables":[…]}     all of it, renamed into place
//!   {"pod_uid":…,"record":{…}}               then each change, at the end: one small write while a table is delivered,
//!   {"pod_uid":…,"record":null}              and no file made, renamed or freed
//! ```
//!
//! A last line without an end is one whose write was cut short, and does not count.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use muster_proto::delivery::Place;
use serde::{Deserialize, Serialize};

use super::{Record, Records, check_place};
use crate::problem::Finding;

/// No file is read beyond this.
const LARGEST: usize = 4 * 1024 * 1024;

/// More tables than any node has pods.
pub const MOST: usize = 4096;

/// After so many bytes of changes all is written anew.
const MOST_CHANGES: usize = 128 * 1024;

/// The form of the file.
const VERSION: u32 = 1;

/// The file `delivered.json`.
#[derive(Debug)]
pub struct RecordsFile {
    directory: PathBuf,
    /// Where changes go, once all was written.
    end: Option<End>,
}

#[derive(Debug)]
struct End {
    file: File,
    changes: usize,
}

#[derive(Serialize, Deserialize)]
struct RecordsHeader {
    version: u32,
    epoch: u64,
    tables: Vec<TableLine>,
}

#[derive(Serialize, Deserialize)]
struct TableLine {
    #[serde(flatten)]
    place: Place,
    record: Record,
}

/// A line behind the first; no record: it is forgotten.
#[derive(Serialize, Deserialize)]
struct ChangeLine {
    #[serde(flatten)]
    place: Place,
    record: Option<Record>,
}

/// What a file says. Names are checked again: whatever is in it, they lead nowhere else.
pub fn parse(text: &[u8]) -> Result<Records, String> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let RecordsHeader { version, epoch, tables } =
        serde_json::from_slice(first).map_err(|error| error.to_string())?;
    if version != VERSION {
        return Err(format!("version {version} is not {VERSION}"));
    }
    let mut records = Records::default();
    records.saw(epoch);
    for TableLine { place, record } in tables.into_iter().take(MOST) {
        check_place(&place).map_err(|refusal| refusal.to_string())?;
        records.set(place, record);
    }
    for line in lines.filter(|line| line.ends_with(b"\n")) {
        let ChangeLine { place, record } =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        check_place(&place).map_err(|refusal| refusal.to_string())?;
        match record {
            None => drop(records.forget(&place)),
            Some(record) if records.get(&place).is_some() || records.iter().count() < MOST => {
                records.set(place, record);
            }
            Some(_) => {}
        }
    }
    Ok(records)
}

/// What the file shall say, at most [`MOST`] tables.
pub fn print(records: &Records) -> Result<Vec<u8>, serde_json::Error> {
    let entry =
        |(place, record): (&Place, &Record)| TableLine { place: place.clone(), record: *record };
    let tables = records.iter().take(MOST).map(entry).collect();
    line(&RecordsHeader { version: VERSION, epoch: records.epoch(), tables })
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

// === impl RecordsFile ===

impl RecordsFile {
    /// In this directory, which is made when something is kept.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), end: None }
    }

    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        self.directory.join("delivered.json")
    }

    /// Reads it. None is no problem, a bad one is; both begin empty.
    pub fn load(&self) -> (Records, Option<Finding>) {
        let path = self.path();
        let problem = |reason, message: String| {
            let message = format!("{message}; beginning empty, tables are sent again");
            (Records::default(), Some(Finding::new(reason, path.display().to_string(), message)))
        };
        match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Records::default(), None),
            Err(error) => problem("records-unreadable", error.to_string()),
            Ok(text) if text.len() > LARGEST => {
                problem("records-too-large", format!("more than {LARGEST} bytes"))
            }
            Ok(text) => match parse(&text) {
                Ok(records) => (records, None),
                Err(message) => problem("records-corrupt", message),
            },
        }
    }

    /// Replaces it. With `synced` for good: both the file and its name are on the disk. Without, it survives the agent's
    /// end at any moment; what a power cut takes away is sent again.
    pub fn save(&mut self, records: &Records, synced: bool) -> Result<(), Finding> {
        self.replace(records, synced).map_err(|error| {
            let subject = self.path().display().to_string();
            let message = format!("{error}; after a restart, tables are sent again");
            Finding::new("records-unwritable", subject, message)
        })
    }

    /// Adds what has become of a place, of all these records. It survives the agent's end at any moment.
    pub fn change(&mut self, records: &Records, place: &Place) -> Result<(), Finding> {
        match self.add(records, place) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => self.save(records, false),
        }
    }

    /// False: all is to be written anew.
    fn add(&mut self, records: &Records, place: &Place) -> io::Result<bool> {
        // After a write that failed, the end is not where it should be.
        let Some(mut end) = self.end.take() else { return Ok(false) };
        let line = line(&ChangeLine { place: place.clone(), record: records.get(place).copied() })?;
        end.changes += line.len();
        // It has no name any more if somebody has removed it.
        if end.changes > MOST_CHANGES || end.file.metadata()?.nlink() == 0 {
            return Ok(false);
        }
        end.file.write_all(&line)?;
        self.end = Some(end);
        Ok(true)
    }

    fn replace(&mut self, records: &Records, synced: bool) -> io::Result<()> {
        self.end = None;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let temporary = self.directory.join("delivered.json.new");
        // The directory is root's alone, so a fixed name is safe; a link there is still not followed.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&print(records)?)?;
        if synced {
            file.sync_all()?;
        }
        fs::rename(&temporary, self.path())?;
        if synced {
            File::open(&self.directory)?.sync_all()?;
        }
        self.end = Some(End { file, changes: 0 });
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe would block when it is opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
