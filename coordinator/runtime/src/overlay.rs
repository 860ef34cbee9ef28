//! What a controller has just written, laid over what the watch has shown: it reads its own writes.
//!
//! The API server answers a write with the object as it is now. Until the watch shows that version or a newer one, the
//! answer counts; what was deleted does not come back. A watch that still has not shown a write after the overlay's lag is
//! believed again.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use tokio::time::Instant;

use crate::reflector::is_newer;

/// How long a watch may lag behind our writes before it is believed again.
pub const CACHE_LAG_MAX: Duration = Duration::from_secs(5);

/// Uids that [`Departed`] remembers at most.
const MOST_DEPARTED: usize = 4096;

/// Which object of its name, and which version of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The uid.
    pub uid: String,
    /// The resourceVersion.
    pub resource_version: String,
}

/// Writes of one controller, or of one key of it, that the watch has not shown yet. `P` names an object, `T` is what is
/// kept of it.
#[derive(Clone, Debug)]
pub struct Overlay<P, T> {
    lag: Duration,
    written: BTreeMap<P, Written<T>>,
    deleted: BTreeMap<P, Deleted>,
}

#[derive(Clone, Debug)]
struct Written<T> {
    version: ObjectVersion,
    object: T,
    since: Instant,
}

#[derive(Clone, Debug)]
struct Deleted {
    uid: String,
    since: Instant,
}

/// Which picture of an object is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest<'a, T> {
    /// That of the watch, also if it has none.
    Watched,
    /// The answer to our write.
    Written(&'a T),
    /// We have deleted what the watch still shows.
    Deleted,
}

/// The uids of objects that were there and are gone, the latest of them. An object that came and went before its controller
/// heard the answer to its write is in here: the watch will not show it any more.
#[derive(Debug, Default)]
pub struct Departed {
    uids: HashSet<String>,
    order: VecDeque<String>,
}

// === impl ObjectVersion ===

impl ObjectVersion {
    /// That of an object as JSON.
    pub fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { uid: text("uid"), resource_version: text("resourceVersion") }
    }
}

impl From<&ObjectMeta> for ObjectVersion {
    fn from(metadata: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self { uid: text(&metadata.uid), resource_version: text(&metadata.resource_version) }
    }
}

// === impl Overlay ===

impl<P, T> Default for Overlay<P, T> {
    fn default() -> Self {
        Self::with_lag(CACHE_LAG_MAX)
    }
}

impl<P, T> Overlay<P, T> {
    /// Believes the watch again after this.
    pub fn with_lag(lag: Duration) -> Self {
        Self { lag, written: BTreeMap::new(), deleted: BTreeMap::new() }
    }
}

impl<P: Ord + Clone, T> Overlay<P, T> {
    /// The API server has answered a write with this version of an object. An answer that is older than what is known is
    /// dropped, and so is that of an object that we have deleted since.
    pub fn wrote(&mut self, at: P, version: ObjectVersion, object: T, now: Instant) {
        if self.deleted.get(&at).is_some_and(|deleted| deleted.uid == version.uid) {
            return;
        }
        self.deleted.remove(&at);
        let newer = |known: &Written<T>| {
            is_newer(&version.resource_version, &known.version.resource_version)
        };
        if self.written.get(&at).is_none_or(newer) {
            self.written.insert(at, Written { version, object, since: now });
        }
    }

    /// We have deleted the object of this uid.
    pub fn deleted(&mut self, at: P, uid: &str, now: Instant) {
        self.written.remove(&at);
        self.deleted.insert(at, Deleted { uid: uid.to_owned(), since: now });
    }

