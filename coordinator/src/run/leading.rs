//! What only the leader does: it begins with the lease, and ends before the lease does.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::wiring::{Caches, Counters};
use crate::certs::{Certificates, Keeper};
use crate::controllers::ranktable::{self, Outlets, Shown, Sources};
use crate::controllers::{dijob, modelserving, runtime, trainjob};
use crate::events::Events;
use crate::lead::{Fence, Standing};
use crate::placement;
use crate::placement::bootstrap::bootstrap;
use crate::placement::live;
use crate::webhook::configure::configure;
use crate::write::Writer;
use muster_hub::{Hub, Role};

/// A part that ends by itself is started again after this, as long as we lead.
const AGAIN: Duration = Duration::from_millis(500);

/// What a leader works with.
pub(super) struct Leading {
    /// Whether we lead.
    pub standing: watch::Receiver<Standing>,
    /// The agents.
    pub hub: Hub,
    /// What is known of the cluster.
    pub caches: Caches,
    /// Makes certificates.
    pub keeper: Keeper,
    /// What is served.
    pub certificates: Certificates,
    /// What is shown of groups.
    pub groups: Shown,
    /// What is shown of ModelServings.
    pub servings: modelserving::Shown,
    /// What is shown of TrainJobs.
    pub jobs: trainjob::Shown,
    /// By what TrainJobs are decided.
    pub rules: Arc<trainjob::Rules>,
    /// What is read to place pods, and what is shown of it.
    pub placement: (placement::Sources, placement::Shown),
}

// === impl Leading ===

impl Leading {
    /// Follows the standing until stopped.
    pub async fn run(
        mut self,
        client: Client,
        settings: Settings,
        metrics: Counters,
        stop: CancellationToken,
    ) {
        loop {
            let standing = self.standing.borrow_and_update().clone();
            let term = stop.child_token();
            let mut parts = JoinSet::new();
            let led = matches!(standing, Standing::Leading(_));
            match standing {
                Standing::Leading(fence) => {
                    tracing::info!(epoch = fence.epoch(), "leads");
                    self.hub.set_role(Role::Leader { epoch: fence.epoch() });
                    self.begin(&mut parts, &client, &settings, &metrics, fence, &term);
                }
                Standing::Standby { leader } => self.hub.set_role(Role::Standby { leader }),
            }
            let (mut died, mut changed) = (false, Ok(()));
            loop {
                tokio::select! {
                    () = stop.cancelled() => {}
                    news = self.standing.changed() => changed = news,
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
                tracing::info!("leads no more");
            }
            term.cancel();
            while parts.join_next().await.is_some() {}
            self.groups.clear();
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
        let sources = Sources {
            pods: self.caches.pods.clone(),
            records: self.caches.records.clone(),
            templates: self.caches.templates.clone(),
            hub: self.hub.clone(),
        };
        let events = Events::new(client.clone(), &settings.identity);
        let (servings, injection) = (self.caches.servings.clone(), settings.injection.clone());
        let own = modelserving::Outlets::new(
            writer.clone(),
            events.clone(),
            metrics.servings.clone(),
            injection,
            self.servings.clone(),
        );
        again(parts, term, move |stop| modelserving::run(servings.clone(), own.clone(), stop));
        let jobs = self.caches.dijobs.clone();
        let (own, counters) = (settings.dijob.clone(), metrics.dijobs.clone());
        let own = dijob::Outlets::new(writer.clone(), events.clone(), counters, own);
        again(parts, term, move |stop| dijob::run(jobs.clone(), own.clone(), stop));
        let (jobs, counted) = (self.caches.jobs.clone(), metrics.jobs.clone());
        let own = trainjob::Outlets::new(
            writer.clone(),
            events.clone(),
            counted.clone(),
            self.jobs.clone(),
            self.rules.clone(),
        );
        again(parts, term, move |stop| trainjob::run(jobs.clone(), own.clone(), stop));
        let (jobs, own, rule) = (self.caches.jobs.clone(), writer.clone(), settings.runtime_holds);
        again(parts, term, move |stop| {
            runtime::run(jobs.clone(), rule, own.clone(), counted.clone(), stop)
        });
        let (seen, shown) = self.placement.clone();
        let own = placement::Outlets {
            writer: writer.clone(),
            events: events.clone(),
            metrics: metrics.placement.clone(),
            grouping: metrics.grouping.clone(),
            shown,
        };
        let how = settings.placement.clone();
        again(parts, term, move |stop| {
            placement::run(how.clone(), seen.clone(), own.clone(), stop)
        });
        let outlets =
            Outlets { events, writer, metrics: metrics.tables.clone(), shown: self.groups.clone() };
        let own = settings.ranktable.clone();
        again(parts, term, move |stop| {
            ranktable::run(sources.clone(), own.clone(), outlets.clone(), stop)
        });
    }
}

/// Runs a controller. It ends by itself when it finds that it must not write; the lease decides whether it may begin
/// again.
fn again<F>(
    parts: &mut JoinSet<()>,
    term: &CancellationToken,
    run: impl Fn(CancellationToken) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let stop = term.clone();
    parts.spawn(async move {
        while !stop.is_cancelled() {
            run(stop.clone()).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    });
}
