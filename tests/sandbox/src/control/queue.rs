//! A work queue: each key once, never twice at a time, later again after a failure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::clock::Clock;

/// The tasks of the controllers and the token that ends them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

/// Keys that wait for a worker.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    ready: Notify,
    tasks: Tasks,
    clock: Clock,
}

struct State<K> {
    waiting: VecDeque<K>,
    queued: HashSet<K>,
    busy: HashSet<K>,
    failures: HashMap<K, u32>,
    alarms: HashMap<K, Timestamp>,
    resting: HashSet<K>,
}

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1);

// === impl Tasks ===

impl Tasks {
    /// Runs a task until its end or the end of all.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// The token that ends all tasks.
    pub fn token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Ends all tasks and waits for them.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

// === impl Queue ===

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Queue<K> {
    /// An empty queue.
    pub fn new(tasks: Tasks, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                queued: HashSet::new(),
                busy: HashSet::new(),
                failures: HashMap::new(),
                alarms: HashMap::new(),
                resting: HashSet::new(),
            }),
            ready: Notify::new(),
            tasks,
            clock,
        })
    }

    /// Adds a key, unless it waits already.
    pub fn add(&self, key: K) {
        let mut state = self.state.lock();
        if state.queued.insert(key.clone()) && !state.busy.contains(&key) {
            state.waiting.push_back(key);
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Adds a key a little later, so that a burst of changes is one piece of work.
    pub fn add_soon(self: &Arc<Self>, key: K, wait: Duration) {
        {
            let mut state = self.state.lock();
            let waits = state.queued.contains(&key) && !state.busy.contains(&key);
            if waits || !state.resting.insert(key.clone()) {
                return;
            }
        }
        let queue = self.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            queue.state.lock().resting.remove(&key);
            queue.add(key);
        });
    }

    /// Adds a key when the clock has reached `at`.
    pub fn add_at(self: &Arc<Self>, key: K, at: Timestamp) {
        {
            let mut state = self.state.lock();
            if state.alarms.get(&key).is_some_and(|set| *set <= at) {
                return;
            }
            state.alarms.insert(key.clone(), at);
        }
        let queue = self.clone();
        self.tasks.spawn(async move {
            queue.clock.sleep_until(at).await;
            {
                let mut state = queue.state.lock();
                if state.alarms.get(&key) == Some(&at) {
                    state.alarms.remove(&key);
                }
            }
            queue.add(key);
        });
    }

    async fn next(&self) -> K {
        loop {
            // Made before the look, so that no key slips between.
            let more = self.ready.notified();
            {
                let mut state = self.state.lock();
                if let Some(key) = state.waiting.pop_front() {
                    state.queued.remove(&key);
                    state.busy.insert(key.clone());
                    let left = !state.waiting.is_empty();
                    drop(state);
                    if left {
                        self.ready.notify_one();
                    }
                    return key;
                }
            }
            more.await;
        }
    }

    fn done(self: &Arc<Self>, key: &K, failed: bool) {
        let mut state = self.state.lock();
        state.busy.remove(key);
        if failed {
            let count = state.failures.entry(key.clone()).or_insert(0);
            let wait = FIRST_RETRY.saturating_mul(1 << (*count).min(10)).min(LAST_RETRY);
            *count += 1;
            drop(state);
            let (queue, key) = (self.clone(), key.clone());
            self.tasks.spawn(async move {
                tokio::time::sleep(wait).await;
                queue.add(key);
            });
            state = self.state.lock();
        } else {
            state.failures.remove(key);
        }
        if state.queued.contains(key) && !state.busy.contains(key) && !state.waiting.contains(key) {
            state.waiting.push_back(key.clone());
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Starts `workers` tasks that give each key to `work`; a failure brings the key back later,
    /// with growing pauses up to a second, for as long as it takes.
    pub fn serve<F, Fut, E>(self: &Arc<Self>, workers: usize, name: &'static str, work: F)
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let work = Arc::new(work);
        for _ in 0..workers {
            let (queue, work) = (self.clone(), work.clone());
            self.tasks.spawn(async move {
                loop {
                    let key = queue.next().await;
                    let outcome = work(key.clone()).await;
                    if let Err(error) = &outcome {
                        debug!(controller = name, ?key, %error, "will try again");
                    }
                    queue.done(&key, outcome.is_err());
                    // Work that waits for nothing must not keep the thread to itself.
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<Queue<u32>> {
        Queue::new(Tasks::default(), Clock::machine())
    }

    #[tokio::test]
    async fn a_key_added_twice_is_worked_on_once() {
        let queue = queue();
        queue.add(1);
        queue.add(1);
        queue.add(2);
        assert_eq!((queue.next().await, queue.next().await), (1, 2));
        assert!(queue.state.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_key_added_while_busy_comes_back_when_the_work_is_done() {
        let queue = queue();
        queue.add(1);
        let key = queue.next().await;
        queue.add(1);
        assert!(queue.state.lock().waiting.is_empty());
        queue.done(&key, false);
        assert_eq!(queue.next().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_is_tried_again_until_it_works() {
        let queue = queue();
        let tries: Arc<Mutex<u32>> = Arc::default();
        let (count, (tell, told)) = (tries.clone(), tokio::sync::oneshot::channel());
        let tell = Mutex::new(Some(tell));
        queue.serve(2, "test", move |_| {
            *count.lock() += 1;
            let worked = *count.lock() == 20;
            if worked && let Some(tell) = tell.lock().take() {
                let _sent = tell.send(());
            }
            async move { if worked { Ok(()) } else { Err("no") } }
        });
        queue.add(1);
        told.await.unwrap();
        assert_eq!(*tries.lock(), 20);
    }

    #[tokio::test]
    async fn an_alarm_rings_when_the_clock_is_moved_past_it() {
        let clock = Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap());
        let queue = Queue::new(Tasks::default(), clock.clone());
        queue.add_at(1, "2026-01-02T03:04:15Z".parse().unwrap());
        clock.advance(Duration::from_secs(10));
        assert_eq!(queue.next().await, 1);
    }
}
