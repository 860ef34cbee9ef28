//! The coordinators of a world: installed as an administrator would, with their own permissions, behind one Service.
//!
//! Each has a runtime of its own, so that one can end as a `kill -9` ends it: nothing is given back, nothing is said.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use muster_coordinator::names::LEASE;
use muster_coordinator::ranktables::{self, Timeouts};
use muster_coordinator::run::{Coordinator, Settings};
use muster_coordinator::workloads::dijob;
use muster_coordinator::workloads::dijob::server::{self, Peers};
use muster_dijob::server::Trust;
use muster_hub::{self as hub, Hub};
use muster_pipeline::in_use::HoldRule;
use muster_program::log::LogLevel;
use muster_ranktable::inject::Injection;
use muster_runtime::election::{self, Leadership};
use muster_scheduling::admission::Rules;
use muster_serving::certs::Names;
use muster_serving::webhook::configure::Configuration;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::agents::NAMESPACE;
use super::service::Service;
use super::{Seen, Wire, World};

const RBAC: &str = include_str!("../../../deploy/coordinator/rbac.yaml");
const LEADER_WORKER_SETS: &str =
    include_str!("../../../deploy/coordinator/leader-worker-sets.yaml");
const WEBHOOKS: [&str; 3] = [
    include_str!("../../../deploy/coordinator/webhook.yaml"),
    include_str!("../../../deploy/coordinator/webhook-dijob.yaml"),
    include_str!("../../../deploy/coordinator/webhook-scheduler.yaml"),
];
/// Names of the webhook configurations.
const CONFIGURATIONS: [&str; 3] =
    [ACCOUNT, "muster-coordinator-dijob", "muster-coordinator-scheduler"];
/// Service account of the coordinators.
const ACCOUNT: &str = "muster-coordinator";
/// Image of the init container; the simulated kubelet runs the agent's own waiter for it.
pub const AGENT_IMAGE: &str = "muster-agent:test";

/// Image of the init container that the seed describes; a loop with the same meaning runs for it.
pub const BUSYBOX: &str = "busybox:latest";

/// The coordinators of a world.
pub struct Coordinators {
    running: Vec<Running>,
    token: String,
    hubs: Service,
    webhooks: Service,
    di_servers: Service,
    peers: Peers,
    folder: PathBuf,
    started: usize,
    /// What new ones get.
    pub settings: Choices,
}

/// What a test may choose.
#[derive(Clone, Debug)]
pub struct Choices {
    /// How long a leader that has died stays the leader.
    pub lease: Duration,
    /// How long a new leader waits before it writes.
    pub takeover_margin: Duration,
    /// How tables are made.
    pub ranktable: ranktables::Settings,
    /// What pods get injected.
    pub injection: Injection,
    /// Streams, limits, times.
    pub streams: hub::Settings,
    /// The longest pause of agents between tries to reach a coordinator.
    pub pause: Option<Duration>,
    /// Whether LeaderWorkerSets become ModelServings.
    pub leader_worker_sets: bool,
    /// How DIJobs are looked after.
    pub dijob: dijob::Settings,
    /// Whose requests the DI server takes.
    pub di_trust: Trust,
    /// Where it listens.
    pub di_server: IpAddr,
    /// Whether trainers report their progress.
    pub reports: bool,
    /// How pods are placed.
    pub placement: muster_scheduling::Settings,
    /// What is refused of queues, PodGroups and pods.
    pub admission: Rules,
    /// The plugins that make objects of TrainJobs.
    pub plugins: muster_pipeline::Registry,
    /// Which TrainJobs keep their runtimes.
    pub runtime_holds: HoldRule,
    /// The scheduler of TrainJobs' pods that name none.
    pub default_scheduler: Option<String>,
}

/// One that runs.
pub struct Running {
    /// Its number, from 0, in the order of their starts.
    pub number: usize,
    /// Who it is in the Lease.
    identity: String,
    coordinator: Coordinator,
    runtime: Runtime,
}

// === impl Choices ===

