use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::backoff::{FIRST, PANICKED};
use crate::election::{Fence, NotLeader};
use crate::environment::Environment;
use crate::events::Events;
use crate::metrics::ObjectMetrics;
use crate::reconciler::ReconcileError;
use crate::recorder::EventRecorder;
use crate::watch_source::WatchSource;
use crate::writer::Writer;

/// What a key is told to do when it is reconciled.
#[derive(Clone, Copy, Debug)]
enum Do {
    Well,
    Fail,
    Panic,
    Gone,
    Slowly(Duration),
    Again(Duration),
    LoseLeadership,
}

#[derive(Debug, thiserror::Error)]
enum PlayError {
    #[error("it fails")]
    Fails,
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
}

/// A reconciler whose keys do as they are told, and say when they are reconciled.
struct Play {
    script: Mutex<BTreeMap<&'static str, Do>>,
    changes: broadcast::Sender<&'static str>,
    helpful: broadcast::Sender<()>,
    reconciled: mpsc::UnboundedSender<(&'static str, u32)>,
    metrics: ObjectMetrics,
}

struct Played {
    play: Arc<Play>,
    reconciled: mpsc::UnboundedReceiver<(&'static str, u32)>,
    metrics: ReconcileMetrics,
    stop: CancellationToken,
    run: tokio::task::JoinHandle<()>,
}

impl ReconcileError for PlayError {
    fn reason(&self) -> &'static str {
        "fails"
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::NotLeader(_))
    }
}

impl Reconciler for Play {
    type Key = &'static str;
    type State = u32;
    type Error = PlayError;

    const NAME: &'static str = "play";
    const PARALLEL: usize = 4;

    fn watches(&self) -> Vec<WatchSource<Self::Key>> {
        vec![
            WatchSource::changes("keys", self.changes.subscribe(), Wake::key),
            WatchSource::changes("surroundings", self.helpful.subscribe(), |()| Wake::Failed),
        ]
    }

    fn keys(&self) -> Vec<Self::Key> {
        self.script.lock().keys().copied().collect()
    }

    async fn reconcile(
        &self,
        key: &Self::Key,
        state: &mut u32,
        _: &Context,
    ) -> Result<Requeue, PlayError> {
        *state += 1;
        self.reconciled.send((key, *state)).unwrap();
        let told = self.script.lock().get(key).copied().unwrap_or(Do::Gone);
        match told {
            Do::Well => Ok(Requeue::OnChange),
            Do::Fail => Err(PlayError::Fails),
            Do::Panic => panic!("told to"),
            Do::Gone => Ok(Requeue::Gone),
            Do::Slowly(time) => {
                sleep(time).await;
                Ok(Requeue::OnChange)
            }
            Do::Again(pause) => Ok(Requeue::After(pause)),
            Do::LoseLeadership => Err(NotLeader { epoch: 1 }.into()),
        }
    }

    fn metrics(&self) -> Option<&ObjectMetrics> {
        Some(&self.metrics)
    }
}

impl Played {
    async fn begin(script: &[(&'static str, Do)]) -> Self {
        let (tell, reconciled) = mpsc::unbounded_channel();
        let play = Arc::new(Play {
            script: Mutex::new(script.iter().copied().collect()),
            changes: broadcast::channel(4).0,
            helpful: broadcast::channel(4).0,
            reconciled: tell,
            metrics: ObjectMetrics::default(),
        });
        let nobody = tower::service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, _>(std::io::Error::other("nobody is there"))
        });
        let client = Client::new(nobody, "default");
        let writer = Writer::new(client.clone(), Fence::new(1, Instant::now() + PANICKED));
        let events = EventRecorder::new(Events::new(client, "test"), Default::default());
        let context = Context::new(writer, events, Environment::system());
        let (metrics, stop) = (ReconcileMetrics::default(), CancellationToken::new());
        let running = run(play.clone(), context, metrics.clone(), stop.clone());
        let run = tokio::spawn(running);
        Self { play, reconciled, metrics, stop, run }
    }

    fn tell(&self, key: &'static str, what: Do) {
        self.play.script.lock().insert(key, what);
    }

    fn change(&self, key: &'static str) {
        self.play.changes.send(key).unwrap();
    }

    /// The next key that is reconciled, and how often it was since its state was made.
    async fn next(&mut self) -> (&'static str, u32) {
        self.reconciled.recv().await.unwrap()
    }

    /// Nothing is reconciled for so long.
    async fn assert_quiet(&mut self, time: Duration) {
        let next = timeout(time, self.reconciled.recv()).await;
        assert!(next.is_err(), "{next:?}");
    }

