//! What the same bytes cost at least: a plain loop that writes them beside the files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The loop's own files.
const NAME: &str = "floor.json";

/// What one loop deletes is not in the way of the next any more.
const REST: Duration = Duration::from_secs(6);

/// Times of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Where no file was before: temporary file, write, rename.
    pub new: Duration,
    /// The same over another file.
    pub over: Duration,
    /// The same with a sync of each file before its rename.
    pub synced: Duration,
}

/// Writes the table beside each of these files, three times, and takes it away again.
pub fn measure(files: &[PathBuf], table: &[u8]) -> std::io::Result<Floor> {
    let time = |sync: bool| {
        settle();
        std::thread::sleep(REST);
        let begun = Instant::now();
        for file in files {
            write(file.parent().unwrap_or(file), table, sync)?;
        }
        std::io::Result::Ok(begun.elapsed())
    };
    let floor = Floor { new: time(false)?, over: time(false)?, synced: time(true)? };
    for file in files {
        fs::remove_file(file.with_file_name(NAME))?;
    }
    Ok(floor)
}

fn write(folder: &Path, table: &[u8], sync: bool) -> std::io::Result<()> {
    let temporary = folder.join(".floor");
    let mut file = File::create(&temporary)?;
    file.write_all(table)?;
    if sync {
        file.sync_all()?;
    }
    fs::rename(temporary, folder.join(NAME))
}

/// Everything that was written before is on the disk.
pub fn settle() {
    nix::unistd::sync();
}
