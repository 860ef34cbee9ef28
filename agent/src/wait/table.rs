//! Whether a table is complete, from one look at it.
//!
//! Complete is a regular file with something in it. One whose name ends in `.json` must be a JSON object with something in
//! it, and if it has a `status`, that must be `completed`: readers treat anything else as an error and do not look
//! again. The check streams: a table of 10 MiB is never held in memory.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use muster_proto::delivery::{LARGEST_TABLE, generation_file};
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::WaitError;

/// How much of a table is printed.
pub const PRINTED: u64 = 64 * 1024;

/// What a table without a fault says of itself.
const COMPLETED: &str = "completed";

/// What was seen.
#[derive(Debug)]
pub enum TableState {
    /// A whole table.
    Complete(Table),
    /// Something is missing.
    NotYet(NotYet),
}

/// A whole table, open.
#[derive(Debug)]
pub struct Table {
    file: File,
    bytes: u64,
    generation: Option<u64>,
}

/// Why a table is not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotYet {
    /// There is none.
    #[error("no file")]
    NoFile,
    /// A directory, pipe or device has its name.
    #[error("not a regular file")]
    NotRegular,
    /// Nothing is in it.
    #[error("the file is empty")]
    Empty,
    /// Too much is in it.
    #[error("the file has {0} bytes, more than {LARGEST_TABLE}")]
    TooLarge(u64),
    /// It may not be read.
    #[error("no permission to read it")]
    Denied,
    /// No JSON, or only the beginning of it.
    #[error("not JSON at line {line}, column {column}: {what}")]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 0.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// JSON that is no table.
    #[error("it is JSON but no table: an object with something in it is expected")]
    NoTable,
    /// Whoever makes it is not done.
    #[error("its status is {0:?}, not \"completed\"")]
    Status(String),
    /// A status must be text.
    #[error("its status is not a string")]
    StatusType,
}

/// Looks once. Links are followed; nothing blocks.
pub fn read(path: &Path) -> Result<TableState, WaitError> {
    let io = |error| WaitError::Io { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    // A pipe of that name must not hold us.
    options.read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NotYet::NoFile,
                io::ErrorKind::PermissionDenied => NotYet::Denied,
                _ => match error.raw_os_error() {
                    Some(nix::libc::ENXIO | nix::libc::ENODEV) => NotYet::NotRegular,
                    _ => return Err(io(error)),
                },
            };
            return Ok(TableState::NotYet(why));
        }
    };
    let found = file.metadata().map_err(io)?;
    let bytes = found.len();
    let why = match (found.is_file(), bytes) {
        (false, _) => Some(NotYet::NotRegular),
        (_, 0) => Some(NotYet::Empty),
        (_, bytes) if bytes > LARGEST_TABLE => Some(NotYet::TooLarge(bytes)),
        _ if path.extension().is_some_and(|end| end == "json") => {
            let reader = BufReader::with_capacity(64 * 1024, (&mut file).take(LARGEST_TABLE));
            check(reader).map_err(io)?
        }
        _ => None,
    };
    if let Some(why) = why {
        return Ok(TableState::NotYet(why));
    }
    let generation = generation(path, found.modified().map_err(io)?);
    Ok(TableState::Complete(Table { file, bytes, generation }))
}

/// Whether this is a whole table; the error is one of reading.
pub fn check(json: impl Read) -> io::Result<Option<NotYet>> {
    let mut json = serde_json::Deserializer::from_reader(json);
    let head = (&mut json).deserialize_any(Head::Table).and_then(|head| json.end().map(|()| head));
    Ok(match head {
        Ok(Status::None) => None,
        Ok(Status::NoTable) => Some(NotYet::NoTable),
        Ok(Status::Text(text)) if text == COMPLETED => None,
        Ok(Status::Text(text)) => Some(NotYet::Status(text)),
        Ok(Status::Other) => Some(NotYet::StatusType),
        Err(error) if error.is_io() => return Err(error.into()),
        Err(error) => {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            Some(NotYet::NotJson { line: error.line(), column: error.column(), what })
        }
    })
}

/// What the file beside it says. It comes just after the table: one that is older belongs to the table before.
fn generation(path: &Path, written: SystemTime) -> Option<u64> {
    let beside = path.with_file_name(generation_file(path.file_name()?.to_str()?));
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(nix::libc::O_NONBLOCK).open(beside).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.modified().ok()? < written {
        return None;
    }
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

enum Status {
    /// It is no object, or has nothing in it.
    NoTable,
    /// It has none.
    None,
    Text(String),
    Other,
}

/// Reads `status` of an object and skips all else; nothing that is skipped is held in memory.
#[derive(Clone, Copy)]
enum Head {
    /// At the table.
    Table,
    /// At its status.
    Status,
}

// === impl Table ===

impl Table {
    /// Prints a line about it, and its beginning.
    pub fn print(mut self, path: &Path, out: &mut impl Write) -> io::Result<()> {
        let generation =
            self.generation.map_or(String::new(), |found| format!("generation {found}, "));
        let path = path.display();
        writeln!(out, "{path} is ready: {generation}{} bytes", self.bytes)?;
        self.file.seek(SeekFrom::Start(0))?;
        let printed = io::copy(&mut (&mut self.file).take(PRINTED), out)?;
        writeln!(out)?;
        let rest = self.bytes.saturating_sub(printed);
        if rest > 0 {
            writeln!(out, "… {rest} more bytes are not printed")?;
        }
        out.flush()
    }
}

// === impl Head ===

impl Head {
    fn no_text(self) -> Status {
        match self {
            Self::Table => Status::NoTable,
            Self::Status => Status::Other,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Head {
    type Value = Status;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Status, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Head {
    type Value = Status;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Status, A::Error> {
        let mut status = Status::NoTable;
        while let Some(key) = map.next_key::<String>()? {
            match self {
                Self::Table if key == "status" => status = map.next_value_seed(Self::Status)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            if matches!(status, Status::NoTable) {
                status = Status::None;
            }
        }
        Ok(match self {
            Self::Table => status,
            Self::Status => Status::Other,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Status, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.no_text())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Status, E> {
        Ok(self.no_text())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Status, E> {
        Ok(self.no_text())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Status, E> {
        Ok(self.no_text())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Status, E> {
        Ok(self.no_text())
    }

    fn visit_str<E>(self, text: &str) -> Result<Status, E> {
        Ok(match self {
            Self::Table => Status::NoTable,
            Self::Status => Status::Text(text.chars().take(64).collect()),
        })
    }

    fn visit_unit<E>(self) -> Result<Status, E> {
        Ok(self.no_text())
    }
}
