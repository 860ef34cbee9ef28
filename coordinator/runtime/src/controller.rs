//! Runs a [`Reconciler`]: takes changes, keeps the work queue, and reconciles keys in tasks of their own.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use muster_program::heartbeat::LIMIT;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::{DONE, GONE, INTERNAL, ReconcileMetrics};
use crate::queue::{Ended, WorkQueue};
use crate::reconciler::{Context, ReconcileError as _, Reconciler, Requeue};
use crate::watch_source::{Change, Wake};

/// Changes that are taken at once before the next keys are begun.
const BATCH: usize = 4096;

/// The changes of all sources, each with the name of its source.
type Changes<K> = SelectAll<BoxStream<'static, (String, Change<K>)>>;

/// A controller at work.
struct Controller<R: Reconciler> {
    reconciler: Arc<R>,
    context: Context,
    metrics: ReconcileMetrics,
    queue: WorkQueue<R::Key, R::State>,
    tasks: FuturesUnordered<BoxFuture<'static, Finished<R>>>,
    /// The error of each key that fails: it is logged when it is another one.
    errors: HashMap<R::Key, String>,
}

/// A task has ended.
struct Finished<R: Reconciler> {
    key: R::Key,
    began: Instant,
    /// None if the reconcile has panicked.
    outcome: Option<Outcome<R>>,
}

/// A reconcile has ended.
struct Outcome<R: Reconciler> {
    state: R::State,
    result: Result<Requeue, R::Error>,
}

/// Reconciles until it is stopped, until this coordinator is not the leader any more, or until a source ends. Returns when
/// no reconcile runs any more, so that whatever is being written is written before another controller begins.
pub async fn run<R: Reconciler>(
    reconciler: Arc<R>,
    context: Context,
    metrics: ReconcileMetrics,
    stop: CancellationToken,
) {
    let (mut changes, mut ready) = (SelectAll::new(), Vec::new());
    for source in reconciler.watches() {
        let name = source.name;
        ready.push(source.ready);
        changes.push(source.changes.map(move |change| (name.clone(), change)).boxed());
    }
    tokio::select! {
        () = stop.cancelled() => return,
        _ = futures::future::join_all(ready) => {}
    }
    let ended = CancellationToken::new();
    let recording = record_events(&context, ended.clone());
    let mut controller = Controller {
        reconciler,
        context,
        metrics,
        queue: WorkQueue::default(),
        tasks: FuturesUnordered::new(),
        errors: HashMap::new(),
    };
    controller.wake(Wake::All);
    controller.work(&mut changes, &stop).await;
    while controller.tasks.next().await.is_some() {}
    if let Some(metrics) = controller.reconciler.metrics() {
        metrics.known(0);
    }
    ended.cancel();
    let _ended = recording.await;
}

/// Records events beside the reconciles; tells when that has ended.
fn record_events(context: &Context, stop: CancellationToken) -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    let events = context.events.clone();
    context.environment.tasks.spawn(Box::pin(async move {
        events.run(stop).await;
        let _nobody_waits = tell.send(());
    }));
    told
}

// === impl Controller ===

impl<R: Reconciler> Controller<R> {
    /// Until there is nothing more to do for this leader.
    async fn work(&mut self, changes: &mut Changes<R::Key>, stop: &CancellationToken) {
        let heart = self.context.environment.heartbeats.register(R::NAME, LIMIT);
        loop {
            self.begin();
            let due = self.sleep_until_due();
            tokio::select! {
                () = stop.cancelled() => return,
                Some(finished) = self.tasks.next() => {
                    if !self.finish(finished) {
                        return;
                    }
                }
                Some((source, change)) = changes.next() => {
                    if !self.change(&source, change) {
                        return;
                    }
                    // Many small changes are taken together.
                    for _ in 0..BATCH {
                        let Some((source, change)) = changes.next().now_or_never().flatten() else {
                            break;
                        };
                        if !self.change(&source, change) {
                            return;
                        }
                    }
                }
                () = due => self.queue.promote(self.context.now()),
                () = heart.answer() => {}
            }
        }
    }

    /// Begins as many reconciles as there is room for.
    fn begin(&mut self) {
        while self.tasks.len() < R::PARALLEL
            && let Some((key, state)) = self.queue.take()
        {
            let task = self.reconcile(key, state);
            self.tasks.push(task);
        }
    }

