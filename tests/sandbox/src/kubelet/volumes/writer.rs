//! Brings volumes to the disk, so that a reader sees all of an update or nothing of it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use jiff::Timestamp;

use super::Files;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Makes an empty directory that everybody may write.
pub fn empty(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o777))
}

/// Writes the files below a directory of their own and points `..data` at it in one step. Returns
/// whether anything changed.
pub fn swap(directory: &Path, files: &Files, now: Timestamp) -> io::Result<bool> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o777))?;
    let data = directory.join(DATA);
    let old = match fs::read_link(&data) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if old.is_some() && holds(&data, files) {
        return Ok(false);
    }
    let new = fresh_directory(directory, now)?;
    if let Err(error) = fill(directory, &new, files) {
        // Nobody points at it, and the next attempt makes its own. The first fault is the one to tell.
        let _removed = fs::remove_dir_all(directory.join(&new));
        return Err(error);
    }
    for path in files.keys() {
        let first = path.split('/').next().unwrap_or(path);
        match symlink(Path::new(DATA).join(first), directory.join(first)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let wanted = |name: &str| files.keys().any(|path| path.split('/').next() == Some(name));
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted(&name) {
            remove(&entry.path())?;
        }
    }
    if let Some(old) = old {
        fs::remove_dir_all(directory.join(old))?;
    }
    Ok(true)
}

/// Writes the files into the new directory, and points `..data` at it.
fn fill(directory: &Path, new: &str, files: &Files) -> io::Result<()> {
    for (path, (bytes, mode)) in files {
        let file = directory.join(new).join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, bytes)?;
        fs::set_permissions(&file, Permissions::from_mode(*mode))?;
    }
    let link = directory.join(DATA_NEW);
    remove(&link)?;
    symlink(new, &link)?;
    fs::rename(&link, directory.join(DATA))
}

/// Removes all that a pod had on the disk.
pub fn clear(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A directory named after the time, `..2026_01_02_03_04_05.123456`.
fn fresh_directory(directory: &Path, now: Timestamp) -> io::Result<String> {
    let second = now.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    let mut part = now.subsec_nanosecond().unsigned_abs();
    loop {
        let name = format!("{second}.{part:09}");
        match fs::create_dir(directory.join(&name)) {
            Ok(()) => {
                fs::set_permissions(directory.join(&name), Permissions::from_mode(0o755))?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => part += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Whether exactly these files are below `data`.
fn holds(data: &Path, files: &Files) -> bool {
    let same = |(path, (bytes, mode)): (&String, &(Vec<u8>, u32))| {
        let file = data.join(path);
        let mode_now = fs::metadata(&file).map(|m| m.permissions().mode() & 0o7777);
        mode_now.is_ok_and(|now| now == *mode) && fs::read(&file).is_ok_and(|now| now == *bytes)
    };
    files.iter().all(same) && count(data).is_ok_and(|n| n == files.len())
}

fn count(directory: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