impl Default for Choices {
    fn default() -> Self {
        let injection = Injection { agent_image: AGENT_IMAGE.to_owned(), ..Injection::default() };
        let timeouts = Timeouts {
            missing: Duration::from_secs(2),
            late: Duration::from_secs(2),
            ..Timeouts::default()
        };
        Self {
            lease: Duration::from_secs(3),
            takeover_margin: Duration::ZERO,
            ranktable: ranktables::Settings { timeouts, ..ranktables::Settings::default() },
            injection,
            streams: hub::Settings::default(),
            pause: None,
            dijob: dijob::Settings {
                patience: Duration::from_secs(2),
                ..dijob::Settings::default()
            },
            leader_worker_sets: false,
            di_trust: Trust::default(),
            di_server: Ipv4Addr::LOCALHOST.into(),
            reports: false,
            placement: muster_scheduling::Settings::default(),
            admission: Rules::default(),
            plugins: muster_pipeline::Registry::standard(),
            runtime_holds: HoldRule::default(),
            default_scheduler: None,
        }
    }
}

// === impl World ===

impl World {
    /// Installs and starts so many coordinators, and waits until one leads and webhooks are answered.
    pub(super) async fn start_coordinators(
        &mut self,
        count: usize,
        settings: Choices,
    ) -> anyhow::Result<()> {
        self.install(&settings).await.context("the coordinators' permissions")?;
        let folder = self.folder().join("hub");
        std::fs::create_dir_all(&folder)?;
        let coordinators = Coordinators {
            running: Vec::new(),
            token: self.account_token(ACCOUNT).await?,
            hubs: Service::start().await?,
            webhooks: Service::start().await?,
            di_servers: Service::start().await?,
            peers: Peers::default(),
            folder,
            started: 0,
            settings,
        };
        self.coordinators = Some(coordinators);
        for _ in 0..count {
            self.add_coordinator().await?;
        }
        self.until("a leader", async || {
            Ok(match self.coordinators()?.leader() {
                Some(_) => Seen::Yes(()),
                None => Seen::NotYet("nobody leads".to_owned()),
            })
        })
        .await?;
        self.write_authority().await?;
        self.install_webhook().await
    }

    async fn install(&self, settings: &Choices) -> anyhow::Result<()> {
        for name in [NAMESPACE, muster_ranktable::NAMESPACE] {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.create_if_missing(object).await?;
        }
        let more = settings.leader_worker_sets.then_some(LEADER_WORKER_SETS);
        for text in [RBAC].into_iter().chain(more) {
            for document in serde_saphyr::from_multiple::<Value>(text)? {
                self.create_if_missing(document).await?;
            }
        }
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        for folder in ["crds", "templates"] {
            for file in std::fs::read_dir(deploy.join(folder))? {
                let text = std::fs::read_to_string(file?.path())?;
                for document in serde_saphyr::from_multiple::<Value>(&text)? {
                    self.create_if_missing(document).await?;
                }
            }
        }
        Ok(())
    }

