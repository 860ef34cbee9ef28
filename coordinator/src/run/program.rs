//! The program around a coordinator: settings, signals, the end.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::SignedDuration;
use muster_dijob::make;
use muster_pipeline::in_use::HoldRule;
use muster_program::api_server;
use muster_program::log::LogLevel;
use muster_program::run::{self, Running};
use muster_ranktable::inject::{self, Injection};
use muster_scheduler::config;
use muster_scheduler_state::fault::Care;
use muster_scheduler_state::live::Source;

use super::{Coordinator, Settings};
use crate::args::{Admission, Args, DdpPortMode, Delivery, RuntimeFinalizer};
use crate::names::SERVICE;
use crate::ranktables::{self, Timeouts};
use crate::workloads::dijob;
use crate::workloads::dijob::server as diserver;
use muster_runtime::election as lead;
use muster_scheduling::admission::Rules;
use muster_scheduling::reserve::Reservation;
use muster_serving::certs::Names;

/// How long threads may take after all parts have ended.
const GRACE: Duration = Duration::from_millis(500);

/// Runs until SIGTERM or Ctrl-C, or until a part fails.
pub fn main(args: Args) -> anyhow::Result<()> {
    let log = LogLevel::start(&args.log, args.log_format)?;
    let settings = settings(args)?;
    // Both kube and tonic take whatever is installed.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    run::run(runtime, GRACE, start(settings, log))
}

