//! Writes a table into an open directory of a volume.
//!
//! The pod owns that directory and may do anything in it at any time. So nothing that is there is ever read or written: the
//! table is a new file under a random name, complete, checked and with its mode and group, before `rename` puts it in
//! place. A reader sees the old file or the new one. A link, pipe or other file of that name is replaced, not
//! followed. Mode and group are set by descriptor, never by name.
//!
//! ```text
//!   sweep ─▶ .t.<random> ─▶ unpack, digest ─▶ .t.generation.<random> ─▶ rename both ─▶ still the same directory?
//! ```
//!
//! Data is not synced unless asked: rename gives atomicity, and a file that ends with its pod needs no durability; a
//! sync may cost 10 ms and more on a disk. For the same reason what is replaced is held, by name and not for reading, until
//! the new table is seen: a file that ends within the rename makes it wait for pages that are on their way to the disk. A new file takes its SELinux type from the directory; its label is not copied,
//! since no safe interface to extended attributes is at hand.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use muster_proto::delivery::{Delivery, Place, generation_file};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{Gid, UnlinkatFlags, fchown, geteuid, unlinkat};

use super::Print;
use super::target::{Volume, Volumes, kind};
use super::unpack::{UnpackError, unpack};

/// How many entries of a volume are looked at for what a crash left.
const MOST_ENTRIES: usize = 4096;

/// How many leftovers are removed at a time.
const MOST_LEFTOVERS: usize = 64;

/// Random characters in the name of a temporary file.
const RANDOM: usize = 16;

/// Why a table is not where it should be.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Not there, or not yet.
    #[error(
        "{0:?} is not there: the pod has no such emptyDir volume, or the kubelet has not made it yet"
    )]
    VolumeMissing(String),
    /// Somebody planted a link.
    #[error("{0:?} is a symbolic link; a volume is never reached through one")]
    SymlinkInPath(String),
    /// Something else is there.
    #[error("{0:?} is not a directory")]
    NotADirectory(String),
    /// The volume is a mount that this process does not see.
    #[error(
        "the node has mounted volume {0:?} in memory, and the agent does not see it: give it the kubelet's directory \
         with mountPropagation: HostToContainer"
    )]
    NotMounted(String),
    /// The kubelet's directory cannot be found.
    #[error("the kubelet's directory: {0}")]
    Kubelet(String),
    /// The path leads elsewhere than it did.
    #[error(
        "the volume's directory was replaced while the table was written; the table was removed"
    )]
    DirectorySwapped,
    /// A directory has the name of the table.
    #[error("{0:?} is a directory; remove it, the table cannot take its place")]
    NotAFile(String),
    /// The file that was renamed is another.
    #[error("{0:?} was replaced while it was written")]
    FileSwapped(String),
    /// What came is not what was ordered.
    #[error(transparent)]
    Unpack(UnpackError),
    /// The system said no.
    #[error("{doing}: {error}{remedy}", remedy = remedy(*.error))]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: Errno,
    },
}

/// Writes tables into volumes.
#[derive(Clone, Debug)]
pub struct Writer {
    volumes: Volumes,
    sync: bool,
}

/// What a table and its generation have replaced. It ends when this is dropped, which may take as long as a disk does.
#[derive(Debug)]
pub struct Replaced {
    _held: [Option<OwnedFd>; 2],
}

/// A file that is not in its place yet; it is removed unless it gets there.
struct Temporary<'a> {
    volume: &'a Volume,
    name: String,
    file: File,
    placed: bool,
}

// === impl Writer ===

impl Writer {
    /// Into these volumes; `sync` waits for the disk.
    pub fn new(volumes: Volumes, sync: bool) -> Self {
        Self { volumes, sync }
    }