    /// The webhook configurations as they are shipped, but for where the server is.
    async fn install_webhook(&self) -> anyhow::Result<()> {
        let address = self.coordinators()?.webhooks.address();
        // A world that broke off may have left some that call nobody.
        self.remove_webhook().await;
        let documents: Vec<Vec<Value>> = WEBHOOKS
            .iter()
            .map(|text| serde_saphyr::from_multiple::<Value>(text))
            .collect::<Result<_, _>>()?;
        for mut document in documents.into_iter().flatten() {
            let webhooks = document["webhooks"].as_array_mut().context("no webhooks")?;
            for webhook in webhooks {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
                webhook["clientConfig"] = json!({ "url": format!("https://{address}{path}") });
                if World::is_real() {
                    // Others use that cluster.
                    webhook["namespaceSelector"] =
                        json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace()}});
                }
            }
            self.create_object(document).await?;
        }
        self.until_trusted::<MutatingWebhookConfiguration>().await?;
        self.until_trusted::<ValidatingWebhookConfiguration>().await
    }

    /// Waits until the API server can call the webhooks of a configuration.
    async fn until_trusted<K: Configuration>(&self) -> anyhow::Result<()> {
        let api: Api<K> = Api::all(self.client());
        for name in CONFIGURATIONS {
            self.until("the CA in the webhook configuration", async || {
                let found = api.get(name).await?;
                let filled = found.clients().iter().all(|client| {
                    client.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty())
                });
                Ok(if filled { Seen::Yes(()) } else { Seen::NotYet("none".to_owned()) })
            })
            .await?;
        }
        Ok(())
    }

    /// Takes the webhook configurations away: nobody is asked any more.
    pub async fn remove_webhook(&self) {
        let how = kube::api::DeleteParams::default();
        for name in CONFIGURATIONS {
            let _gone =
                Api::<MutatingWebhookConfiguration>::all(self.client()).delete(name, &how).await;
            let _gone =
                Api::<ValidatingWebhookConfiguration>::all(self.client()).delete(name, &how).await;
        }
    }

    /// Takes away the rights that only a choice of this world needs: worlds after it share the cluster.
    pub(super) async fn remove_further_rights(&self) {
        let chosen = self.coordinators().is_ok_and(|all| all.settings.leader_worker_sets);
        let documents =
            chosen.then(|| serde_saphyr::from_multiple::<Value>(LEADER_WORKER_SETS).ok());
        for document in documents.flatten().into_iter().flatten() {
            let _gone = self.delete_object(&document).await;
        }
    }

    /// What agents trust.
    async fn write_authority(&self) -> anyhow::Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), NAMESPACE);
        let text = self
            .until("the coordinators' CA", async || {
                let map = maps.get_opt("muster-coordinator-ca").await?;
                let text = map.and_then(|map| map.data).and_then(|mut data| data.remove("ca.crt"));
                Ok(text.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
            })
            .await?;
        std::fs::write(self.coordinators()?.folder.join("ca.crt"), text)?;
        Ok(())
    }

    async fn account_token(&self, account: &str) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), NAMESPACE);
        let request: TokenRequest = serde_json::from_value(
            json!({ "metadata": {}, "spec": { "audiences": [], "expirationSeconds": 3600 } }),
        )?;
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    /// Starts one more coordinator; its number.
    pub async fn add_coordinator(&mut self) -> anyhow::Result<usize> {
        self.add_coordinator_with(|client| client).await
    }

    /// The same with a client that does something of its own.
    pub async fn add_coordinator_with(
        &mut self,
        wrap: impl FnOnce(Client) -> Client,
    ) -> anyhow::Result<usize> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let token = self.coordinators()?.token.clone();
        let client = {
            let _inside = runtime.enter();
            wrap(self.client_as(&token)?)
        };
        let coordinators =
            self.coordinators.as_mut().context("this world was planned without coordinators")?;
        let settings = coordinators.settings();
        let identity = settings.identity.clone();
        let number = coordinators.started;
        coordinators.started += 1;
        let started = runtime.spawn(Coordinator::start(settings, client, LogLevel::fixed())).await;
        let coordinator = match started.context("a coordinator")? {
            Ok(coordinator) => coordinator,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let addresses = coordinator.addresses();
        coordinators.hubs.add(addresses.hub);
        coordinators.webhooks.add(addresses.webhooks);
        coordinators.di_servers.add(addresses.di_server);
        coordinators.peers.add(&format!("https://{}", addresses.hub), addresses.di_server);
        coordinators.running.push(Running { number, identity, coordinator, runtime });
        Ok(number)
    }

    /// Puts a wire between the API server and the only coordinator; its number, when it leads.
    pub async fn wired_coordinator(&mut self) -> anyhow::Result<(usize, Wire)> {
        let wire = Wire::new();
        let number = self.add_coordinator_with(|client| wire.client(client)).await?;
        self.coordinators_mut()?.end(0).await?;
        self.until_leads(number).await?;
        Ok((number, wire))
    }

    /// Waits until this coordinator leads.
    pub async fn until_leads(&self, number: usize) -> anyhow::Result<()> {
        self.until(&format!("coordinator {number} leads"), async || {
            let leader = self.coordinators()?.leader().map(|leader| leader.number);
            Ok(match leader == Some(number) {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("{leader:?} leads")),
            })
        })
        .await
    }

    /// The coordinators of the world.
    pub fn coordinators(&self) -> anyhow::Result<&Coordinators> {
        self.coordinators.as_ref().context("this world was planned without coordinators")
    }

    /// The same, to end some.
    pub fn coordinators_mut(&mut self) -> anyhow::Result<&mut Coordinators> {
        self.coordinators.as_mut().context("this world was planned without coordinators")
    }

    /// Ends one as `kill -9` would, and lets others lead at once, if it led: as if its lease had run out. A test that waits for that
    /// must choose a lease so short that leaders lose it on a busy machine, one after the other.
    pub async fn kill_for_good(&mut self, number: usize) -> anyhow::Result<()> {
        let identity = self.coordinators_mut()?.kill(number)?;
        let leases: Api<Lease> = Api::namespaced(self.client(), NAMESPACE);
        while let Some(lease) = leases.get_opt(LEASE).await? {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
            if holder != Some(&identity) {
                break;
            }
            let free = election::record::released(&lease);
            match leases.replace(LEASE, &PostParams::default(), &free).await {
                Err(kube::Error::Api(refused)) if refused.code == 409 => {}
                written => return written.map(drop).context("the Lease of one that is dead"),
            }
        }
        Ok(())
    }

    /// The hub of the leader.
    pub fn hub(&self) -> anyhow::Result<Hub> {
        let leader = self.coordinators()?.leader().context("no coordinator leads")?;
        Ok(leader.coordinator().hub().clone())
    }
}

