//! Tells when something in a directory changed.
//!
//! One inotify instance serves the whole process, however many ask: a system allows few of them. What cannot be watched
//! (the directory is not there, the system's limit is reached) is a problem of the area "watch" and left to the
//! caller's slow poll; [`Changes::again`] tries once more.
//!
//! The kernel is asked for entries that come, go or are renamed, and for written files only where somebody wants to
//! know: `/dev` and `/etc` are opened and written to all day on a busy node. That is why this is not the `notify` crate,
//! which always asks for everything, opens included.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::problem::{Area, Finding, Problems};

/// The reader needs little.
const STACK: usize = 128 * 1024;

/// What to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    path: PathBuf,
    /// Beginnings of the names that matter; none: all names.
    names: Vec<String>,
    /// Whether a file that was written counts.
    content: bool,
}

/// Watches directories for everybody. Copies share it.
#[derive(Clone, Debug)]
pub struct Directories {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// None: there is no inotify.
    inotify: Option<Arc<Inotify>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    asked: BTreeMap<PathBuf, Vec<(Weak<Notify>, Interest)>>,
    /// Two paths may lead to one directory.
    watched: HashMap<WatchDescriptor, Vec<PathBuf>>,
}

/// Somebody's interest in some directories; it ends with the value.
#[derive(Debug)]
pub struct Changes {
    directories: Directories,
    interests: Vec<Interest>,
    bell: Arc<Notify>,
    problems: Problems,
}

// === impl Interest ===

impl Interest {
    /// Entries of this directory that come, go or are renamed, if their names begin with one of these; all, if there
    /// are none.
    pub fn entries(path: impl Into<PathBuf>, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self { path: path.into(), names, content: false }
    }

    /// The same, and files that were written.
    pub fn files(path: impl Into<PathBuf>, names: &[&str]) -> Self {
        Self { content: true, ..Self::entries(path, names) }
    }

    fn mask(&self) -> AddWatchFlags {
        let entries = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        if self.content { entries | AddWatchFlags::IN_CLOSE_WRITE } else { entries }
    }

    fn wants(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_CLOSE_WRITE) && !self.content {
            return false;
        }
        // Without a name it is about the directory itself.
        let Some(name) = &event.name else { return true };
        let name = name.to_string_lossy();
        self.names.is_empty() || self.names.iter().any(|wanted| name.starts_with(wanted))
    }
}

impl From<PathBuf> for Interest {
    fn from(path: PathBuf) -> Self {
        Self::files(path, &[])
    }
}

// === impl Directories ===

impl Directories {
    /// Starts watching nothing. A thread of its own reads events; it ends with the last copy.
    pub fn new(problems: &Problems) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let told = Arc::downgrade(&state);
        let started = Inotify::init(InitFlags::IN_CLOEXEC).map_err(std::io::Error::from);
        let started = started.map(Arc::new).and_then(|inotify| {
            let reader = std::thread::Builder::new().name("directories".into()).stack_size(STACK);
            let read_from = inotify.clone();
            reader.spawn(move || read(&read_from, &told)).map(|_| inotify)
        });
        let inotify = match started {
            Ok(inotify) => Some(inotify),
            Err(error) => {
                let message = format!("inotify: {error}; changes are seen by the slow poll only");
                problems.raise(Area::Watch, Finding::new("inotify", "inotify", message));
                None
            }
        };
        Self { inner: Arc::new(Inner { inotify, state }) }
    }

    /// Tells of changes in these directories, not below them. A bare path means all entries and their content.
    pub fn subscribe(
        &self,
        interests: impl IntoIterator<Item = impl Into<Interest>>,
        problems: &Problems,
    ) -> Changes {
        let changes = Changes {
            directories: self.clone(),
            interests: interests.into_iter().map(Into::into).collect(),
            bell: Arc::new(Notify::new()),
            problems: problems.clone(),
        };
        changes.again();
        changes
    }

    fn add(&self, interest: &Interest, bell: &Arc<Notify>) -> Result<(), Errno> {
        let Some(inotify) = &self.inner.inotify else { return Ok(()) };
        let mut state = self.inner.state.lock();
        let asked = state.asked.entry(interest.path.clone()).or_default();
        let bell = Arc::downgrade(bell);
        if !asked.iter().any(|(known, its)| known.ptr_eq(&bell) && its == interest) {
            asked.push((bell, interest.clone()));
        }
        // The kernel keeps one mask for a directory: what all who asked want together.
        let mask = asked.iter().fold(interest.mask(), |all, (_, its)| all | its.mask());
        // A directory that was made anew has another descriptor; one that is watched keeps its own.
        let descriptor = inotify.add_watch(&interest.path, mask)?;
        let paths = state.watched.entry(descriptor).or_default();
        if !paths.contains(&interest.path) {
            paths.push(interest.path.clone());
        }
        Ok(())
    }

    fn remove(&self, path: &Path, bell: &Arc<Notify>) {
        let mut state = self.inner.state.lock();
        let bell = Arc::downgrade(bell);
        let Some(asked) = state.asked.get_mut(path) else { return };
        asked.retain(|(known, _)| known.strong_count() > 0 && !known.ptr_eq(&bell));
        if !asked.is_empty() {
            return;
        }
        state.asked.remove(path);
        let mut idle = Vec::new();
        state.watched.retain(|descriptor, paths| {
            paths.retain(|known| known != path);
            if paths.is_empty() {
                idle.push(*descriptor);
            }
            !paths.is_empty()
        });
        drop(state);
        for descriptor in idle {
            if let Some(inotify) = &self.inner.inotify {
                // The directory may have gone, and its watch with it.
                let _gone = inotify.rm_watch(descriptor);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The end of a watch is an event, which wakes the reader; it finds that nobody is left.
        self.state = Arc::default();
        if let Some(inotify) = &self.inotify
            && let Ok(descriptor) = inotify.add_watch("/", AddWatchFlags::IN_DELETE_SELF)
        {
            let _told = inotify.rm_watch(descriptor);
        }
    }
}

fn read(inotify: &Inotify, state: &Weak<Mutex<State>>) {
    loop {
        let events = match inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EINTR | Errno::EAGAIN) => continue,
            // Nothing else can come of a descriptor that is ours alone; the slow polls go on.
            Err(_) => return,
        };
        match state.upgrade() {
            Some(state) => state.lock().ring(&events),
            None => return,
        }
    }
}

