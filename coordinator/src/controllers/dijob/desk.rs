//! All jobs, and which of them is looked at when. A job is looked at by one task at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::look::{Ended, Memory, look};
use super::{Key, Outlets, Sources};

/// Looks at once.
const MOST: usize = 32;

/// The first pause after a failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const LONGEST: Duration = Duration::from_secs(300);

/// How long a job rests whose look has died.
const BROKEN: Duration = Duration::from_secs(30);

/// A job.
#[derive(Default)]
struct Entry {
    /// Something has changed since the last look began.
    dirty: bool,
    running: bool,
    /// To be looked at then, though nothing changes.
    due: Option<Instant>,
    /// No look before that, whatever changes.
    rests: Option<Instant>,
    tries: u32,
    /// What is known of it; away while it is looked at.
    memory: Option<Memory>,
}

struct Desk {
    sources: Sources,
    outlets: Arc<Outlets>,
    entries: HashMap<Key, Entry>,
    tasks: JoinSet<(Memory, Ended)>,
    keys: HashMap<tokio::task::Id, Key>,
}

/// Looks after all jobs until it is stopped, or until this coordinator does not lead any more.
pub async fn run(sources: Sources, outlets: Outlets, stop: CancellationToken) {
    let (mut jobs, mut things) = (sources.jobs.subscribe(), sources.cache.subscribe());
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.ready() => {}
    }
    let term = stop.child_token();
    let speaking = tokio::spawn(outlets.voice.clone().run(term.clone()));
    let mut desk = Desk {
        sources,
        outlets: Arc::new(outlets),
        entries: HashMap::new(),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
    };
    desk.everything();
    loop {
        let next = desk.start();
        let told = tokio::select! {
            () = stop.cancelled() => break,
            change = jobs.recv() => match change {
                Ok(job) => Ok((job.namespace.unwrap_or_default(), job.name)),
                Err(error) => Err(error),
            },
            change = things.recv() => change,
            Some(ended) = desk.tasks.join_next_with_id() => {
                let (id, ended) = match ended {
                    Ok((id, ended)) => (id, Some(ended)),
                    Err(error) => (error.id(), None),
                };
                if desk.ended(id, ended) { continue } else { break }
            },
            () = sleep_until(next) => continue,
        };
        match told {
            Ok(key) => desk.changed(key),
            Err(RecvError::Lagged(_)) => desk.everything(),
            Err(RecvError::Closed) => break,
        }
    }
    // Whatever is being written ends before another begins.
    term.cancel();
    while desk.tasks.join_next().await.is_some() {}
    let _said = speaking.await;
    desk.outlets.metrics.jobs.set(0);
}

async fn sleep_until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

// === impl Desk ===

impl Desk {
    fn everything(&mut self) {
        let keys: Vec<Key> = self.entries.keys().cloned().collect();
        keys.into_iter().for_each(|key| self.changed(key));
        for job in self.sources.jobs.all() {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            self.changed((part(&job.0.metadata.namespace), part(&job.0.metadata.name)));
        }
    }

    fn changed(&mut self, key: Key) {
        if !self.entries.contains_key(&key) {
            // Pods may carry the name of a job that is no more.
            if self.sources.jobs.named(&key.0, &key.1).is_none() {
                return;
            }
            self.outlets.metrics.jobs.inc();
        }
        self.entries.entry(key).or_default().dirty = true;
    }

    /// Begins with those whose time it is; when the next one's is.
    fn start(&mut self) -> Option<Instant> {
        let (now, mut next) = (Instant::now(), None::<Instant>);
        for (key, entry) in &mut self.entries {
            if entry.running {
                continue;
            }
            let wanted = if entry.dirty { Some(now) } else { entry.due };
            let Some(wanted) = wanted.map(|at| entry.rests.map_or(at, |rests| at.max(rests)))
            else {
                continue;
            };
            if wanted > now || self.tasks.len() >= MOST {
                next = Some(next.map_or(wanted, |next| next.min(wanted)));
                continue;
            }
            (entry.dirty, entry.running, entry.due) = (false, true, None);
            let memory = entry.memory.take();
            let memory = memory.unwrap_or_else(|| Memory::new(self.outlets.settings.patience));
            let (own, sources) = (key.clone(), self.sources.clone());
            let outlets = Arc::clone(&self.outlets);
            let task =
                self.tasks.spawn(async move { look(&own, memory, &sources, &outlets).await });
            self.keys.insert(task.id(), key.clone());
        }
        // When all places are taken, the end of a look is waited for.
        if self.tasks.len() >= MOST { None } else { next }
    }

    /// A look has ended; false if nothing may be written any more.
    fn ended(&mut self, id: tokio::task::Id, ended: Option<(Memory, Ended)>) -> bool {
        let Some(key) = self.keys.remove(&id) else { return true };
        let Some(entry) = self.entries.get_mut(&key) else { return true };
        entry.running = false;
        entry.rests = None;
        let now = Instant::now();
        let Some((memory, ended)) = ended else {
            tracing::error!(job = %format!("{}/{}", key.0, key.1), reason = "internal", "the look at a DIJob has ended unexpectedly");
            self.outlets.metrics.failed("internal");
            (entry.dirty, entry.rests) = (true, Some(now + BROKEN));
            return true;
        };
        entry.memory = Some(memory);
        match ended {
            Ended::Gone => {
                if !entry.dirty {
                    self.entries.remove(&key);
                    self.outlets.metrics.jobs.dec();
                }
            }
            Ended::Done(again) => {
                entry.tries = 0;
                entry.due = again.map(|again| now + again);
            }
            Ended::Failed => {
                let pause = PAUSE.saturating_mul(1 << entry.tries.min(16)).min(LONGEST);
                entry.tries = entry.tries.saturating_add(1);
                (entry.dirty, entry.rests) = (true, Some(now + pause));
            }
            Ended::Deposed => return false,
        }
        true
    }
}