    async fn end(self) {
        self.stop.cancel();
        self.run.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn all_keys_are_reconciled_at_the_start_and_each_when_it_changes() {
    let mut played = Played::begin(&[("a", Do::Well), ("b", Do::Well)]).await;
    assert_eq!([played.next().await, played.next().await], [("a", 1), ("b", 1)]);
    played.change("b");
    assert_eq!(played.next().await, ("b", 2));
    played.assert_quiet(PANICKED).await;
    assert_eq!(played.metrics.count("play", DONE), 3);
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_backs_off_and_the_others_go_on() {
    let mut played = Played::begin(&[("a", Do::Fail), ("b", Do::Well)]).await;
    let begun = Instant::now();
    assert_eq!([played.next().await, played.next().await], [("a", 1), ("b", 1)]);
    let mut pauses = Vec::new();
    let mut last = begun;
    for _ in 0..4 {
        assert_eq!(played.next().await.0, "a");
        pauses.push(last.elapsed());
        last = Instant::now();
    }
    for (number, pause) in pauses.into_iter().enumerate() {
        let least = FIRST * 2u32.pow(u32::try_from(number).unwrap());
        // A timer of tokio counts whole milliseconds.
        let most = least.mul_f64(1.1) + Duration::from_millis(2);
        assert!((least..=most).contains(&pause), "{number}: {pause:?}");
    }
    played.tell("a", Do::Well);
    played.play.helpful.send(()).unwrap();
    assert_eq!(played.next().await.0, "a");
    played.play.helpful.send(()).unwrap();
    played.assert_quiet(PANICKED).await;
    assert_eq!(played.metrics.count("play", "fails"), 5);
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_panics_rests_and_the_others_go_on() {
    let mut played = Played::begin(&[("a", Do::Panic), ("b", Do::Well)]).await;
    assert_eq!([played.next().await, played.next().await], [("a", 1), ("b", 1)]);
    played.tell("a", Do::Well);
    played.change("a");
    played.change("b");
    assert_eq!(played.next().await, ("b", 2), "a rests though it has changed");
    let begun = Instant::now();
    assert_eq!(played.next().await, ("a", 1), "with a new state");
    assert!(begun.elapsed() >= PANICKED - Duration::from_millis(5), "{:?}", begun.elapsed());
    assert_eq!(played.metrics.count("play", INTERNAL), 1);
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_reconciles_nothing_any_more() {
    let slowly = Do::Slowly(Duration::from_secs(7));
    let mut played = Played::begin(&[("a", slowly), ("b", Do::LoseLeadership)]).await;
    let begun = Instant::now();
    assert_eq!([played.next().await, played.next().await], [("a", 1), ("b", 1)]);
    played.change("a");
    // It ends by itself, but not before what runs has ended.
    (&mut played.run).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 7);
    assert!(played.reconciled.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lagged_wakes_all_keys() {
    let mut played = Played::begin(&[("a", Do::Well), ("b", Do::Well)]).await;
    assert_eq!([played.next().await, played.next().await], [("a", 1), ("b", 1)]);
    played.tell("c", Do::Well);
    // More than the channel holds, before the controller gets to run.
    (0..6).for_each(|_| played.change("a"));
    let mut next = vec![played.next().await, played.next().await, played.next().await];
    next.sort_unstable();
    assert_eq!(next, [("a", 2), ("b", 2), ("c", 1)], "one that no change was seen of, too");
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_is_reconciled_by_one_task_at_a_time() {
    let slowly = Do::Slowly(Duration::from_secs(5));
    let mut played = Played::begin(&[("a", slowly)]).await;
    assert_eq!(played.next().await, ("a", 1));
    played.change("a");
    played.change("a");
    played.assert_quiet(Duration::from_secs(4)).await;
    assert_eq!(played.next().await, ("a", 2), "once more, since it changed meanwhile");
    played.assert_quiet(PANICKED).await;
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_keys_are_reconciled_at_once_than_allowed() {
    let slowly = Do::Slowly(Duration::from_secs(5));
    let keys = ["a", "b", "c", "d", "e"].map(|key| (key, slowly));
    let mut played = Played::begin(&keys).await;
    for key in ["a", "b", "c", "d"] {
        assert_eq!(played.next().await, (key, 1));
    }
    played.assert_quiet(Duration::from_secs(4)).await;
    assert_eq!(played.next().await, ("e", 1));
    played.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_may_ask_to_be_reconciled_again_and_one_that_is_gone_is_forgotten() {
    let again = Do::Again(Duration::from_secs(3));
    let mut played = Played::begin(&[("a", again)]).await;
    assert_eq!(played.next().await, ("a", 1));
    let begun = Instant::now();
    assert_eq!(played.next().await, ("a", 2));
    assert_eq!(begun.elapsed().as_secs(), 3);
    played.tell("a", Do::Gone);
    assert_eq!(played.next().await, ("a", 3));
    played.assert_quiet(PANICKED).await;
    played.change("a");
    assert_eq!(played.next().await, ("a", 1), "another one of its name has a new state");
    played.end().await;
}