// === impl State ===

impl State {
    fn ring(&mut self, events: &[InotifyEvent]) {
        let mut bells: Vec<Arc<Notify>> = Vec::new();
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                // Events were lost: anything may have changed.
                bells.extend(self.asked.values().flatten().filter_map(|(bell, _)| bell.upgrade()));
                continue;
            }
            let Some(paths) = self.watched.get(&event.wd) else { continue };
            for (bell, interest) in paths.iter().filter_map(|path| self.asked.get(path)).flatten() {
                if interest.wants(event) {
                    bells.extend(bell.upgrade());
                }
            }
            if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                self.watched.remove(&event.wd);
            }
        }
        for bell in bells {
            bell.notify_one();
        }
    }
}

// === impl Changes ===

impl Changes {
    /// Returns when something changed since the last call.
    pub async fn next(&mut self) {
        self.bell.notified().await;
    }

    /// Watches anew what was not there before, or is there again.
    pub fn again(&self) {
        for interest in &self.interests {
            let subject = interest.path.display().to_string();
            match self.directories.add(interest, &self.bell) {
                // A directory that is not there has nothing to watch; its parent is the caller's business.
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR) => {
                    self.problems.clear(Area::Watch, &subject);
                }
                Err(error) => {
                    let remedy = match error {
                        Errno::ENOSPC => " (raise fs.inotify.max_user_watches)",
                        _ => "",
                    };
                    let message =
                        format!("{error}{remedy}; changes are seen by the slow poll only");
                    self.problems.raise(Area::Watch, Finding::new("inotify", subject, message));
                }
            }
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        for interest in &self.interests {
            self.directories.remove(&interest.path, &self.bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn changed(changes: &mut Changes) {
        tokio::time::timeout(PATIENCE, changes.next()).await.unwrap();
    }

    /// Nothing is told, though something was written after it that is.
    async fn unchanged(changes: &mut Changes) {
        assert!(tokio::time::timeout(Duration::from_millis(30), changes.next()).await.is_err());
    }

    #[tokio::test]
    async fn what_happens_in_a_directory_is_told_to_all_who_asked() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let problems = Problems::default();
        let directories = Directories::new(&problems);
        let mut first = directories.subscribe([here.path().to_owned()], &problems);
        let mut second = directories.subscribe([here.path().to_owned()], &problems);
        let mut other = directories.subscribe([there.path().to_owned()], &problems);
        fs::write(here.path().join("x"), "1").unwrap();
        changed(&mut first).await;
        changed(&mut second).await;
        drop(first);
        while tokio::time::timeout(Duration::from_millis(50), second.next()).await.is_ok() {}
        fs::remove_file(here.path().join("x")).unwrap();
        changed(&mut second).await;
        unchanged(&mut other).await;
        assert_eq!(problems.list(), []);
    }

    #[tokio::test]
    async fn who_asked_for_entries_or_names_is_told_of_no_others() {
        let here = tempfile::tempdir().unwrap();
        fs::write(here.path().join("null"), "").unwrap();
        let problems = Problems::default();
        let directories = Directories::new(&problems);
        let mut devices =
            directories.subscribe([Interest::entries(here.path(), &["davinci"])], &problems);
        let mut all = directories.subscribe([here.path().to_owned()], &problems);
        fs::write(here.path().join("null"), "x").unwrap();
        fs::write(here.path().join("tty"), "x").unwrap();
        changed(&mut all).await;
        unchanged(&mut devices).await;
        fs::write(here.path().join("davinci0"), "").unwrap();
        changed(&mut devices).await;
        while tokio::time::timeout(Duration::from_millis(50), devices.next()).await.is_ok() {}
        // Written, but neither new nor gone.
        fs::write(here.path().join("davinci0"), "x").unwrap();
        unchanged(&mut devices).await;
    }

    #[tokio::test]
    async fn a_directory_that_comes_later_or_anew_is_watched_when_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let problems = Problems::default();
        let directories = Directories::new(&problems);
        let late = folder.path().join("late");
        let mut changes = directories.subscribe([late.clone()], &problems);
        for _ in 0..2 {
            fs::create_dir(&late).unwrap();
            changes.again();
            fs::write(late.join("x"), "1").unwrap();
            changed(&mut changes).await;
            fs::remove_dir_all(&late).unwrap();
            changed(&mut changes).await;
            while tokio::time::timeout(Duration::from_millis(50), changes.next()).await.is_ok() {}
        }
        assert_eq!(problems.list(), []);
    }
}
