//! `muster-coordinator`: all parts, wired.
//!
//! ```text
//!   every coordinator   caches · certificates · hub · webhooks · DI server · status · election
//!   the leader          controllers · keeps certificates · fills in webhook configurations
//! ```
//!
//! Each part is a task. No part should end by itself: the first that does ends the coordinator, which its Deployment
//! starts anew. What only the leader does begins with the lease and ends before it does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use muster_pipeline::Registry;
use muster_pipeline::in_use::HoldRule;
use muster_program::log::LogLevel;
use muster_program::parts;
use muster_ranktable::inject::Injection;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::names;
use crate::ranktables::{self, Shown};
use crate::status::Status;
use crate::workloads::dijob::server;
use crate::workloads::{dijob, modelserving, trainjob};
use muster_hub::authenticate::Reviewer;
use muster_hub::{self as hub, Hub, Role};
use muster_runtime::election::{self, Leadership};
use muster_scheduling::admission;
use muster_serving::certs::{Certificates, Names};

mod leading;
mod program;
mod trim;
mod wiring;

pub use program::main;
use wiring::Wiring;

/// How long parts may take to end.
const DRAIN: Duration = Duration::from_secs(5);

/// Everything that a coordinator has to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its namespace.
    pub namespace: String,
    /// What names this process; no other may have the same.
    pub identity: String,
    /// How long a leader that has died stays the leader.
    pub lease: Duration,
    /// How long a new leader waits before it writes.
    pub takeover_margin: Duration,
    /// Where agents are served.
    pub hub: SocketAddr,
    /// Where agents reach this very coordinator, if it is known: `https://host:port`.
    pub hub_address: Option<String>,
    /// Streams, limits, times.
    pub streams: hub::Settings,
    /// Where webhooks are served.
    pub webhooks: SocketAddr,
    /// The authorities that sign what the API server shows to webhooks; none: it shows nothing.
    pub webhook_client_ca: Option<PathBuf>,
    /// Where status is served.
    pub listen: SocketAddr,
    /// Where trainers report their progress, if they may.
    pub progress: Option<SocketAddr>,
    /// The names in its certificate.
    pub names: Names,
    /// Users that are agents.
    pub agents: Vec<String>,
    /// Namespace of the templates.
    pub template_namespace: String,
    /// What pods get injected.
    pub injection: Injection,
    /// How tables are made.
    pub ranktable: ranktables::Settings,
    /// The plugins that make objects of TrainJobs.
    pub plugins: Registry,
    /// Which TrainJobs keep their runtimes.
    pub runtime_holds: HoldRule,
    /// The scheduler of TrainJobs' pods that name none.
    pub default_scheduler: Option<String>,
    /// Whether LeaderWorkerSets become ModelServings.
    pub leader_worker_sets: bool,
    /// How DIJobs are looked after.
    pub dijob: dijob::Settings,
    /// Where coordinators of DIJobs are served.
    pub diserver: server::Settings,
    /// How pods are placed.
    pub placement: muster_scheduling::Settings,
    /// What is refused of queues, PodGroups and pods.
    pub admission: admission::Rules,
}

/// Where a coordinator listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Agents.
    pub hub: SocketAddr,
    /// Webhooks.
    pub webhooks: SocketAddr,
    /// Status.
    pub status: SocketAddr,
    /// Coordinators of DIJobs.
    pub di_server: SocketAddr,
    /// Trainers that report their progress, if they may.
    pub progress: Option<SocketAddr>,
}

/// A running coordinator.
pub struct Coordinator {
    hub: Hub,
    status: Status,
    certificates: Certificates,
    leadership: watch::Receiver<Leadership>,
    addresses: Addresses,
    stop: CancellationToken,
    parts: JoinSet<&'static str>,
}

// === impl Coordinator ===

