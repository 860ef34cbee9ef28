//! Tells when something in a directory changed.
//!
//! One inotify instance serves the whole process, however many ask: a system allows few of them. What cannot be watched
//! (the directory is not there, the system's limit is reached) is a problem of the area "watch" and left to the
//! caller's slow poll; a later [`Directories::subscribe`] or [`Changes::again`] tries once more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use notify::{Event, EventKind, INotifyWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::problem::{Area, Finding, Problems};

/// Watches directories for everybody. Copies share it.
#[derive(Clone, Debug)]
pub struct Directories {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    watcher: Mutex<Option<INotifyWatcher>>,
    asked: Arc<Mutex<BTreeMap<PathBuf, Vec<Weak<Notify>>>>>,
}

/// Somebody's interest in some directories; it ends with the value.
#[derive(Debug)]
pub struct Changes {
    directories: Directories,
    paths: Vec<PathBuf>,
    bell: Arc<Notify>,
    problems: Problems,
}

// === impl Directories ===

impl Directories {
    /// Starts watching nothing.
    pub fn new(problems: &Problems) -> Self {
        let asked = Arc::new(Mutex::new(BTreeMap::<PathBuf, Vec<Weak<Notify>>>::new()));
        let told = asked.clone();
        let watcher =
            INotifyWatcher::new(move |event| ring(&told, event), notify::Config::default());
        let watcher = match watcher {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                let message = format!("inotify: {error}; changes are seen by the slow poll only");
                problems.raise(Area::Watch, Finding::new("inotify", "inotify", message));
                None
            }
        };
        Self { inner: Arc::new(Inner { watcher: Mutex::new(watcher), asked }) }
    }

    /// Tells of changes in these directories: entries that come, go, are written or renamed; not below them.
    pub fn subscribe(&self, paths: Vec<PathBuf>, problems: &Problems) -> Changes {
        let changes = Changes {
            directories: self.clone(),
            paths,
            bell: Arc::new(Notify::new()),
            problems: problems.clone(),
        };
        changes.again();
        changes
    }

    fn add(&self, path: &Path, bell: &Arc<Notify>) -> notify::Result<()> {
        let mut watcher = self.inner.watcher.lock();
        let Some(watcher) = watcher.as_mut() else { return Ok(()) };
        {
            let mut asked = self.inner.asked.lock();
            let bells = asked.entry(path.to_owned()).or_default();
            if !bells.iter().any(|known| known.ptr_eq(&Arc::downgrade(bell))) {
                bells.push(Arc::downgrade(bell));
            }
        }
        // Watching once more replaces the watch of a directory that was made anew.
        watcher.watch(path, RecursiveMode::NonRecursive)
    }

    fn remove(&self, path: &Path, bell: &Arc<Notify>) {
        let mut watcher = self.inner.watcher.lock();
        let mut asked = self.inner.asked.lock();
        let Some(bells) = asked.get_mut(path) else { return };
        bells.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&Arc::downgrade(bell)));
        if bells.is_empty() {
            asked.remove(path);
            drop(asked);
            if let Some(watcher) = watcher.as_mut() {
                // The directory may have gone, and its watch with it.
                let _gone = watcher.unwatch(path);
            }
        }
    }
}

fn ring(asked: &Mutex<BTreeMap<PathBuf, Vec<Weak<Notify>>>>, event: notify::Result<Event>) {
    let asked = asked.lock();
    let bells: Vec<Arc<Notify>> = match event {
        Ok(Event { kind: EventKind::Access(kind), .. })
            if !matches!(
                kind,
                notify::event::AccessKind::Close(notify::event::AccessMode::Write)
            ) =>
        {
            return;
        }
        Ok(event) if !event.need_rescan() => {
            let near = |path: &PathBuf| {
                let parent = path.parent().and_then(|parent| asked.get(parent));
                asked.get(path).into_iter().chain(parent).flatten().filter_map(Weak::upgrade)
            };
            event.paths.iter().flat_map(near).collect()
        }
        // Events were lost: anything may have changed.
        _ => asked.values().flatten().filter_map(Weak::upgrade).collect(),
    };
    drop(asked);
    for bell in bells {
        bell.notify_one();
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
        for path in &self.paths {
            let subject = path.display().to_string();
            match self.directories.add(path, &self.bell) {
                Ok(()) => self.problems.clear(Area::Watch, &subject),
                // A directory that is not there has nothing to watch; its parent is the caller's business.
                Err(error) if is_absent(&error) => self.problems.clear(Area::Watch, &subject),
                Err(error) => {
                    let message = format!("{error}; changes are seen by the slow poll only");
                    self.problems.raise(Area::Watch, Finding::new("inotify", subject, message));
                }
            }
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        for path in &self.paths {
            self.directories.remove(path, &self.bell);
        }
    }
}

fn is_absent(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn what_happens_in_a_directory_is_told_to_all_who_asked() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let problems = Problems::default();
        let directories = Directories::new(&problems);
        let mut first = directories.subscribe(vec![here.path().to_owned()], &problems);
        let mut second = directories.subscribe(vec![here.path().to_owned()], &problems);
        let mut other = directories.subscribe(vec![there.path().to_owned()], &problems);
        fs::write(here.path().join("x"), "1").unwrap();
        tokio::time::timeout(PATIENCE, first.next()).await.unwrap();
        tokio::time::timeout(PATIENCE, second.next()).await.unwrap();
        drop(first);
        while tokio::time::timeout(Duration::from_millis(50), second.next()).await.is_ok() {}
        fs::remove_file(here.path().join("x")).unwrap();
        tokio::time::timeout(PATIENCE, second.next()).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), other.next()).await.is_err());
        assert_eq!(problems.list(), []);
    }

    #[tokio::test]
    async fn a_directory_that_comes_later_is_watched_when_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let problems = Problems::default();
        let directories = Directories::new(&problems);
        let late = folder.path().join("late");
        let mut changes = directories.subscribe(vec![late.clone()], &problems);
        fs::create_dir(&late).unwrap();
        changes.again();
        fs::write(late.join("x"), "1").unwrap();
        tokio::time::timeout(PATIENCE, changes.next()).await.unwrap();
    }
}
