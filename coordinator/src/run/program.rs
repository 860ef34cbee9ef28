//! The program around a coordinator: settings, signals, the end.

use std::time::Duration;

use anyhow::Context;
use muster_program::log::LogLevel;
use muster_program::parts::Signals;
use muster_ranktable::inject::{self, Injection};

use super::{Coordinator, Settings};
use crate::args::{Args, Delivery};
use crate::certs::Names;
use crate::controllers::ranktable::{self, Patience};
use crate::{hub, lead};

/// Name of the Service that agents and the API server call.
const SERVICE: &str = "muster-coordinator";

/// Runs until SIGTERM or Ctrl-C, or until a part fails.
pub fn main(args: Args) -> anyhow::Result<()> {
    let log = LogLevel::start(&args.log, args.log_format)?;
    let settings = settings(args)?;
    // Both kube and tonic take whatever is installed.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(settings, log));
    runtime.shutdown_timeout(Duration::from_millis(500));
    ended
}

async fn serve(settings: Settings, log: LogLevel) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let config = kube::Config::infer().await;
    let config = config.context("no Kubernetes API: run in a pod, or set KUBECONFIG")?;
    let client = kube::Client::try_from(config).context("the Kubernetes API's settings")?;
    let identity = settings.identity.clone();
    let mut coordinator = Coordinator::start(settings, client, log).await?;
    let addresses = coordinator.addresses();
    tracing::info!(
        identity,
        hub = %addresses.hub,
        webhooks = %addresses.webhooks,
        status = %addresses.status,
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    tokio::select! {
        () = signals.told() => {}
        error = coordinator.failed() => {
            coordinator.stop().await;
            return Err(error);
        }
    }
    coordinator.stop().await;
    tracing::info!("stopped");
    Ok(())
}

fn settings(args: Args) -> anyhow::Result<Settings> {
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
    Ok(Settings {
        identity: lead::identity(&args.identity),
        lease: args.lease,
        hub: args.hub,
        hub_address,
        streams: hub::Settings::default(),
        webhooks: args.webhooks,
        listen: args.listen,
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
        ranktable: ranktable::Settings {
            truth: args.device_truth,
            patience: Patience { failed: args.ranktable_timeout, ..Patience::default() },
        },
    })
}