    /// Puts a table into its place; it can be read when this returns. `before_rename` is called when all is ready; tests
    /// do there what a pod might.
    pub fn write(
        &self,
        delivery: &Delivery,
        packed: &[u8],
        before_rename: &dyn Fn(),
    ) -> Result<(Print, Replaced), WriteError> {
        let Delivery { place, generation, digest, mode, group } = delivery;
        let volume = self.volumes.open(place)?;
        let second_name = generation_file(&place.file);
        let group = group.unwrap_or(volume.stat.st_gid);
        sweep(&volume, &place.file)?;
        for name in [place.file.as_str(), second_name.as_str()] {
            if stat(&volume, name)?.is_some_and(|found| kind(&found) == SFlag::S_IFDIR) {
                return Err(WriteError::NotAFile(name.to_owned()));
            }
        }
        let mut table = Temporary::create(&volume, &place.file)?;
        unpack(packed, *digest, &mut table.file).map_err(|error| match error {
            UnpackError::Write(error) => WriteError::from_io("writing the table", &error),
            other => WriteError::Unpack(other),
        })?;
        table.finish(*mode, group, self.sync)?;
        // Ready before the table is seen: a full disk leaves both as they were.
        let mut second = Temporary::create(&volume, &second_name)?;
        let written = second.file.write_all(format!("{generation}\n").as_bytes());
        written.map_err(|error| WriteError::from_io("writing the generation", &error))?;
        second.finish(*mode, group, self.sync)?;
        let held = [&place.file, &second_name].map(|name| hold(&volume, name));
        let replaced = Replaced { _held: held };
        before_rename();
        let print = table.place(&place.file)?;
        let rest = second.place(&second_name).and_then(|second| {
            let checked = self.volumes.check(place, &volume);
            checked.inspect_err(|_| withdraw(&volume, &second_name, &second))
        });
        rest.inspect_err(|_| withdraw(&volume, &place.file, &print))?;
        if self.sync {
            let synced = nix::unistd::fsync(&volume.directory);
            synced.map_err(WriteError::system("syncing the volume"))?;
        }
        Ok((print, replaced))
    }

    /// Whether the file that was written is where it was put, untouched.
    pub fn is_there(&self, place: &Place, print: &Print) -> Result<bool, WriteError> {
        let volume = self.volumes.open(place)?;
        Ok(stat(&volume, &place.file)?.is_some_and(|found| Print::of(&found) == *print))
    }

    /// Removes a table that was written, and its generation. What is not ours stays; says whether it was ours.
    pub fn remove(&self, place: &Place, print: &Print) -> Result<bool, WriteError> {
        let volume = self.volumes.open(place)?;
        sweep(&volume, &place.file)?;
        let ours = stat(&volume, &place.file)?.is_some_and(|found| Print::of(&found) == *print);
        if ours {
            // The generation first: a table without one is no news, one without a table is.
            let second = generation_file(&place.file);
            for name in [second.as_str(), place.file.as_str()] {
                match unlinkat(&volume.directory, name, UnlinkatFlags::NoRemoveDir) {
                    Ok(()) | Err(Errno::ENOENT | Errno::EISDIR) => {}
                    Err(error) => return Err(WriteError::from_errno("removing the table", error)),
                }
            }
        }
        Ok(ours)
    }
}

fn stat(volume: &Volume, name: &str) -> Result<Option<FileStat>, WriteError> {
    match fstatat(&volume.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(WriteError::from_errno("looking into the volume", error)),
    }
}

/// Keeps whatever has this name from ending. Nothing can be done with it, and a link or a pipe is held as such.
fn hold(volume: &Volume, name: &str) -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(&volume.directory, name, flags, Mode::empty()).ok()
}

/// Takes back what was placed, if it is still that.
fn withdraw(volume: &Volume, name: &str, print: &Print) {
    if let Ok(Some(found)) = stat(volume, name)
        && Print::of(&found) == *print
    {
        // Best effort: there is an error already.
        let _gone = unlinkat(&volume.directory, name, UnlinkatFlags::NoRemoveDir);
    }
}