    /// Reconciles a key in a task of its own. What is returned waits for the task.
    fn reconcile(&self, key: R::Key, mut state: R::State) -> BoxFuture<'static, Finished<R>> {
        let (tell, told) = oneshot::channel();
        let (reconciler, context) = (Arc::clone(&self.reconciler), self.context.clone());
        let (own, began) = (key.clone(), self.context.now());
        self.context.environment.tasks.spawn(Box::pin(async move {
            let result = reconciler.reconcile(&own, &mut state, &context).await;
            // Of a task that panics the sender is dropped.
            let _nobody_waits = tell.send(Outcome { state, result });
        }));
        Box::pin(async move { Finished { key, began, outcome: told.await.ok() } })
    }

    /// Waits for the next key that is due.
    fn sleep_until_due(&self) -> BoxFuture<'static, ()> {
        match self.queue.due() {
            Some(due) => self.context.environment.clock.sleep_until(due),
            None => Box::pin(std::future::pending()),
        }
    }

    /// A reconcile has ended. False if this coordinator is not the leader any more.
    fn finish(&mut self, finished: Finished<R>) -> bool {
        let Finished { key, began, outcome } = finished;
        let now = self.context.now();
        let took = now.saturating_duration_since(began);
        let (state, ended, result) = match outcome {
            Some(Outcome { state, result: Ok(requeue) }) => {
                self.errors.remove(&key);
                match requeue {
                    Requeue::OnChange => (state, Ended::Done(None), DONE),
                    Requeue::After(pause) => (state, Ended::Done(Some(pause)), DONE),
                    Requeue::Gone => (state, Ended::Gone, GONE),
                }
            }
            Some(Outcome { result: Err(error), .. }) if error.is_not_leader() => {
                tracing::debug!(controller = R::NAME, %key, "{error}");
                return false;
            }
            Some(Outcome { state, result: Err(error) }) => {
                let reason = error.reason();
                self.fail(&key, reason, error.to_string());
                let fraction = self.context.environment.randomness.fraction();
                (state, Ended::Failed { fraction, within: error.retry_within() }, reason)
            }
            None => {
                tracing::error!(controller = R::NAME, %key, reason = INTERNAL, "a reconcile has panicked");
                if let Some(metrics) = self.reconciler.metrics() {
                    metrics.failed(INTERNAL);
                }
                (R::State::default(), Ended::Panicked, INTERNAL)
            }
        };
        self.metrics.reconciled(R::NAME, result, took);
        self.queue.put_back(&key, state, ended, now);
        self.count();
        true
    }

    /// A reconcile has failed: said once, until the error is another one or over.
    fn fail(&mut self, key: &R::Key, reason: &'static str, error: String) {
        if let Some(metrics) = self.reconciler.metrics() {
            metrics.failed(reason);
        }
        if self.errors.get(key) == Some(&error) {
            tracing::debug!(controller = R::NAME, %key, reason, "reconcile failed again: {error}");
        } else {
            tracing::warn!(controller = R::NAME, %key, reason, "reconcile failed: {error}");
            self.errors.insert(key.clone(), error);
        }
    }

    /// Something has changed. False if a source has ended.
    fn change(&mut self, source: &str, change: Change<R::Key>) -> bool {
        match change {
            Change::Wake(wake) => self.wake(wake),
            Change::Lagged => {
                tracing::debug!(
                    controller = R::NAME,
                    source,
                    "changes were missed: all keys are reconciled"
                );
                self.wake(Wake::All);
            }
            Change::Ended => {
                tracing::debug!(controller = R::NAME, source, "a source of changes has ended");
                return false;
            }
        }
        true
    }

    fn wake(&mut self, wake: Wake<R::Key>) {
        let now = self.context.now();
        match wake {
            Wake::Keys(keys) => keys.iter().for_each(|key| self.queue.add(key, now)),
            Wake::Failed => self.queue.add_failed(now),
            Wake::All => {
                let mut keys = self.reconciler.keys();
                keys.extend(self.queue.keys().cloned());
                keys.iter().for_each(|key| self.queue.add(key, now));
            }
        }
        self.count();
    }

    fn count(&self) {
        if let Some(metrics) = self.reconciler.metrics() {
            metrics.known(self.queue.len());
        }
    }
}

#[cfg(test)]
mod tests;