async fn start(settings: Settings, log: LogLevel) -> anyhow::Result<Coordinator> {
    let client = api_server::connect().await?;
    let identity = settings.identity.clone();
    let coordinator = Coordinator::start(settings, client, log).await?;
    let addresses = coordinator.addresses();
    tracing::info!(
        identity,
        hub = %addresses.hub,
        webhooks = %addresses.webhooks,
        status = %addresses.status,
        di_server = %addresses.di_server,
        progress_server = addresses.progress.map(|address| address.to_string()),
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    Ok(coordinator)
}

fn settings(args: Args) -> anyhow::Result<Settings> {
    let progress = args.train_job_status().then_some(args.progress_server);
    let account = args
        .agent_account
        .split_once(':')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let (namespace, name) = account.with_context(|| {
        format!("--agent-account {:?}: it has the form NAMESPACE:NAME", args.agent_account)
    })?;
    let agents = vec![format!("system:serviceaccount:{namespace}:{name}")];
    let hub_address = args.hub_address.or_else(|| {
        let host = args.pod_ip?;
        Some(format!("https://{}", std::net::SocketAddr::new(host, args.hub.port())))
    });
    let delivery = match args.delivery {
        Delivery::Agent => inject::Delivery::Agent,
        Delivery::Configmap => inject::Delivery::ConfigMap,
    };
    let url = args
        .di_server_url
        .unwrap_or_else(|| format!("di-server.{}:{}", args.namespace, args.di_server.port()));
    let (aggregator_namespace, aggregator_name) =
        args.aggregator_config.split_once('/').with_context(|| {
            format!(
                "--aggregator-config {:?}: it has the form NAMESPACE/NAME",
                args.aggregator_config
            )
        })?;
    let make = make::Settings {
        server_url: url,
        aggregator_namespace: aggregator_namespace.to_owned(),
        aggregator_name: aggregator_name.to_owned(),
        gpu: args.gpu_resource_name,
        propagate_priority: args.propagate_priority,
        rank_shifted: args.ddp_port_mode == DdpPortMode::RankShifted,
        most_replicas: i64::from(args.most_replicas),
        most_pods: usize::try_from(args.most_job_pods).unwrap_or(usize::MAX),
    };
    let grace = args.delete_grace_seconds;
    let faults = Care {
        policy: args.fault_policy.into(),
        grace: SignedDuration::try_from(args.fault_grace).context("--fault-grace")?,
        node_grace: SignedDuration::try_from(args.fault_node_grace)
            .context("--fault-node-grace")?,
        cool_down: SignedDuration::try_from(args.fault_cool_down).context("--fault-cool-down")?,
    };
    let placement = scheduling(
        args.scheduler_name,
        args.scheduler_config.as_deref(),
        muster_scheduling::Settings {
            eviction: args.eviction,
            shard: args.scheduler_shard,
            period: args.scheduling_period,
            grouping: muster_podgrouper::Config {
                default_queue: args.default_queue,
                ..muster_podgrouper::Config::default()
            },
            reservation: Reservation {
                image: args.reservation_image,
                command: args
                    .reservation_command
                    .into_iter()
                    .filter(|one| !one.is_empty())
                    .collect(),
            },
            cluster: muster_scheduler_state::Settings {
                faults,
                reservation: muster_scheduler_state::reservation::Settings {
                    namespace: args.reservation_namespace,
                    ..muster_scheduler_state::reservation::Settings::default()
                },
                ..muster_scheduler_state::Settings::default()
            },
            ..muster_scheduling::Settings::default()
        },
    )?;
    let admission = match args.admission {
        Admission::Strict => Rules::default(),
        Admission::Kai => Rules::of_kai(),
    };
    let block_visible_devices = args.block_nvidia_visible_devices;
    let admission = Rules { block_visible_devices, ..admission };
    let runtime_holds = match args.runtime_finalizer {
        RuntimeFinalizer::Referenced => HoldRule::Referenced,
        RuntimeFinalizer::Unfinished => HoldRule::Unfinished,
        RuntimeFinalizer::Off => HoldRule::Off,
    };
    Ok(Settings {
        admission,
        plugins: muster_pipeline::Registry::standard(),
        runtime_holds,
        default_scheduler: Some(args.default_scheduler).filter(|name| !name.is_empty()),
        leader_worker_sets: args.leader_worker_sets,
        dijob: dijob::Settings { make, grace, ..dijob::Settings::default() },
        placement,
        diserver: diserver::Settings {
            listen: args.di_server,
            trust: args.di_server_trust.into(),
            ..diserver::Settings::default()
        },
        identity: lead::identity(&args.identity),
        lease: args.lease,
        takeover_margin: args.takeover_margin,
        hub: args.hub,
        hub_address,
        streams: muster_hub::Settings {
            most_connections_per_source: args.hub_connections_per_source,
            ..muster_hub::Settings::default()
        },
        webhooks: args.webhooks,
        webhook_client_ca: args.webhook_client_ca,
        listen: args.listen,
        progress,
        names: Names::of_service(SERVICE, &args.namespace, args.certificate_names),
        namespace: args.namespace,
        agents,
        template_namespace: args.template_namespace,
        injection: Injection {
            delivery,
            agent_image: args.agent_image,
            busybox_image: args.busybox_image,
            wait_timeout: None,
        },
        ranktable: ranktables::Settings {
            devices: args.device_truth,
            timeouts: Timeouts { failed: args.ranktable_timeout, ..Timeouts::default() },
        },
    })
}

/// The scheduler's names and configuration, in what is known of it.
fn scheduling(
    names: Vec<String>,
    file: Option<&Path>,
    mut settings: muster_scheduling::Settings,
) -> anyhow::Result<muster_scheduling::Settings> {
    let name = names.first().context("--scheduler-name: name at least one")?.clone();
    let cluster = &mut settings.cluster;
    if let Some(file) = file {
        settings.source = Source::File(file.display().to_string());
        let flag = || format!("--scheduler-config {}", file.display());
        let text = std::fs::read_to_string(file).with_context(flag)?;
        let is_shard =
            text.lines().any(|line| line.trim_start_matches(['{', ' ', '"']).starts_with("kind"));
        let read = if is_shard { config::shard } else { config::parse };
        cluster.config = read(&text, &[]).with_context(flag)?;
        for note in &cluster.config.notes {
            tracing::warn!(reason = "scheduler-config", "{note}");
        }
    }
    cluster.config.params.scheduler_name = name;
    cluster.config.params.groups_by_namespace = true;
    cluster.config.params.ignore_impossible_groups = true;
    cluster.scheduler_names = names.clone();
    settings.grouping.scheduler_names = names;
    Ok(settings)
}

// === impl Coordinator ===

impl Running for Coordinator {
    async fn failed(&mut self) -> anyhow::Error {
        Self::failed(self).await
    }

    async fn stop(self) {
        Self::stop(self).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use muster_dijob::server::trust::Trust;

    use super::*;

    #[test]
    fn leader_worker_sets_are_left_to_their_operator_unless_a_flag_says_otherwise() {
        let read = |words: &[&str]| {
            let words = ["muster-coordinator"].iter().chain(words);
            settings(Args::try_parse_from(words).unwrap()).unwrap().leader_worker_sets
        };
        assert!(!read(&[]));
        assert!(!read(&["--leader-worker-sets=false"]));
        assert!(read(&["--leader-worker-sets"]));
        assert!(read(&["--leader-worker-sets=true"]));
    }

    #[test]
    fn flags_of_the_doors_reach_their_listeners() {
        let read = |words: &[&str]| {
            let words = ["muster-coordinator"].iter().chain(words);
            settings(Args::try_parse_from(words).unwrap()).unwrap()
        };
        let of = |settings: &Settings| {
            let streams = settings.streams.most_connections_per_source;
            (settings.takeover_margin.as_millis(), streams, settings.webhook_client_ca.clone())
        };
        let plain = read(&[]);
        assert_eq!(of(&plain), (500, 8192, None));
        assert_eq!(plain.diserver.trust, Trust::PodsAndTokens);
        assert_eq!(plain.dijob.make.most_pods, 10_000);
        let told = read(&[
            "--takeover-margin=2s",
            "--hub-connections-per-source=20000",
            "--webhook-client-ca=/ca.crt",
            "--di-server-trust=anyone",
            "--most-job-pods=7",
        ]);
        assert_eq!(of(&told), (2000, 20_000, Some("/ca.crt".into())));
        assert_eq!((told.diserver.trust, told.dijob.make.most_pods), (Trust::Anyone, 7));
    }

    #[test]
    fn flags_of_the_scheduler_reach_placement_and_admission() {
        let read = |words: &[&str]| {
            let words = ["muster-coordinator"].iter().chain(words);
            settings(Args::try_parse_from(words).unwrap()).unwrap()
        };
        let plain = read(&[]);
        assert_eq!(
            (plain.placement.shard.as_str(), &plain.placement.source),
            ("default", &Source::Defaults)
        );
        assert!(!plain.admission.block_visible_devices);
        let told = read(&["--scheduler-shard=pool-a", "--block-nvidia-visible-devices"]);
        assert_eq!(told.placement.shard, "pool-a");
        assert!(told.admission.block_visible_devices);
        assert!(!read(&["--block-nvidia-visible-devices=false"]).admission.block_visible_devices);
        assert_eq!(read(&["--scheduler-shard="]).placement.shard, "", "none is obeyed");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "actions: allocate\n").unwrap();
        let path = file.path().display().to_string();
        let told = read(&["--scheduler-config", &path]).placement;
        assert_eq!((told.source, told.cluster.config.actions.len()), (Source::File(path), 1));
    }
}
