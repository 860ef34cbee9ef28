//! The scheduler at work: live state in, bindings out.
//!
//! ```text
//!   API ──watch──▶ watched ──▶ cluster_events ──▶ scheduler_loop: cluster, cycle ──▶ bind, evict, reserve ──▶ API
//!   hub ──────────▶ agents ─────────┘                  │    ▲                                  │
//!                                  pods without a group ──▶ grouper                            └── results
//! ```
//!
//! What decides is in `muster-scheduler-state` and `muster-scheduler`; here is what reads and writes. Only a leader watches: its
//! first listing is read after the lease was won, so that it shows all that the leader before has written.

pub mod admission;
pub mod agents;
pub mod bind;
pub mod bootstrap;
pub mod cluster_events;
pub mod evict;
pub mod fault;
pub mod grouper;
pub mod health;
pub mod intake;
pub mod kinds;
pub mod live;
pub mod metrics;
pub mod names;
mod pods;
pub mod reserve;
pub mod scheduler_loop;
pub mod status_view;
pub mod status_writer;
pub mod transitions;
pub mod usage;
pub mod watched;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_scheduler_state::live::{DEFAULT_SHARD, Live, Source};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use muster_hub::Hub;
use muster_program::heartbeat::Heartbeats;
use muster_runtime::events::Events;
use muster_runtime::reflector::Watch;
use muster_runtime::writer::Writer;
use muster_runtime::{Environment, ReconcileMetrics};

pub use fault::FaultPolicy;
pub use metrics::Metrics;
use scheduler_loop::SchedulerLoop;
pub use status_view::StatusView;

/// How the scheduler works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose pods, with which actions, plugins and patience.
    pub cluster: muster_scheduler_state::Settings,
    /// How pods become gangs.
    pub grouping: muster_podgrouper::Config,
    /// A change is waited on for so long: others may follow.
    pub debounce: Duration,
    /// Cycles begin at least so far apart.
    pub shortest: Duration,
    /// And at most so far.
    pub period: Duration,
    /// Writes at once.
    pub writes: usize,
    /// Whether pods are evicted, so that disruption budgets count, or deleted, as KAI does it.
    pub eviction: Eviction,
    /// What the pods run that hold devices for those who share them.
    pub reservation: reserve::Reservation,
    /// Where `cluster.config` is from.
    pub source: Source,
    /// The `SchedulingShard` that is obeyed while it is there. Empty: none is.
    pub shard: String,
}

/// How pods go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Eviction {
    /// By the eviction subresource: disruption budgets count
    #[default]
    Evict,
    /// Deleted, as KAI does it
    Delete,
}

/// The definitions of kinds that the cluster may not know.
#[derive(Clone)]
pub struct Definitions {
    /// Queues.
    pub queues: Watch<CustomResourceDefinition>,
    /// Pod groups of the KAI dialect.
    pub pod_groups: Watch<CustomResourceDefinition>,
    /// Bind requests.
    pub bind_requests: Watch<CustomResourceDefinition>,
    /// Topologies.
    pub topologies: Watch<CustomResourceDefinition>,
    /// Pod groups of the coscheduling dialect.
    pub coscheduling: Watch<CustomResourceDefinition>,
    /// Pod groups of Volcano.
    pub volcano: Watch<CustomResourceDefinition>,
    /// What nodes have in each NUMA zone.
    pub zones: Watch<CustomResourceDefinition>,
}

/// What the scheduler reads.
#[derive(Clone)]
pub struct Caches {
    /// Which kinds there are.
    pub definitions: Definitions,
    /// Configuration that changes.
    pub live: live::Objects,
    /// The agents.
    pub hub: Hub,
    /// Credentials of others.
    pub secrets: usage::Secrets,
}

/// What the scheduler writes to.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub writer: Writer,
    /// What happens to objects.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// What is counted about grouping.
    pub grouping: grouper::Metrics,
    /// What is counted about reconciles.
    pub reconciles: ReconcileMetrics,
    /// What can be asked.
    pub shown: StatusView,
    /// Knows whether loops are alive.
    pub heartbeats: Heartbeats,
}

/// Schedules until stopped, or until the lease is over.
pub async fn run(settings: Settings, sources: Caches, context: Context, stop: CancellationToken) {
    // Without queues there is nothing to place, and nothing is looked at.
    tokio::select! {
        () = stop.cancelled() => return,
        () = cluster_events::served(&sources.definitions.queues, "v2") => {}
    }
    let watching = stop.child_token();
    let _ended = watching.clone().drop_guard();
    let events = cluster_events::ClusterEvents::start(&context.writer, &sources, &watching);
    let live = Live::new(settings.cluster.config.clone(), settings.source.clone(), &settings.shard)
        .for_schedulers(settings.cluster.scheduler_names.clone());
    let (tell, in_force) = watch::channel(None);
    let writer = context.writer.clone();
    let (remember, past) = watch::channel(usage::Past::default());
    let metrics = context.metrics.clone();
    tokio::spawn(usage::follow(
        in_force.clone(),
        sources.secrets,
        remember,
        metrics,
        watching.clone(),
    ));
    let followed = live::Followed { objects: sources.live, past: past.clone() };
    tokio::spawn(live::follow(live, followed, writer, tell, watching.clone()));
    let grouper = grouper::Grouper::new(
        context.writer.clone(),
        context.events.clone(),
        settings.grouping.clone(),
        context.grouping.clone(),
    );
    let (tell, grouped) = mpsc::unbounded_channel();
    let reconciles = context.reconciles.clone();
    let environment = Environment::of(context.heartbeats.clone());
    let counted = (environment, reconciles);
    let grouping = grouper::controller::run(grouper.clone(), tell, counted, watching.clone());
    let grouping = tokio::spawn(grouping);
    let (live, grouped) = ((in_force, past), (grouper, grouped));
    SchedulerLoop::new(settings, context, sources.hub, live, grouped).run(events, stop).await;
    watching.cancel();
    let _ended = grouping.await;
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster: muster_scheduler_state::Settings::default(),
            grouping: muster_podgrouper::Config::default(),
            debounce: Duration::from_millis(10),
            shortest: Duration::from_millis(100),
            period: Duration::from_secs(1),
            writes: 32,
            eviction: Eviction::default(),
            reservation: reserve::Reservation::default(),
            source: Source::Defaults,
            shard: DEFAULT_SHARD.to_owned(),
        }
    }
}