impl Coordinator {
    /// Starts all parts.
    pub async fn start(settings: Settings, client: Client, log: LogLevel) -> anyhow::Result<Self> {
        let hub_listener = bind("--hub", settings.hub).await?;
        let webhook_listener = bind("--webhooks", settings.webhooks).await?;
        let status_listener = bind("--listen", settings.listen).await?;
        let di_listener = bind("--di-server", settings.diserver.listen).await?;
        let progress_listener = match settings.progress {
            Some(address) => Some(bind("--progress-server", address).await?),
            None => None,
        };
        let progress = progress_listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let addresses = Addresses {
            hub: hub_listener.local_addr()?,
            webhooks: webhook_listener.local_addr()?,
            status: status_listener.local_addr()?,
            di_server: di_listener.local_addr()?,
            progress,
        };
        let reviewer = Arc::new(Reviewer::new(client.clone(), settings.agents.clone()));
        let standby = Role::Standby { leader: None };
        let hub = Hub::new(settings.streams.clone(), standby, reviewer);
        let mut wiring = Wiring::new(settings, client);
        hub.metrics().register(&mut wiring.registry);
        let plugins = wiring.settings.plugins.clone();
        let caches = wiring.caches(&plugins);
        let (keeper, certificates) = wiring.certificates();
        wiring.hub(&hub, hub_listener, &certificates)?;
        let rules = pipeline(&wiring.settings, progress);
        let rules = Arc::new(trainjob::Rules::new(plugins, rules));
        wiring.webhooks(webhook_listener, &certificates, &caches, rules.clone())?;
        if let Some(listener) = progress_listener {
            wiring.progress(listener, &certificates)?;
        }
        let leadership = wiring.election(addresses.hub);
        let known = certificates.clone();
        wiring.di_server(di_listener, caches.dijobs.clone(), leadership.clone(), known)?;
        let groups = Shown::default();
        wiring.registry.register_collector(Box::new(groups.clone()));
        let servings = modelserving::StatusView::default();
        let jobs = trainjob::StatusView::default();
        let placement = wiring.placement(&hub, caches.live.clone());
        let scheduling = placement.1.clone();
        wiring.lead(leading::Leading {
            leadership: leadership.clone(),
            hub: hub.clone(),
            caches: caches.clone(),
            keeper,
            certificates: certificates.clone(),
            groups: groups.clone(),
            servings: servings.clone(),
            jobs: jobs.clone(),
            rules,
            placement,
            heartbeats: wiring.heartbeats.clone(),
        });
        let ready = wiring.ready(&caches, &certificates);
        let Wiring { settings, registry, stop, mut parts, heartbeats, ages, .. } = wiring;
        let status = Status {
            identity: settings.identity,
            started: jiff::Timestamp::now(),
            leadership: leadership.clone(),
            ready,
            hub: hub.clone(),
            groups,
            servings,
            dijobs: caches.dijobs,
            jobs,
            scheduling,
            registry: Arc::new(registry),
            log,
            heartbeats,
            ages,
        };
        let serving =
            muster_program::serve::serve(status_listener, status.clone().router(), stop.clone());
        parts.spawn(async move {
            serving.await;
            "status"
        });
        Ok(Self { hub, status, certificates, leadership, addresses, stop, parts })
    }

    /// The agents.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What can be asked.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What it shows to callers.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Whether it leads.
    pub fn leadership(&self) -> &watch::Receiver<Leadership> {
        &self.leadership
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns when a part has ended though nobody asked it to; says which.
    pub async fn failed(&mut self) -> anyhow::Error {
        parts::failed(&mut self.parts).await
    }

    /// Ends all parts; a leader gives its lease back, so that another takes over at once.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if !parts::drain(&mut self.parts, DRAIN).await {
            tracing::warn!("some parts did not end within {DRAIN:?}; they are dropped");
        }
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{flag} {address}"))
}

/// What is decided of TrainJobs, and where their trainers report.
fn pipeline(settings: &Settings, progress: Option<SocketAddr>) -> muster_pipeline::Settings {
    let others = muster_pipeline::Settings::default();
    let mut schedulers = settings.placement.cluster.scheduler_names.clone();
    schedulers.extend(
        others
            .schedulers
            .iter()
            .filter(|name| !schedulers.contains(name))
            .cloned()
            .collect::<Vec<_>>(),
    );
    muster_pipeline::Settings {
        injection: settings.injection.clone(),
        train_job_status: progress.is_some(),
        namespace: settings.namespace.clone(),
        status_service: names::SERVICE.to_owned(),
        status_port: progress.map_or(others.status_port, |address| address.port()),
        status_secret: muster_serving::names::CERTS_SECRET.to_owned(),
        schedulers,
        default_scheduler: settings.default_scheduler.clone(),
    }
}

/// The settings of the election.
fn election(settings: &Settings, hub: SocketAddr) -> election::Settings {
    let address = settings.hub_address.clone().unwrap_or_else(|| format!("https://{hub}"));
    let lead = election::Settings::new(&settings.namespace, &settings.identity, address);
    election::Settings { lease: settings.lease, ..lead }
}
