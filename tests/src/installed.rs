//! `muster-world`: Muster as it is installed, on the sandbox.
//!
//! ```text
//!   this process                                      processes of their own
//!   sandbox (API, controllers, nodes) ◀── TLS, RBAC ── muster-coordinator …  muster-agent (one per node)
//!       │ webhooks                                            ▲                    │
//!       └──▶ Service muster-coordinator ──────────────────────┴──── hub ◀──────────┘
//! ```
//!
//! [`World`](crate::World) runs the same parts inside a test and reaches into them. Here nothing is reached into: the manifests
//! of `deploy/` are applied as they are, and the programs get flags, kubeconfigs and tokens as on a cluster.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use muster_sandbox::control::Which;
use muster_sandbox::kubelet::{KubeletOptions, NodeSpec};
use muster_sandbox::{Sandbox, write_private};
use muster_serving::webhook::configure::Configuration;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

mod apply;
mod args;
mod command;
mod program;

pub use args::Args;

use crate::world::service::Service;
use crate::world::{Seen, until};
use args::Deleted;
use program::{Order, Program};

/// Where Muster is installed.
const NAMESPACE: &str = "muster-system";
/// Service account and Service of the coordinators.
const COORDINATOR: &str = "muster-coordinator";
/// Service account of the agents.
const AGENT: &str = "muster-agent";
/// Tokens outlive any use of this program.
const TOKEN_SECONDS: u32 = 30 * 24 * 3600;
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that runs.
struct Installed {
    args: Args,
    sandbox: Sandbox,
    client: Client,
    folder: tempfile::TempDir,
    logs: PathBuf,
    programs: PathBuf,
    hubs: Service,
    webhooks: Service,
    di_servers: Service,
    coordinators: Vec<Program>,
    agents: Vec<Program>,
}

/// Starts everything, says where it is, and stays until it is told to stop.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log)
        .with_context(|| format!("--log {:?} is not a filter: try \"info\"", args.log))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let stdin = args.stop_with_stdin;
    let mut installed = Installed::begin(args).await?;
    let stopped = async {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.context("Ctrl-C"),
            _ = terminated.recv() => Ok(()),
            _ = hung_up.recv() => Ok(()),
            ended = end_of_stdin(), if stdin => ended,
        }
    };
    let outcome = tokio::select! {
        stopped = stopped => stopped,
        failed = installed.serve() => failed,
    };
    let crashes = installed.end().await;
    outcome?;
    ensure!(crashes == 0, "programs ended {crashes} times by themselves; see their logs");
    Ok(())
}

/// A thread reads it, which the end of the program does not wait for.
async fn end_of_stdin() -> anyhow::Result<()> {
    let (done, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        done.send(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
    });
    ended.await?.map(drop).context("the standard input")
}

// === impl Installed ===

