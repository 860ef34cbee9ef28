//! Whether a program's loops are alive: each is asked now and then, and answers when it comes round.
//!
//! ```text
//!   /healthz ──check──▶ Heartbeats ──question──▶ Heart::answer, an arm of the loop's select
//!                          └── a question that nobody has answered for too long: the loop is stuck
//! ```
//!
//! A loop that has nothing to do answers at once, and one that waits for an API server answers while it waits: an API server that
//! is down makes no loop stuck. A loop that computes without end or waits for a lock that nobody gives back does not answer.
//! Nothing ticks: without questions there is no work.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a loop that never works for long may take to answer.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The loops of a program. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats(Arc<Mutex<Hearts>>);

#[derive(Debug, Default)]
struct Hearts {
    next: u64,
    all: BTreeMap<u64, Beat>,
}

#[derive(Debug)]
struct Beat {
    name: String,
    limit: Duration,
    /// When it was asked, as long as it has not answered.
    asked: Option<Instant>,
    question: Arc<Notify>,
}

/// A loop's end: it answers. Dropped, nobody asks it any more.
#[derive(Debug)]
pub struct Heart {
    id: u64,
    question: Arc<Notify>,
    hearts: Heartbeats,
}

/// A loop that has not answered for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its name.
    pub name: String,
    /// How long it has not answered.
    pub silent: Duration,
    /// How long it may.
    pub limit: Duration,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// A loop of this name begins. It answers within this time, whatever it does.
    pub fn register(&self, name: impl Into<String>, limit: Duration) -> Heart {
        let question = Arc::new(Notify::new());
        let beat = Beat { name: name.into(), limit, asked: None, question: Arc::clone(&question) };
        let mut hearts = self.0.lock();
        let id = hearts.next;
        hearts.next += 1;
        hearts.all.insert(id, beat);
        Heart { id, question, hearts: self.clone() }
    }

    /// Asks all loops, and says which have not answered earlier questions in time.
    pub fn check(&self, now: Instant) -> Vec<Stuck> {
        let mut stuck = Vec::new();
        for beat in self.0.lock().all.values_mut() {
            match beat.asked {
                Some(asked) => {
                    let silent = now.saturating_duration_since(asked);
                    if silent > beat.limit {
                        stuck.push(Stuck { name: beat.name.clone(), silent, limit: beat.limit });
                    }
                }
                None => {
                    beat.asked = Some(now);
                    beat.question.notify_one();
                }
            }
        }
        stuck
    }

    /// The names of all loops, and for how long each has not answered.
    pub fn all(&self, now: Instant) -> Vec<(String, Option<Duration>)> {
        let silent = |asked: Instant| now.saturating_duration_since(asked);
        let hearts = self.0.lock();
        hearts.all.values().map(|beat| (beat.name.clone(), beat.asked.map(silent))).collect()
    }
}

// === impl Heart ===

impl Heart {
    /// Waits for a question and answers it. To be dropped at any time: the question stays.
    pub async fn answer(&self) {
        self.question.notified().await;
        if let Some(beat) = self.hearts.0.lock().all.get_mut(&self.id) {
            beat.asked = None;
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.hearts.0.lock().all.remove(&self.id);
    }
}

/// Runs a task, and answers for it each time that it lets others run. That does not say that it makes progress: a loop that can
/// wait for something that never comes has a heart of its own.
pub async fn beating<T>(heart: Heart, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    loop {
        tokio::select! {
            done = &mut task => return done,
            () = heart.answer() => {}
        }
    }
}

/// What is said of loops that are stuck, one line each.
pub fn describe(stuck: &[Stuck]) -> String {
    let mut text = String::new();
    for Stuck { name, silent, limit } in stuck {
        // Writing into a String cannot fail.
        let _written = writeln!(
            text,
            "the loop {name:?} has not answered for {} s; it may take {} s",
            silent.as_secs(),
            limit.as_secs()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that answers until it is told to get stuck.
    fn start(hearts: &Heartbeats, name: &str) -> tokio::task::JoinHandle<()> {
        let heart = hearts.register(name, LIMIT);
        tokio::spawn(async move {
            loop {
                heart.answer().await;
            }
        })
    }

    async fn after(hearts: &Heartbeats, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        hearts.check(Instant::now()).into_iter().map(|stuck| stuck.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_answer_is_named_and_one_that_answers_again_is_not() {
        let hearts = Heartbeats::default();
        let _alive = start(&hearts, "alive");
        let stuck = hearts.register("stuck", LIMIT);
        assert!(after(&hearts, Duration::ZERO).await.is_empty(), "it is asked for the first time");
        assert!(after(&hearts, LIMIT).await.is_empty());
        assert_eq!(after(&hearts, Duration::from_secs(1)).await, ["stuck"]);
        assert_eq!(hearts.all(Instant::now()).len(), 2);
        stuck.answer().await;
        assert!(after(&hearts, Duration::ZERO).await.is_empty());
        assert!(after(&hearts, LIMIT).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn probes_that_come_rarely_blame_nobody() {
        let hearts = Heartbeats::default();
        let _alive = start(&hearts, "alive");
        for _ in 0..3 {
            assert!(after(&hearts, LIMIT * 100).await.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_has_ended_is_not_asked() {
        let hearts = Heartbeats::default();
        drop(hearts.register("ended", LIMIT));
        assert!(after(&hearts, Duration::ZERO).await.is_empty());
        assert!(after(&hearts, LIMIT * 2).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_waits_is_answered_for() {
        let hearts = Heartbeats::default();
        let heart = hearts.register("waits", LIMIT);
        let _waits = tokio::spawn(beating(heart, std::future::pending::<()>()));
        for _ in 0..3 {
            assert!(after(&hearts, LIMIT * 2).await.is_empty());
        }
        assert_eq!(beating(hearts.register("ends", LIMIT), async { 7 }).await, 7);
    }

    #[test]
    fn what_is_stuck_is_named_with_its_times() {
        let stuck =
            Stuck { name: "election".into(), silent: Duration::from_secs(61), limit: LIMIT };
        let text = describe(&[stuck]);
        assert_eq!(text, "the loop \"election\" has not answered for 61 s; it may take 60 s\n");
    }
}
