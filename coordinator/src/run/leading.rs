//! What only the leader does: it begins with the lease, and ends before the lease does.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::wiring::{Caches, Counters};
use crate::ranktables::{self, Shown};
use crate::workloads::{dijob, lws, modelserving, trainjob};
use muster_hub::{Hub, Role};
use muster_program::heartbeat::Heartbeats;
use muster_runtime::election::{Fence, Leadership};
use muster_runtime::events::Events;
use muster_runtime::writer::Writer;
use muster_runtime::{
    Context, Environment, EventRecorder, ReconcileMetrics, Reconciler, controller,
};
use muster_scheduling::bootstrap::bootstrap;
use muster_scheduling::live;
use muster_serving::certs::{CertReconciler, Certificates};
use muster_serving::webhook::configure::configure;

/// A part that ends by itself is started again after this, as long as we lead; after twice as long each time.
const AGAIN: Duration = Duration::from_millis(500);

/// And no later than this. A part that ran for longer begins with the short pause again.
const AT_THE_LATEST: Duration = Duration::from_secs(60);

/// What a leader works with.
pub(super) struct Leading {
    /// Whether we lead.
    pub leadership: watch::Receiver<Leadership>,
    /// The agents.
    pub hub: Hub,
    /// What is known of the cluster.
    pub caches: Caches,
    /// Makes certificates.
    pub keeper: CertReconciler,
    /// What is served.
    pub certificates: Certificates,
    /// What is shown of groups.
    pub groups: Shown,
    /// What is shown of ModelServings.
    pub servings: modelserving::StatusView,
    /// What is shown of TrainJobs.
    pub jobs: trainjob::StatusView,
    /// By what TrainJobs are decided.
    pub rules: Arc<trainjob::Rules>,
    /// What is read to place pods, and what is shown of it.
    pub placement: (muster_scheduling::Caches, muster_scheduling::StatusView),
    /// Whether loops are alive.
    pub heartbeats: Heartbeats,
}

// === impl Leading ===

impl Leading {
    /// Follows the leadership until stopped.
    pub async fn run(
        mut self,
        client: Client,
        settings: Settings,
        metrics: Counters,
        stop: CancellationToken,
    ) {
        loop {
            let leadership = self.leadership.borrow_and_update().clone();
            let term = stop.child_token();
            let mut parts = JoinSet::new();
            let led = matches!(leadership, Leadership::Leading(_));
            match leadership {
                Leadership::Leading(fence) => {
                    let margin = settings.takeover_margin;
                    match takes_over(&mut self.leadership, margin, &stop).await {
                        Takeover::Begins => {}
                        Takeover::Changed => continue,
                        Takeover::Ends => return,
                    }
                    tracing::info!(epoch = fence.epoch(), "the leader's controllers begin");
                    self.hub.set_role(Role::Leader { epoch: fence.epoch() });
                    self.begin(&mut parts, &client, &settings, &metrics, fence, &term);
                }
                Leadership::Standby { leader } => self.hub.set_role(Role::Standby { leader }),
            }
            let (mut died, mut changed) = (false, Ok(()));
            loop {
                tokio::select! {
                    () = stop.cancelled() => {}
                    news = self.leadership.changed() => changed = news,
                    // One that finds that it must not write ends by itself; the lease will say so, too.
                    Some(ended) = parts.join_next() => match ended {
                        Ok(()) => continue,
                        Err(_) => died = true,
                    },
                }
                break;
            }
            if died {
                // It panicked. A leader that does only a part of its work is worse than none: this part ends, and with
                // it the coordinator, and another one leads.
                tracing::error!("what a leader does has ended unexpectedly");
                term.cancel();
                self.hub.set_role(Role::Standby { leader: None });
                return;
            }
            // First nobody is told anything any more, then the rest ends.
            if led {
                self.hub.set_role(Role::Standby { leader: None });
                tracing::info!("the leader's controllers end");
            }
            term.cancel();
            while parts.join_next().await.is_some() {}
            self.groups.clear();
            self.jobs.clear();
            self.placement.1.clear();
            metrics.placement.queues().clear();
            metrics.placement.paused(false);
            if stop.is_cancelled() || changed.is_err() {
                return;
            }
        }
    }