impl Installed {
    async fn begin(args: Args) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("muster-").tempdir()?;
        let logs = args.logs.clone().unwrap_or_else(|| folder.path().join("logs"));
        std::fs::create_dir_all(&logs).with_context(|| format!("--logs {}", logs.display()))?;
        let beside = std::env::current_exe()?.parent().map(Path::to_owned);
        let programs = args.programs.clone().or(beside).context("--programs is needed")?;
        let (hubs, webhooks) = (Service::start().await?, Service::start().await?);
        let di_servers = Service::start().await?;
        let mut which = Which { schedulers: args.schedulers.clone(), ..Which::default() };
        args.without.iter().for_each(|controller| controller.leave_out(&mut which));
        let kubelet = KubeletOptions {
            containers: command::containers(),
            allow_exec: true,
            sync: Duration::ZERO,
            missing_images: args.missing_images.iter().collect(),
            ..KubeletOptions::default()
        };
        let sandbox = Sandbox::builder()
            .strict(true)
            .tls(true)
            .port(args.port)
            .controllers(Some(which))
            .service(NAMESPACE, COORDINATOR, 443, webhooks.address())
            .kubelet(kubelet)
            .nodes(nodes(&args, folder.path()))
            .start()
            .await
            .context("the sandbox does not start")?;
        let client = sandbox.client();
        Ok(Self {
            args,
            sandbox,
            client,
            folder,
            logs,
            programs,
            hubs,
            webhooks,
            di_servers,
            coordinators: Vec::new(),
            agents: Vec::new(),
        })
    }

    /// Installs and starts everything, says that it is ready, and goes on for ever.
    async fn serve(&mut self) -> anyhow::Result<()> {
        self.install().await.context("the manifests")?;
        for path in &self.args.apply_first {
            apply::apply(&self.client, path, &[]).await?;
        }
        self.start_coordinators().await.context("the coordinators")?;
        self.install_webhooks().await.context("the webhooks")?;
        if !self.args.no_agents {
            self.start_agents().await.context("the agents")?;
        }
        if self.args.runtimes {
            self.deploy("trainer").await?;
            self.deploy("runtimes").await?;
        }
        for path in &self.args.apply {
            apply::apply(&self.client, path, &[]).await?;
        }
        self.announce()?;
        match &self.args.killed_with {
            Some(pods) => self.kill_with(pods).await,
            None => std::future::pending().await,
        }
    }

    /// Applies a file or directory of `deploy/`.
    async fn deploy(&self, path: &str) -> anyhow::Result<()> {
        apply::apply(&self.client, &self.args.deploy.join(path), &self.args.skipped).await
    }

    async fn install(&self) -> anyhow::Result<()> {
        for name in [NAMESPACE, muster_ranktable::NAMESPACE] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply::object(&self.client, namespace).await?;
        }
        for path in ["coordinator/rbac.yaml", "agent", "crds", "templates"] {
            self.deploy(path).await?;
        }
        self.deploy("coordinator/scheduler-defaults.yaml").await
    }

    async fn start_coordinators(&mut self) -> anyhow::Result<()> {
        let token = self.token(COORDINATOR, json!({})).await?;
        let kubeconfig = self.kubeconfig(COORDINATOR, &token)?;
        // The same ports for all, as in pods: each has an address of its own.
        let [hub, webhooks, page, di_server, progress] = free_ports()?;
        let addresses: Vec<IpAddr> = (0..self.args.coordinators)
            .map(|number| IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + number)))
            .collect();
        for (number, ip) in addresses.iter().enumerate() {
            let at = |port: u16| SocketAddr::new(*ip, port);
            let mut flags = vec![
                format!("--hub={}", at(hub)),
                format!("--hub-address=https://{}", at(hub)),
                format!("--webhooks={}", at(webhooks)),
                format!("--listen={}", at(page)),
                format!("--di-server={}", at(di_server)),
                format!("--di-server-url={}", self.di_servers.address()),
                format!("--progress-server={}", at(progress)),
                "--certificate-name=127.0.0.1".to_owned(),
            ];
            flags.extend(addresses.iter().map(|ip| format!("--certificate-name={ip}")));
            flags.extend(self.args.coordinator_flags.iter().cloned());
            let name = format!("{COORDINATOR}-{number}");
            let order = self.order(name, COORDINATOR, flags, kubeconfig.clone(), at(page));
            self.coordinators.push(Program::start(order)?);
            self.hubs.add(at(hub));
            self.webhooks.add(at(webhooks));
            self.di_servers.add(at(di_server));
        }
        for coordinator in &self.coordinators {
            coordinator.ready().await?;
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let authority = until("the coordinators' CA", PATIENCE, async || {
            let map = maps.get_opt("muster-coordinator-ca").await?;
            let text = map.and_then(|map| map.data).and_then(|mut data| data.remove("ca.crt"));
            Ok(text.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
        });
        std::fs::write(self.folder.path().join("ca.crt"), authority.await?)?;
        Ok(())
    }

    /// Applies the configurations, and waits until the API server can call what they name.
    async fn install_webhooks(&self) -> anyhow::Result<()> {
        for file in ["webhook.yaml", "webhook-dijob.yaml", "webhook-scheduler.yaml"] {
            self.deploy(&format!("coordinator/{file}")).await?;
        }
        self.until_trusted::<MutatingWebhookConfiguration>().await?;
        self.until_trusted::<ValidatingWebhookConfiguration>().await
    }

    async fn until_trusted<K: Configuration>(&self) -> anyhow::Result<()> {
        let api: Api<K> = Api::all(self.client.clone());
        until("the CA in the webhook configurations", PATIENCE, async || {
            let all = api.list(&ListParams::default()).await?;
            let ours = |one: &&K| {
                one.meta().name.as_deref().is_some_and(|name| name.starts_with(COORDINATOR))
            };
            let trusted = |one: &K| {
                one.clients().iter().all(|client| {
                    client.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty())
                })
            };
            let filled = all.items.iter().filter(ours).all(trusted);
            Ok(if filled { Seen::Yes(()) } else { Seen::NotYet("none".to_owned()) })
        })
        .await
    }

    async fn start_agents(&mut self) -> anyhow::Result<()> {
        for spec in nodes(&self.args, self.folder.path()) {
            let bound = self.bound_to(&spec.name).await?;
            let kubeconfig =
                self.kubeconfig(&spec.name, &self.token(AGENT, bound.clone()).await?)?;
            let mut hub = bound;
            hub["audiences"] = json!([muster_agent::names::AUDIENCE]);
            let token_file = self.folder.path().join(format!("{}.token", spec.name));
            write_private(&token_file, &self.token(AGENT, hub).await?)?;
            let [port] = free_ports()?;
            let page = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            let state = self.folder.path().join(format!("{}.state", spec.name));
            let mut flags = vec!["run".to_owned(), format!("--node={}", spec.name)];
            flags.extend([
                format!("--sysroot={}", spec.root.display()),
                format!("--state-dir={}", state.display()),
                format!("--coordinator=https://{}", self.hubs.address()),
                format!("--coordinator-ca={}", self.folder.path().join("ca.crt").display()),
                format!("--token-file={}", token_file.display()),
                format!("--listen={page}"),
            ]);
            flags.extend(self.args.agent_flags.iter().cloned());
            let order =
                self.order(format!("{AGENT}-{}", spec.name), AGENT, flags, kubeconfig, page);
            self.agents.push(Program::start(order)?);
        }
        for agent in &self.agents {
            agent.ready().await?;
        }
        Ok(())
    }

    fn order(
        &self,
        name: String,
        program: &str,
        flags: Vec<String>,
        kubeconfig: PathBuf,
        page: SocketAddr,
    ) -> Order {
        Order {
            log: self.logs.join(format!("{name}.log")),
            name,
            program: self.programs.join(program),
            flags: flags.into_iter().map(OsString::from).collect(),
            kubeconfig,
            page,
        }
    }

    async fn bound_to(&self, node: &str) -> anyhow::Result<Value> {
        let uid = Api::<Node>::all(self.client.clone()).get(node).await?.metadata.uid;
        Ok(
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}}),
        )
    }

    async fn token(&self, account: &str, mut spec: Value) -> anyhow::Result<String> {
        spec["expirationSeconds"] = json!(TOKEN_SECONDS);
        if spec["audiences"].is_null() {
            spec["audiences"] = json!([]);
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let request: TokenRequest = serde_json::from_value(json!({"metadata": {}, "spec": spec}))?;
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    fn kubeconfig(&self, name: &str, token: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder.path().join(format!("{name}.kubeconfig"));
        write_private(&file, &self.sandbox.kubeconfig(token))?;
        Ok(file)
    }

    fn announce(&self) -> anyhow::Result<()> {
        let path = self.sandbox.kubeconfig_path();
        if let Some(copy) = &self.args.kubeconfig {
            write_private(copy, &std::fs::read_to_string(&path)?)
                .with_context(|| format!("--kubeconfig {}", copy.display()))?;
        }
        let shown = self.args.kubeconfig.as_ref().unwrap_or(&path);
        println!("serving     {}", self.sandbox.url());
        println!("kubeconfig  {}", shown.display());
        println!("logs        {}", self.logs.display());
        println!("ready");
        if let Some(file) = &self.args.ready_file {
            std::fs::write(file, "ready\n")
                .with_context(|| format!("--ready-file {}", file.display()))?;
        }
        Ok(())
    }

    /// Kills all coordinators whenever one of these pods is deleted.
    async fn kill_with(&self, pods: &Deleted) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pods.namespace);
        let which = watcher::Config::default().labels(&pods.label);
        let mut events = watcher(api, which).boxed();
        loop {
            // The watcher begins again by itself after an error.
            match events.try_next().await {
                Ok(Some(Event::Delete(_))) => self.coordinators.iter().for_each(Program::kill),
                Ok(Some(_)) => {}
                Ok(None) => anyhow::bail!("the watch of pods {} has ended", pods.label),
                Err(error) => tracing::debug!("pods {}: {error}", pods.label),
            }
        }
    }

    /// Ends everything; how often programs had ended by themselves.
    async fn end(self) -> usize {
        let programs: Vec<Program> = self.agents.into_iter().chain(self.coordinators).collect();
        let crashes = programs.iter().map(Program::crashes).sum();
        futures::future::join_all(programs.into_iter().map(Program::stop)).await;
        self.sandbox.stop().await;
        crashes
    }
}