/// Removes what a crash left of earlier deliveries to this place.
fn sweep(volume: &Volume, file: &str) -> Result<(), WriteError> {
    let failed = WriteError::system("listing the volume");
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Dir::openat(&volume.directory, ".", flags, Mode::empty()).map_err(failed)?;
    let names = listing.iter().take(MOST_ENTRIES).filter_map(Result::ok);
    let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let left: Vec<String> = names.filter(|name| is_temporary(name, file)).collect();
    let me = geteuid().as_raw();
    for name in left.into_iter().take(MOST_LEFTOVERS) {
        let ours = |found: FileStat| kind(&found) == SFlag::S_IFREG && found.st_uid == me;
        if stat(volume, &name)?.is_some_and(ours) {
            // It may go by itself; if not, the next delivery tries again.
            let _gone = unlinkat(&volume.directory, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
    Ok(())
}

/// Whether a name is one that [`Temporary::create`] makes for a table or its generation.
fn is_temporary(name: &str, file: &str) -> bool {
    let rest = name.strip_prefix('.').and_then(|rest| rest.strip_prefix(file));
    let Some(rest) = rest else { return false };
    let rest = rest.strip_prefix(".generation").unwrap_or(rest);
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    rest.strip_prefix('.').is_some_and(|random| random.len() == RANDOM && random.bytes().all(digit))
}

// === impl Temporary ===

impl<'a> Temporary<'a> {
    fn create(volume: &'a Volume, file: &str) -> Result<Self, WriteError> {
        let name = format!(".{file}.{:016x}", rand::random::<u64>());
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(&volume.directory, name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let file = File::from(made.map_err(WriteError::system("creating a file in the volume"))?);
        let temporary = Self { volume, name, file, placed: false };
        let found = temporary.stat()?;
        if kind(&found) != SFlag::S_IFREG || found.st_nlink != 1 {
            return Err(WriteError::FileSwapped(temporary.name.clone()));
        }
        Ok(temporary)
    }

    fn stat(&self) -> Result<FileStat, WriteError> {
        fstat(self.file.as_fd()).map_err(WriteError::system("stat of the new file"))
    }

    fn finish(&mut self, mode: u32, group: u32, sync: bool) -> Result<(), WriteError> {
        if self.stat()?.st_gid != group {
            let changed = fchown(self.file.as_fd(), None, Some(Gid::from_raw(group)));
            changed.map_err(WriteError::system("giving the file to its group"))?;
        }
        let mode = Mode::from_bits_truncate(mode);
        fchmod(self.file.as_fd(), mode).map_err(WriteError::system("setting the file's mode"))?;
        if sync {
            let synced = self.file.sync_all();
            synced.map_err(|error| WriteError::from_io("syncing the file", &error))?;
        }
        Ok(())
    }

    /// Renames it, and makes sure that it is this file that got there.
    fn place(&mut self, name: &str) -> Result<Print, WriteError> {
        let directory = &self.volume.directory;
        renameat(directory, self.name.as_str(), directory, name).map_err(|error| match error {
            Errno::EISDIR | Errno::ENOTEMPTY | Errno::EEXIST => {
                WriteError::NotAFile(name.to_owned())
            }
            Errno::ENOENT => WriteError::FileSwapped(name.to_owned()),
            other => WriteError::from_errno("renaming the file", other),
        })?;
        self.placed = true;
        let print = Print::of(&self.stat()?);
        match stat(self.volume, name)? {
            Some(found) if Print::of(&found) == print => Ok(print),
            _ => Err(WriteError::FileSwapped(name.to_owned())),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // If it stays, the next delivery sweeps it.
            let name = self.name.as_str();
            let _gone = unlinkat(&self.volume.directory, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

// === impl Print ===

impl Print {
    fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            written: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec),
        }
    }
}

// === impl WriteError ===

impl WriteError {
    /// A function for `map_err`.
    pub(super) fn system(doing: &'static str) -> impl Fn(Errno) -> Self {
        move |error| Self::System { doing, error }
    }

    pub(super) fn from_errno(doing: &'static str, error: Errno) -> Self {
        Self::System { doing, error }
    }

    fn from_io(doing: &'static str, error: &io::Error) -> Self {
        let error = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        Self::System { doing, error }
    }

    /// Whether it may be well in a moment.
    pub fn is_early(&self) -> bool {
        matches!(self, Self::VolumeMissing(_) | Self::NotMounted(_))
    }

    /// One word for metrics and for the coordinator.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VolumeMissing(_) => "volume-missing",
            Self::SymlinkInPath(_) => "symlink-in-path",
            Self::NotADirectory(_) => "not-a-directory",
            Self::NotMounted(_) => "volume-not-mounted",
            Self::Kubelet(_) => "kubelet-directory",
            Self::DirectorySwapped => "directory-swapped",
            Self::NotAFile(_) => "not-a-file",
            Self::FileSwapped(_) => "file-swapped",
            Self::Unpack(UnpackError::BadBlob(_)) => "bad-blob",
            Self::Unpack(UnpackError::TooLarge) => "too-large",
            Self::Unpack(UnpackError::DigestMismatch { .. }) => "digest-mismatch",
            Self::Unpack(UnpackError::Write(_)) => "io",
            Self::System { error, .. } => match error {
                Errno::ENOSPC => "disk-full",
                Errno::EROFS => "read-only",
                Errno::EDQUOT => "quota",
                Errno::EACCES | Errno::EPERM => "denied",
                _ => "io",
            },
        }
    }
}

fn remedy(error: Errno) -> &'static str {
    match error {
        Errno::ENOSPC => "; free space on the volume's file system or raise its sizeLimit",
        Errno::EROFS => "; mount the kubelet's directory writable",
        Errno::EDQUOT => "; raise the quota of the volume",
        Errno::EACCES | Errno::EPERM => "; the agent needs root or CAP_DAC_OVERRIDE and CAP_CHOWN",
        _ => "",
    }
}
