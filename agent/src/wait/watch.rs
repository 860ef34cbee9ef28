//! Sleeps until something near a file changes.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signalfd::SignalFd;

use super::WaitError;

/// How long to sleep when nothing tells of changes.
const BLIND: Duration = Duration::from_secs(1);

/// Directories that tell of changes.
pub(super) struct Watch {
    inotify: Result<Inotify, Errno>,
    /// Some directory cannot be watched.
    blind: bool,
}

/// Why sleep ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Changed,
    TimedOut,
    Signal(i32),
}

/// The directory of a file, or the nearest one above it that is there.
pub(super) fn nearest_directory(file: &Path) -> PathBuf {
    let mut above = file.ancestors().skip(1);
    let found = above.find(|directory| is_directory(directory));
    found.filter(|found| !found.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn is_directory(path: &Path) -> bool {
    // The directory of a bare name is the empty path.
    path.as_os_str().is_empty() || path.is_dir()
}

// === impl Watch ===

impl Watch {
    pub(super) fn new() -> Self {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags);
        Self { blind: inotify.is_err(), inotify }
    }

    /// Why it cannot watch.
    pub(super) fn problem(&self) -> Option<Errno> {
        self.inotify.as_ref().err().copied()
    }

    /// Watches what decides about a file: the nearest directory, which is returned, and where its links lead.
    pub(super) fn follow(&mut self, file: &Path) -> Result<PathBuf, WaitError> {
        let nearest = nearest_directory(file);
        let Ok(inotify) = &self.inotify else { return Ok(nearest) };
        let real = fs::canonicalize(file).ok();
        let real = real.as_deref().and_then(Path::parent).map(Path::to_owned);
        let wanted: BTreeSet<PathBuf> = real.into_iter().chain([nearest.clone()]).collect();
        let changes = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.blind = false;
        for directory in wanted {
            // The same directory twice is one watch. Those that no longer matter wake us in vain, which is rare.
            match inotify.add_watch(&directory, changes) {
                Ok(_) => {}
                // It went; the next look sees that.
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                // The system's limit, or a directory that may be passed but not listed.
                Err(Errno::ENOSPC | Errno::ENOMEM | Errno::EACCES) => self.blind = true,
                Err(errno) => {
                    return Err(WaitError::Io { path: directory, error: errno.into() });
                }
            }
        }
        Ok(nearest)
    }

    /// Sleeps until something changes, a signal comes, or this time is over.
    pub(super) fn sleep(
        &self,
        left: Option<Duration>,
        signals: Option<&SignalFd>,
    ) -> Result<Woken, Errno> {
        let left = if self.blind { Some(left.map_or(BLIND, |left| left.min(BLIND))) } else { left };
        // Rounded up, so that it never spins in the last millisecond. The kernel takes 24 days; a longer time is
        // slept in parts.
        let millis = left.map(|left| i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
        let time = millis.map_or(PollTimeout::NONE, |millis| {
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let mut sources = Vec::with_capacity(2);
        if let Some(signals) = signals {
            sources.push(PollFd::new(signals.as_fd(), PollFlags::POLLIN));
        }
        if let Ok(inotify) = &self.inotify {
            sources.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut sources, time) {
            Ok(0) => return Ok(Woken::TimedOut),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        if let Some(signal) = signals.and_then(|signals| signals.read_signal().ok().flatten()) {
            return Ok(Woken::Signal(i32::try_from(signal.ssi_signo).unwrap_or_default()));
        }
        // What exactly changed does not matter: take all that is told, and look.
        if let Ok(inotify) = &self.inotify {
            while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
        }
        Ok(Woken::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_inotify_it_looks_again_after_a_second() {
        let watch = Watch { inotify: Err(Errno::EMFILE), blind: true };
        assert_eq!(watch.problem(), Some(Errno::EMFILE));
        assert_eq!(watch.sleep(None, None), Ok(Woken::TimedOut));
    }

    #[test]
    fn the_nearest_directory_is_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for below in ["t.json", "a/b/t.json", "file/t.json"] {
            assert_eq!(nearest_directory(&folder.path().join(below)), folder.path());
        }
        assert_eq!(nearest_directory(Path::new("t.json")), Path::new("."));
        assert_eq!(nearest_directory(Path::new("/none/t.json")), Path::new("/"));
    }
}