    /// Which picture is the newest, if the watch shows this version.
    pub fn newest<Q>(&self, at: &Q, watched: Option<&ObjectVersion>, now: Instant) -> Newest<'_, T>
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let fresh = |since: Instant| now.saturating_duration_since(since) < self.lag;
        if let (Some(deleted), Some(watched)) = (self.deleted.get(at), watched)
            && deleted.uid == watched.uid
            && fresh(deleted.since)
        {
            return Newest::Deleted;
        }
        let newer = |written: &Written<T>| {
            watched.is_none_or(|watched| {
                is_newer(&written.version.resource_version, &watched.resource_version)
            })
        };
        match self.written.get(at) {
            Some(written) if fresh(written.since) && newer(written) => {
                Newest::Written(&written.object)
            }
            _ => Newest::Watched,
        }
    }

    /// The answer to our last write of an object, as long as it is kept.
    pub fn written<Q>(&self, at: &Q) -> Option<&T>
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.written.get(at).map(|written| &written.object)
    }

    /// The version of the same.
    pub fn written_version<Q>(&self, at: &Q) -> Option<&ObjectVersion>
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.written.get(at).map(|written| &written.version)
    }

    /// Whether we have deleted the object of this uid, and the watch may still show it.
    pub fn is_deleted<Q>(&self, at: &Q, uid: &str) -> bool
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.deleted.get(at).is_some_and(|deleted| deleted.uid == uid)
    }

    /// Forgets what the watch has shown by now, and what has waited for longer than the lag. `watched` says which version of
    /// an object the watch shows.
    pub fn tidy(&mut self, watched: impl Fn(&P) -> Option<ObjectVersion>, now: Instant) {
        let (lag, fresh) =
            (self.lag, |since: Instant, lag| now.saturating_duration_since(since) < lag);
        self.written.retain(|at, written| {
            let newer = |watched: ObjectVersion| {
                is_newer(&written.version.resource_version, &watched.resource_version)
            };
            fresh(written.since, lag) && watched(at).is_none_or(newer)
        });
        self.deleted.retain(|at, deleted| {
            fresh(deleted.since, lag) && watched(at).is_none_or(|it| it.uid == deleted.uid)
        });
    }

    /// The same of one object, which the watch shows in this version.
    pub fn settle<Q>(&mut self, at: &Q, watched: Option<&ObjectVersion>, now: Instant)
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let late = |since: Instant| now.saturating_duration_since(since) >= self.lag;
        let shown = |written: &Written<T>| {
            watched.is_some_and(|watched| {
                !is_newer(&written.version.resource_version, &watched.resource_version)
            })
        };
        if self.written.get(at).is_some_and(|written| late(written.since) || shown(written)) {
            self.written.remove(at);
        }
        let another = |deleted: &Deleted| watched.is_some_and(|it| it.uid != deleted.uid);
        if self.deleted.get(at).is_some_and(|deleted| late(deleted.since) || another(deleted)) {
            self.deleted.remove(at);
        }
    }

    /// What the watch should have shown by now.
    pub fn late(&self, now: Instant) -> impl Iterator<Item = &P> {
        let late = move |since: Instant| now.saturating_duration_since(since) >= self.lag;
        let written = self.written.iter().filter(move |(_, one)| late(one.since));
        let deleted = self.deleted.iter().filter(move |(_, one)| late(one.since));
        written.map(|(at, _)| at).chain(deleted.map(|(at, _)| at))
    }

    /// Forgets what was written and is gone again.
    pub fn forget_departed(&mut self, departed: &Departed) {
        self.written.retain(|_, written| !departed.has(&written.version.uid));
    }

    /// Whether anything that was written is gone again.
    pub fn has_departed(&self, departed: &Departed) -> bool {
        self.written.values().any(|written| departed.has(&written.version.uid))
    }

    /// What was written and is not shown yet.
    pub fn pending(&self) -> impl Iterator<Item = (&P, &ObjectVersion)> {
        self.written.iter().map(|(at, written)| (at, &written.version))
    }

    /// What the watch should have shown by now. Who would rather not believe it yet asks the API server, and says what came of
    /// that with [`Overlay::asked`].
    pub fn overdue(&self, now: Instant) -> impl Iterator<Item = (&P, &ObjectVersion)> {
        let fresh = move |since: Instant| now.saturating_duration_since(since) < self.lag;
        let overdue = self.written.iter().filter(move |(_, written)| !fresh(written.since));
        overdue.map(|(at, written)| (at, &written.version))
    }

    /// The API server was asked: what was written is still there, and the watch gets as much time again, or it is gone.
    pub fn asked<Q>(&mut self, at: &Q, is_there: bool, now: Instant)
    where
        P: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self.written.get_mut(at) {
            Some(written) if is_there => written.since = now,
            _ => drop(self.written.remove(at)),
        }
    }

    /// How long until the watch is believed again of the object that was written first: a reconcile is due then, if nothing
    /// is heard. None if nothing is pending.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let oldest = self.written.values().map(|written| written.since).min()?;
        Some((oldest + self.lag).saturating_duration_since(now))
    }
}

// === impl Departed ===

impl Departed {
    /// The object of this uid is gone.
    pub fn note(&mut self, uid: String) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > MOST_DEPARTED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Whether the object of this uid is known to be gone.
    pub fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "pod";

    fn version(uid: &str, number: u64) -> ObjectVersion {
        ObjectVersion { uid: uid.to_owned(), resource_version: number.to_string() }
    }