    fn begin(
        &self,
        parts: &mut JoinSet<()>,
        client: &Client,
        settings: &Settings,
        metrics: &Counters,
        fence: Fence,
        term: &CancellationToken,
    ) {
        let writer = Writer::new(client.clone(), fence);
        let (keeper, certificates) = (self.keeper.clone(), self.certificates.clone());
        let (own, stop) = (writer.clone(), term.clone());
        parts.spawn(async move { keeper.lead(own, stop).await });
        let (own, stop) = (writer.clone(), term.clone());
        let schedulers = settings.placement.cluster.scheduler_names.clone();
        let (tell, blocking) = watch::channel(settings.admission.block_visible_devices);
        let (objects, flags) = (self.caches.live.clone(), settings.admission.clone());
        let ended = term.clone();
        parts.spawn(async move { live::blocking(objects, flags, tell, ended).await });
        let authorities = certificates.authorities();
        parts.spawn(async move { configure(own, authorities, schedulers, blocking, stop).await });
        let (queues, own, stop) = (self.caches.queues.clone(), writer.clone(), term.clone());
        parts.spawn(async move { bootstrap(queues, own, stop).await });
        let groups = ranktables::Caches {
            pods: self.caches.pods.clone(),
            records: self.caches.records.clone(),
            templates: self.caches.templates.clone(),
            hub: self.hub.clone(),
        };
        let events = Events::new(client.clone(), &settings.identity);
        let servings = modelserving::Parts {
            caches: self.caches.servings.clone(),
            injection: settings.injection.clone(),
            metrics: metrics.servings.clone(),
            view: self.servings.clone(),
        };
        let (own, to, counted) = (writer.clone(), events.clone(), metrics.reconciled.clone());
        again(parts, term, move |stop| {
            modelserving::run(servings.clone(), own.clone(), to.clone(), counted.clone(), stop)
        });
        let jobs = self.caches.dijobs.clone();
        let (own, counters) = (settings.dijob.clone(), metrics.dijobs.clone());
        let recorder = EventRecorder::new(events.clone(), counters.dropped_events());
        let environment = Environment::of(self.heartbeats.clone());
        let control = |recorder| Context::new(writer.clone(), recorder, environment.clone());
        let reconciled = &metrics.reconciled;
        let own = dijob::Controller::new(jobs, own, counters);
        run_controller(parts, term, own, control(recorder), reconciled);
        if let Some(sets) = self.caches.lws.clone() {
            let counters = metrics.lws.clone();
            let recorder = EventRecorder::new(events.clone(), counters.dropped_events());
            let own = lws::Controller::new(sets, counters);
            run_controller(parts, term, own, control(recorder), reconciled);
        }
        let (jobs, counted) = (self.caches.jobs.clone(), metrics.jobs.clone());
        let named = events.clone().of(trainjob::EVENT_SOURCE, muster_pipeline::event::ACTION);
        let recorder = EventRecorder::new(named, counted.objects.dropped_events());
        let (rule, objects) = (settings.runtime_holds, counted.objects.clone());
        let runtimes = trainjob::RuntimeController::new(jobs.clone(), rule, objects);
        let (rules, view) = (self.rules.clone(), self.jobs.clone());
        let own = trainjob::Controller::new(jobs, rules, counted, view);
        run_controller(parts, term, own, control(recorder), reconciled);
        let recorder = EventRecorder::new(events.clone(), metrics.jobs.objects.dropped_events());
        run_controller(parts, term, runtimes, control(recorder), reconciled);
        let (seen, shown) = self.placement.clone();
        let own = muster_scheduling::Context {
            writer: writer.clone(),
            events: events.clone(),
            metrics: metrics.placement.clone(),
            grouping: metrics.grouping.clone(),
            reconciles: metrics.reconciled.clone(),
            shown,
            heartbeats: self.heartbeats.clone(),
        };
        let how = settings.placement.clone();
        again(parts, term, move |stop| {
            muster_scheduling::run(how.clone(), seen.clone(), own.clone(), stop)
        });
        let counted = metrics.tables.clone();
        let recorder = EventRecorder::new(events, counted.dropped_events.clone());
        let (own, shown) = (settings.ranktable.clone(), self.groups.clone());
        let tables = ranktables::Controller::new(groups, own, counted, shown);
        run_controller(parts, term, tables, control(recorder), reconciled);
    }
}