/// The nodes that are asked for, each with its files below a folder of its own.
fn nodes(args: &Args, folder: &Path) -> Vec<NodeSpec> {
    let mut specs: Vec<NodeSpec> = Vec::new();
    for group in &args.nodes {
        let before = specs.iter().filter(|spec| spec.profile == group.profile).count();
        for number in (before..).take(group.count as usize) {
            let name = format!("{}-{number}", group.profile.name());
            let root = folder.join(&name);
            specs.push(NodeSpec::new(&name, group.profile, specs.len() as u32, root));
        }
    }
    specs
}

/// Ports that nobody uses on the loopback addresses of coordinators.
fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut held = Vec::new();
    for _ in 0..N {
        held.push(TcpListener::bind(("127.0.0.2", 0)).context("a free port")?);
    }
    let ports =
        held.iter().map(|one| Ok(one.local_addr()?.port())).collect::<anyhow::Result<Vec<_>>>()?;
    ports.try_into().map_err(|_| anyhow::anyhow!("no free ports"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn nodes_of_a_profile_are_counted_on_and_each_has_an_index_of_its_own() {
        let args = ["muster-world", "--node=cpu", "--node=nvidia-h100-8", "--node=cpu=2"];
        let specs = nodes(&Args::try_parse_from(args).unwrap(), Path::new("/x"));
        let named: Vec<(&str, u32)> =
            specs.iter().map(|spec| (spec.name.as_str(), spec.index)).collect();
        assert_eq!(named, [("cpu-0", 0), ("nvidia-h100-8-0", 1), ("cpu-1", 2), ("cpu-2", 3)]);
    }
}