    fn wrote(uid: &str, number: u64, now: Instant) -> Overlay<&'static str, u64> {
        let mut overlay = Overlay::default();
        overlay.wrote(AT, version(uid, number), number, now);
        overlay
    }

    #[test]
    fn the_newer_of_the_write_and_the_watch_counts() {
        let now = Instant::now();
        let mut overlay = wrote("u", 7, now);
        let table = [
            ("not shown yet", None, Newest::Written(&7)),
            ("an older one is shown", Some(version("u", 6)), Newest::Written(&7)),
            ("ours is shown", Some(version("u", 7)), Newest::Watched),
            ("a newer one is shown", Some(version("u", 8)), Newest::Watched),
            ("another object of its name is shown", Some(version("v", 9)), Newest::Watched),
        ];
        for (what, watched, expected) in table {
            assert_eq!(overlay.newest(AT, watched.as_ref(), now), expected, "{what}");
        }
        overlay.wrote(AT, version("u", 6), 6, now);
        assert_eq!(overlay.newest(AT, None, now), Newest::Written(&7), "answers may overtake");
    }

    #[test]
    fn what_was_deleted_does_not_come_back_but_another_of_its_name_does() {
        let now = Instant::now();
        let mut overlay = wrote("u", 7, now);
        overlay.deleted(AT, "u", now);
        assert_eq!(overlay.newest(AT, Some(&version("u", 7)), now), Newest::Deleted);
        assert_eq!(overlay.newest(AT, Some(&version("v", 9)), now), Newest::Watched);
        overlay.wrote(AT, version("u", 8), 8, now);
        assert_eq!(overlay.newest(AT, None, now), Newest::Watched, "it is on its way out");
        overlay.wrote(AT, version("v", 9), 9, now);
        assert_eq!(overlay.newest(AT, Some(&version("u", 8)), now), Newest::Written(&9));
    }

    #[test]
    fn a_watch_that_never_shows_a_write_is_believed_again() {
        let now = Instant::now();
        let mut overlay = wrote("u", 7, now);
        assert_eq!(overlay.due(now), Some(CACHE_LAG_MAX));
        let late = now + CACHE_LAG_MAX;
        assert_eq!(overlay.newest(AT, None, late), Newest::Watched);
        assert_eq!(overlay.due(late), Some(Duration::ZERO));
        overlay.tidy(|_| None, late);
        assert_eq!((overlay.due(late), overlay.written(AT)), (None, None));
        overlay.deleted(AT, "u", now);
        assert_eq!(overlay.newest(AT, Some(&version("u", 7)), late), Newest::Watched);
    }

    #[test]
    fn who_asks_the_api_server_need_not_believe_a_late_watch() {
        let now = Instant::now();
        let mut overlay = wrote("u", 7, now);
        let overdue = |overlay: &Overlay<_, _>, now| overlay.overdue(now).count();
        let late = now + CACHE_LAG_MAX;
        assert_eq!((overdue(&overlay, now), overdue(&overlay, late)), (0, 1));
        overlay.asked(AT, true, late);
        assert_eq!(overlay.newest(AT, None, late), Newest::Written(&7));
        assert_eq!((overdue(&overlay, late), overlay.due(late)), (0, Some(CACHE_LAG_MAX)));
        overlay.asked(AT, false, late);
        assert_eq!((overlay.newest(AT, None, late), overlay.due(late)), (Newest::Watched, None));
    }

    #[test]
    fn what_the_watch_has_shown_is_forgotten() {
        let now = Instant::now();
        let mut overlay = wrote("u", 7, now);
        overlay.tidy(|_| Some(version("u", 6)), now);
        assert_eq!(overlay.pending().count(), 1);
        overlay.tidy(|_| Some(version("u", 7)), now);
        assert_eq!(overlay.pending().count(), 0);
        overlay.deleted(AT, "u", now);
        overlay.tidy(|_| Some(version("u", 7)), now);
        assert!(overlay.is_deleted(AT, "u"));
        overlay.tidy(|_| None, now);
        assert!(overlay.is_deleted(AT, "u"), "the watch may not even have shown that it was made");
        overlay.tidy(|_| Some(version("v", 9)), now);
        assert!(!overlay.is_deleted(AT, "u"), "another one of its name");
        overlay.deleted(AT, "v", now);
        assert_eq!(overlay.late(now).count(), 0);
        assert_eq!(overlay.late(now + CACHE_LAG_MAX).count(), 1);
        overlay.settle(AT, None, now + CACHE_LAG_MAX);
        assert_eq!(overlay.late(now + CACHE_LAG_MAX).count(), 0);
    }

    #[test]
    fn what_came_and_went_unseen_is_not_believed_to_exist() {
        let now = Instant::now();
        let (mut overlay, mut departed) = (wrote("u1", 7, now), Departed::default());
        departed.note("u0".to_owned());
        overlay.forget_departed(&departed);
        assert!(!overlay.has_departed(&departed), "another of that name is gone");
        assert_eq!(overlay.pending().count(), 1);
        departed.note("u1".to_owned());
        assert!(overlay.has_departed(&departed));
        overlay.forget_departed(&departed);
        assert_eq!(overlay.pending().count(), 0);
    }

    #[test]
    fn of_many_that_are_gone_the_latest_are_remembered() {
        let mut departed = Departed::default();
        for number in 0..=MOST_DEPARTED {
            departed.note(format!("u{number}"));
            departed.note(format!("u{number}"));
        }
        assert!(!departed.has("u0") && departed.has("u1"));
        assert_eq!((departed.uids.len(), departed.order.len()), (MOST_DEPARTED, MOST_DEPARTED));
    }
}