/// What has come of the wait of a new leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takeover {
    /// It begins to write.
    Begins,
    /// Who leads has changed once more.
    Changed,
    /// The program ends.
    Ends,
}

/// Waits until the API server refuses what a leader before us may still have on its way: the policy that does it reads the Lease from
/// a cache.
async fn takes_over(
    leadership: &mut watch::Receiver<Leadership>,
    margin: Duration,
    stop: &CancellationToken,
) -> Takeover {
    tokio::select! {
        biased;
        () = stop.cancelled() => Takeover::Ends,
        news = leadership.changed() => match news {
            Ok(()) => Takeover::Changed,
            Err(_) => Takeover::Ends,
        },
        () = tokio::time::sleep(margin) => Takeover::Begins,
    }
}

/// Runs a controller as long as this coordinator is the leader.
fn run_controller<R: Reconciler>(
    parts: &mut JoinSet<()>,
    term: &CancellationToken,
    reconciler: R,
    context: Context,
    metrics: &ReconcileMetrics,
) {
    let (reconciler, metrics) = (Arc::new(reconciler), metrics.clone());
    again(parts, term, move |stop| {
        controller::run(Arc::clone(&reconciler), context.clone(), metrics.clone(), stop)
    });
}

/// Runs a part of the leader's. It ends by itself when it finds that it must not write; the lease decides whether it may
/// begin again.
fn again<F>(
    parts: &mut JoinSet<()>,
    term: &CancellationToken,
    run: impl Fn(CancellationToken) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let stop = term.clone();
    parts.spawn(async move {
        let mut pause = Duration::ZERO;
        while !stop.is_cancelled() {
            let began = Instant::now();
            run(stop.clone()).await;
            pause = next_pause(pause, began.elapsed());
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    });
}

/// How long to wait before a part is started again that waited so long the last time, and ran so long since.
fn next_pause(last: Duration, ran: Duration) -> Duration {
    if last.is_zero() || ran > AT_THE_LATEST {
        return AGAIN;
    }
    last.saturating_mul(2).min(AT_THE_LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_begins_after_its_margin_unless_something_happens_before() {
        let (tell, mut leadership) = watch::channel(Leadership::Standby { leader: None });
        let (margin, stop) = (Duration::from_millis(500), CancellationToken::new());
        let began = Instant::now();
        assert_eq!(takes_over(&mut leadership, margin, &stop).await, Takeover::Begins);
        assert_eq!(began.elapsed(), margin);
        tell.send_replace(Leadership::Standby { leader: None });
        assert_eq!(takes_over(&mut leadership, margin, &stop).await, Takeover::Changed);
        drop(tell);
        assert_eq!(takes_over(&mut leadership, margin, &stop).await, Takeover::Ends);
        let (_tell, mut leadership) = watch::channel(Leadership::Standby { leader: None });
        stop.cancel();
        assert_eq!(takes_over(&mut leadership, margin, &stop).await, Takeover::Ends);
        assert_eq!(began.elapsed(), margin, "none of these waits");
    }

    #[test]
    fn a_part_that_ends_again_and_again_is_started_ever_more_rarely() {
        let mut pause = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pause = next_pause(pause, Duration::from_secs(1));
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        let long = AT_THE_LATEST + Duration::from_secs(1);
        assert_eq!(next_pause(pause, long), AGAIN, "one that ran for long is not to blame");
    }
}
