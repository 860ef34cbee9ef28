//! The scheduler at work: live state in, bindings out.
//!
//! ```text
//!   API ──watch──▶ seen ──▶ feed ──▶ desk: cluster, cycle ──▶ bind, evict, reserve ──▶ API
//!   hub ────────▶ agents ────┘
//!                                      │    ▲                     │
//!                            pods without a group ──▶ grouper     └── outcomes
//! ```
//!
//! What decides is in `muster-scheduler-state` and `muster-scheduler`; here is what reads and writes. Only a leader watches: its
//! first listing is read after the lease was won, so that it shows all that the leader before has written.

pub mod agents;
pub mod bind;
pub mod bootstrap;
pub mod desk;
pub mod evict;
pub mod fault;
pub mod feed;
pub mod grouper;
pub mod health;
pub mod intake;
pub mod kinds;
pub mod live;
pub mod metrics;
pub mod notes;
mod pods;
pub mod reserve;
pub mod seen;
pub mod shown;
pub mod transitions;
pub mod usage;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_scheduler_state::live::{DEFAULT_SHARD, Live, Source};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::events::Events;
use crate::watch::Watch;
use crate::write::Writer;
use muster_hub::Hub;

pub use fault::FaultPolicy;
pub use metrics::Metrics;
pub use shown::Shown;

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
pub struct Sources {
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
pub struct Outlets {
    /// The API.
    pub writer: Writer,
    /// What happens to objects.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// What is counted about grouping.
    pub grouping: grouper::Metrics,
    /// What can be asked.
    pub shown: Shown,
}

/// Schedules until stopped, or until the lease is over.
pub async fn run(settings: Settings, sources: Sources, outlets: Outlets, stop: CancellationToken) {
    // Without queues there is nothing to place, and nothing is looked at.
    tokio::select! {
        () = stop.cancelled() => return,
        () = feed::served(&sources.definitions.queues, "v2") => {}
    }
    let watching = stop.child_token();
    let _ended = watching.clone().drop_guard();
    let feed = feed::Feed::start(&outlets.writer, &sources, &settings, &watching);
    let live = Live::new(settings.cluster.config.clone(), settings.source.clone(), &settings.shard)
        .for_schedulers(settings.cluster.scheduler_names.clone());
    let (tell, in_force) = watch::channel(None);
    let writer = outlets.writer.clone();
    let (remember, past) = watch::channel(usage::Past::default());
    let metrics = outlets.metrics.clone();
    tokio::spawn(usage::follow(
        in_force.clone(),
        sources.secrets,
        remember,
        metrics,
        watching.clone(),
    ));
    let followed = live::Followed { objects: sources.live, past: past.clone() };
    tokio::spawn(live::follow(live, followed, writer, tell, watching));
    desk::Desk::new(settings, outlets, sources.hub, (in_force, past)).run(feed, stop).await;
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
