//! Readers that loop on files while tables come: each read must be nothing or a whole table.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;

/// How long a reader rests between two looks, so that a few dozen leave the cores to others.
const REST: Duration = Duration::from_millis(5);

/// What they have seen.
#[derive(Debug, Default)]
pub struct ReadTable {
    /// How often the reader read the file.
    pub looks: u64,
    /// Those that found another file than before, and read it.
    pub reads: u64,
    /// Different tables, by content.
    pub contents: Vec<Arc<[u8]>>,
    /// What must not be.
    pub faults: Vec<String>,
}

/// One thread per file.
#[derive(Debug)]
pub struct Readers {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<ReadTable>>,
    threads: Vec<JoinHandle<()>>,
}

/// What every table has.
#[derive(Deserialize)]
struct Table<'a> {
    status: &'a str,
    server_count: &'a str,
    #[serde(borrow)]
    server_list: Vec<Server<'a>>,
}

#[derive(Deserialize)]
struct Server<'a> {
    #[serde(borrow)]
    device: Vec<Device<'a>>,
}

#[derive(Deserialize)]
struct Device<'a> {
    rank_id: &'a str,
}

/// Whether these bytes are a whole table of so many ranks.
pub fn check(bytes: &[u8], ranks: usize) -> Result<(), String> {
    let table: Table<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let servers = table.server_list.len();
    if table.status != "completed" || table.server_count != servers.to_string() {
        return Err(format!("{} {} of {servers} servers", table.status, table.server_count));
    }
    let devices = table.server_list.iter().flat_map(|server| &server.device);
    let found: BTreeSet<usize> = devices.filter_map(|one| one.rank_id.parse().ok()).collect();
    match found.len() == ranks && found.last() == Some(&(ranks - 1)) {
        true => Ok(()),
        false => Err(format!("{} ranks of {ranks}", found.len())),
    }
}

// === impl Readers ===

impl Readers {
    /// Begins to read these files.
    pub fn start(files: Vec<PathBuf>, ranks: usize) -> Self {
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<Mutex<ReadTable>>::default());
        let reader = |file: PathBuf| {
            let (stop, seen) = (stop.clone(), seen.clone());
            std::thread::spawn(move || follow(&file, ranks, &stop, &seen))
        };
        let threads = files.into_iter().map(reader).collect();
        Self { stop, seen, threads }
    }

    /// Ends them; what they have seen.
    pub fn end(self) -> ReadTable {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                self.seen.lock().faults.push("a reader has died".to_owned());
            }
        }
        std::mem::take(&mut *self.seen.lock())
    }
}

fn follow(file: &Path, ranks: usize, stop: &AtomicBool, seen: &Mutex<ReadTable>) {
    let (mut newest, mut last, mut print) = (0, None::<Arc<[u8]>>, None);
    let second = PathBuf::from(format!("{}.generation", file.display()));
    while !stop.load(Ordering::Relaxed) {
        let mut fault = None;
        // Whatever is done to a file, one of these is another afterwards: only then it is worth megabytes of reading.
        let found = std::fs::metadata(file).ok();
        let found =
            found.map(|it| (it.ino(), it.size(), it.mtime(), it.mtime_nsec(), it.ctime_nsec()));
        if found == print {
            seen.lock().looks += 1;
            std::thread::sleep(REST);
            continue;
        }
        print = found;
        let bytes = std::fs::read(file).unwrap_or_default();
        if !bytes.is_empty() {
            let mut all = seen.lock();
            let known = all.contents.iter().find(|known| ***known == *bytes).cloned();
            last = Some(known.unwrap_or_else(|| {
                let new: Arc<[u8]> = bytes.as_slice().into();
                all.contents.push(new.clone());
                fault = check(&bytes, ranks).err();
                new
            }));
        } else if last.is_some() {
            fault = Some("a table is gone".to_owned());
        }
        let text = std::fs::read_to_string(&second).unwrap_or_default();
        match text.trim().parse::<u64>() {
            Ok(generation) if generation < newest => {
                fault = Some(format!("generation {generation} after {newest}"));
            }
            Ok(generation) => newest = generation,
            Err(_) if newest > 0 => fault = Some(format!("generation {text:?} after {newest}")),
            Err(_) => {}
        }
        {
            let mut all = seen.lock();
            all.looks += 1;
            all.reads += 1;
            all.faults.extend(fault.map(|fault| format!("{}: {fault}", file.display())));
        }
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"status":"completed","server_count":"1","server_list":[{"device":[{"rank_id":"0"},{"rank_id":"1"}]}]}"#;

    #[test]
    fn a_torn_a_short_and_an_unfinished_table_are_told_from_a_whole_one() {
        assert_eq!(check(WHOLE.as_bytes(), 2), Ok(()));
        for at in 0..WHOLE.len() {
            assert!(check(&WHOLE.as_bytes()[..at], 2).is_err(), "{at}");
        }
        assert!(check(WHOLE.as_bytes(), 3).is_err());
        assert!(check(WHOLE.replace("completed", "initializing").as_bytes(), 2).is_err());
        assert!(check(WHOLE.replace("\"1\"}]", "\"7\"}]").as_bytes(), 2).is_err());
    }
}