// === impl Coordinators ===

impl Coordinators {
    fn settings(&self) -> Settings {
        let Choices {
            lease,
            takeover_margin,
            ranktable,
            injection,
            streams,
            pause: _,
            leader_worker_sets,
            mut dijob,
            di_trust,
            di_server,
            reports,
            placement,
            admission,
            plugins,
            runtime_holds,
            default_scheduler,
        } = self.settings.clone();
        dijob.make.server_url = self.di_servers.address().to_string();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Settings {
            namespace: NAMESPACE.to_owned(),
            identity: election::identity(ACCOUNT),
            lease,
            takeover_margin,
            hub: anywhere,
            hub_address: None,
            streams,
            webhooks: anywhere,
            webhook_client_ca: None,
            listen: anywhere,
            progress: reports.then_some(anywhere),
            names: Names::of_service(ACCOUNT, NAMESPACE, ["localhost", "127.0.0.1"]),
            agents: vec![format!("system:serviceaccount:{NAMESPACE}:{}", super::agents::ACCOUNT)],
            template_namespace: muster_ranktable::NAMESPACE.to_owned(),
            injection,
            ranktable,
            leader_worker_sets,
            dijob,
            placement,
            admission,
            plugins,
            runtime_holds,
            default_scheduler,
            diserver: server::Settings {
                listen: SocketAddr::new(di_server, 0),
                trust: di_trust,
                peers: self.peers.clone(),
                ..server::Settings::default()
            },
        }
    }

    /// Where coordinators of DIJobs call: any of the coordinators answers.
    pub fn di_server(&self) -> SocketAddr {
        self.di_servers.address()
    }

    /// Those that run.
    pub fn iter(&self) -> impl Iterator<Item = &Running> {
        self.running.iter()
    }

    /// The one that leads.
    pub fn leader(&self) -> Option<&Running> {
        self.running.iter().find(|running| running.leads())
    }

    /// Where agents call.
    pub fn address(&self) -> String {
        format!("https://{}", self.hubs.address())
    }

    /// Ends one as `kill -9` would; who it was in the Lease.
    pub fn kill(&mut self, number: usize) -> anyhow::Result<String> {
        let Running { identity, coordinator, runtime, .. } = self.take(number)?;
        runtime.shutdown_background();
        drop(coordinator);
        Ok(identity)
    }

    /// Ends one as SIGTERM would.
    pub async fn end(&mut self, number: usize) -> anyhow::Result<()> {
        let Running { coordinator, runtime, .. } = self.take(number)?;
        let ended = runtime.spawn(coordinator.stop()).await;
        runtime.shutdown_background();
        ended.context("a coordinator's end")
    }

    fn take(&mut self, number: usize) -> anyhow::Result<Running> {
        let at = self.running.iter().position(|running| running.number == number);
        let running = self.running.remove(at.with_context(|| format!("no coordinator {number}"))?);
        let addresses = running.coordinator.addresses();
        self.hubs.remove(addresses.hub);
        self.webhooks.remove(addresses.webhooks);
        self.di_servers.remove(addresses.di_server);
        Ok(running)
    }

    /// Ends all of them.
    pub async fn stop(mut self) {
        let numbers: Vec<usize> = self.running.iter().map(|running| running.number).collect();
        for number in numbers {
            let _ended = self.end(number).await;
        }
    }
}

impl Drop for Coordinators {
    fn drop(&mut self) {
        // A runtime must not be dropped where others run.
        for running in std::mem::take(&mut self.running) {
            running.runtime.shutdown_background();
        }
    }
}

// === impl Running ===

impl Running {
    /// The coordinator that runs.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        matches!(&*self.coordinator.leadership().borrow(), Leadership::Leading(_))
    }
}
