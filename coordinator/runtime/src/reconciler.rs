//! What a controller is made of: one [`Reconciler`], which says what wakes a key and brings one key to where it should be.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::environment::Environment;
use crate::metrics::ObjectMetrics;
use crate::recorder::EventRecorder;
use crate::watch_source::WatchSource;
use crate::writer::{WriteError, Writer};

/// Brings each of its keys to where it should be, whenever something has changed that concerns it.
///
/// [`crate::controller::run`] calls it, as long as this coordinator is the leader:
///
/// ```text
///   watches ──change──▶ which keys? ──▶ work queue ──▶ reconcile(key) ──▶ done · after a while · failed: back-off · gone
/// ```
///
/// - A key is reconciled by one task at a time, different keys by up to [`Reconciler::PARALLEL`] tasks. A change that comes while its
///   key is reconciled reconciles it once more.
/// - A reconcile asks the caches what is there, never what has changed: changes are coalesced, and after a start or a watch
///   that lagged all keys are reconciled.
/// - It writes only what differs, so that a reconcile that finds all well costs nothing. Its own writes come back as changes.
/// - It reads caches. They lag behind its own writes: keep the answers in an [`crate::overlay::Overlay`] in `State`.
/// - A panic costs its key 30 seconds and its state; the others go on.
pub trait Reconciler: Send + Sync + 'static {
    /// Names an object: namespace and name, a rank group, ...
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;

    /// What is remembered of one key between two reconciles. All of it may be lost: a panic or a new leader begins without.
    type State: Default + Send + 'static;

    /// Why a key cannot be reconciled.
    type Error: ReconcileError;

    /// The label `controller` of metrics and logs.
    const NAME: &'static str;

    /// How many keys are reconciled at once.
    const PARALLEL: usize = 64;

    /// What wakes which keys. Called once, at the start, before [`Reconciler::keys`]: no change is lost in between.
    fn watches(&self) -> Vec<WatchSource<Self::Key>>;

    /// All keys that there are. Called when all sources are ready, and whenever one has lagged: a reconciler that keeps an
    /// index builds it anew here.
    fn keys(&self) -> Vec<Self::Key>;

    /// Brings a key to where it should be.
    fn reconcile(
        &self,
        key: &Self::Key,
        state: &mut Self::State,
        context: &Context,
    ) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;

    /// What is counted of its objects, if anything: the controller keeps their number and the reasons of failures.
    fn metrics(&self) -> Option<&ObjectMetrics> {
        None
    }
}

/// When a key is reconciled again, if nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not before something changes.
    OnChange,
    /// After this.
    After(Duration),
    /// The object is not there any more: its state is dropped.
    Gone,
}

/// Why a key cannot be reconciled.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// The reason in one word, for metrics.
    fn reason(&self) -> &'static str;

    /// Whether this coordinator is not the leader any more: the controller ends. Anything else is tried again, later and
    /// later.
    fn is_not_leader(&self) -> bool {
        false
    }

    /// The key is tried again after this, if its back-off is longer: it has something else to do by then.
    fn retry_within(&self) -> Option<Duration> {
        None
    }
}

/// What every reconcile works with.
#[derive(Clone, Debug)]
pub struct Context {
    /// Writes, as long as this coordinator is the leader.
    pub writer: Writer,
    /// Records events in the name of this controller.
    pub events: EventRecorder,
    /// Clock, randomness and tasks.
    pub environment: Environment,
}

// === impl Requeue ===

impl Requeue {
    /// After this, or not before something changes.
    pub fn after(pause: Option<Duration>) -> Self {
        pause.map_or(Self::OnChange, Self::After)
    }
}

// === impl Context ===

impl Context {
    /// Of a controller that records its events with this recorder.
    pub fn new(writer: Writer, events: EventRecorder, environment: Environment) -> Self {
        Self { writer, events, environment }
    }

    /// A moment to measure from.
    pub fn now(&self) -> Instant {
        self.environment.clock.now()
    }

    /// The time of day, for what is written into objects.
    pub fn timestamp(&self) -> jiff::Timestamp {
        self.environment.clock.timestamp()
    }
}

// === impl WriteError ===

impl ReconcileError for WriteError {
    fn reason(&self) -> &'static str {
        WriteError::reason(self)
    }

    fn is_not_leader(&self) -> bool {
        matches!(self, Self::NotLeader(_))
    }
}
