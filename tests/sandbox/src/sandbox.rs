//! The whole embedded cluster: server, controllers, nodes; made by a builder.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use muster_objects::meta;
use parking_lot::{Mutex, RwLock};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::admit::Admission;
use crate::api::Api;
use crate::auth::{self, Auth, Mode, User};
use crate::clock::Clock;
use crate::control::{self, Controllers, Which};
use crate::crd;
use crate::expiry;
use crate::faults::Faults;
use crate::kinds::Kinds;
use crate::kubelet::{KubeletOptions, Kubelets, NodeSpec};
use crate::listen::Listener;
use crate::service::InProcess;
use crate::store::{Expect, Limits, Store};
use crate::tls::Identity;

/// The token of the administrator in every sandbox: it guards nothing but loopback.
pub const ADMIN_TOKEN: &str = "sandbox-admin";

/// Settings of a sandbox to come.
#[derive(Debug, Default)]
pub struct Builder {
    clock: Clock,
    strict: bool,
    tls: bool,
    seed: u64,
    port: u16,
    limits: Limits,
    controllers: Option<Which>,
    nodes: Vec<NodeSpec>,
    kubelet: KubeletOptions,
    crds: Vec<Value>,
    services: HashMap<(String, String, u16), SocketAddr>,
}

/// A running sandbox. It ends when dropped; [`Sandbox::stop`] ends it in order.
#[derive(Debug)]
pub struct Sandbox {
    api: Arc<Api>,
    listener: Option<Listener>,
    address: SocketAddr,
    identity: Option<Identity>,
    controllers: Option<Controllers>,
    kubelets: Option<Kubelets>,
    folder: tempfile::TempDir,
}

// === impl Builder ===

impl Builder {
    /// Where the time comes from.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Demands credentials and enforces RBAC. Without it, whoever sends none is the administrator.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Serves HTTPS instead of HTTP. Stock clients such as kubectl send tokens over TLS only.
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// The seed of injected faults.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The port; 0 takes any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// How much the store keeps.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Which controllers run. Default: all; `None`: the bare API.
    pub fn controllers(mut self, which: Option<Which>) -> Self {
        self.controllers = which;
        self
    }

    /// Adds simulated nodes.
    pub fn nodes(mut self, nodes: Vec<NodeSpec>) -> Self {
        self.nodes = nodes;
        self
    }

    /// How the simulated kubelets behave.
    pub fn kubelet(mut self, options: KubeletOptions) -> Self {
        self.kubelet = options;
        self
    }

    /// A CustomResourceDefinition that is there from the start. One of a kind whose controller runs here, such as
    /// JobSet, takes the place of ours.
    pub fn crd(mut self, crd: Value) -> Self {
        self.crds.push(crd);
        self
    }

    /// Where a Service that webhooks name can be reached.
    pub fn service(mut self, namespace: &str, name: &str, port: u16, at: SocketAddr) -> Self {
        self.services.insert((namespace.to_owned(), name.to_owned(), port), at);
        self
    }

    /// Starts it all. Ready when this returns: objects can be created, nodes are registered.
    pub async fn start(self) -> anyhow::Result<Sandbox> {
        let store = Arc::new(Store::new(self.limits));
        let kinds = Arc::new(Kinds::builtin());
        let mode = if self.strict { Mode::Strict } else { Mode::Open };
        let auth = Auth::new(mode, self.clock.clone())?.with_token(ADMIN_TOKEN, User::admin());
        let api = Arc::new(Api {
            admission: Admission::new(store.clone(), kinds.clone(), self.services),
            store,
            kinds,
            clock: self.clock.clone(),
            auth,
            faults: Faults::new(self.seed),
            logs: RwLock::new(None),
            hosted: self.controllers.as_ref().map(control::hosted).unwrap_or_default(),
            definitions: Mutex::new(()),
            stop: CancellationToken::new(),
        });
        let identity = match self.tls {
            true => Some(Identity::make(&["127.0.0.1", "localhost", "kubernetes.default.svc"])?),
            false => None,
        };
        let listener = Listener::start(api.clone(), self.port, identity.as_ref())
            .await
            .with_context(|| format!("port {} on 127.0.0.1 cannot be bound", self.port))?;
        let folder = tempfile::Builder::new()
            .prefix("muster-sandbox-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let mut sandbox = Sandbox {
            address: listener.address,
            identity,
            api,
            listener: Some(listener),
            controllers: None,
            kubelets: None,
            folder,
        };
        write_private(&sandbox.kubeconfig_path(), &sandbox.kubeconfig(ADMIN_TOKEN))?;
        sandbox.furnish();
        tokio::spawn(expiry::run(sandbox.api.clone()));
        let mut crds = self.crds;
        if let Some(mut which) = self.controllers {
            if let (Some(identity), "") = (&sandbox.identity, which.root_ca.as_str()) {
                which.root_ca.clone_from(&identity.authority);
            }
            let given = |crd: &Value| crds.iter().any(|one| meta::name(one) == meta::name(crd));
            let more: Vec<Value> =
                control::crds(&which).into_iter().filter(|c| !given(c)).collect();
            crds.extend(more);
            let client = sandbox.client_named("kube-controller-manager");
            sandbox.controllers = Some(Controllers::start(client, self.clock.clone(), which));
        }
        for crd in crds {
            sandbox.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
        }
        if !self.nodes.is_empty() {
            let kubelets = Kubelets::start(
                sandbox.client_named("kubelet"),
                self.clock,
                self.nodes,
                self.kubelet,
            )
            .await?;
            *sandbox.api.logs.write() = Some(kubelets.logs());
            sandbox.kubelets = Some(kubelets);
        }
        Ok(sandbox)
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// Settings to start from: the machine's clock, all controllers, no nodes.
    pub fn builder() -> Builder {
        Builder { controllers: Some(Which::default()), ..Builder::default() }
    }

    /// Where it listens, e.g. `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// A client without a socket, as the administrator.
    pub fn client(&self) -> kube::Client {
        self.client_named("muster-sandbox")
    }

    /// The same under a name of its own, which shows in managed fields.
    pub fn client_named(&self, agent: &str) -> kube::Client {
        let service = InProcess::new(self.api.clone()).with_identity(ADMIN_TOKEN, agent);
        kube::Client::new(service, "default")
    }

    /// A client over HTTP, as the administrator.
    pub fn http_client(&self) -> anyhow::Result<kube::Client> {
        self.http_client_as(ADMIN_TOKEN)
    }

    /// A client over HTTP with a token of one's own.
    pub fn http_client_as(&self, token: &str) -> anyhow::Result<kube::Client> {
        let mut config = kube::Config::new(self.url().parse()?);
        if let Some(identity) = &self.identity {
            let authority = CertificateDer::from_pem_slice(identity.authority.as_bytes())?;
            config.root_cert = Some(vec![authority.to_vec()]);
        }
        config.auth_info.token = Some(token.to_owned().into());
        Ok(kube::Client::try_from(config)?)
    }

    /// The text of a kubeconfig that uses this token.
    pub fn kubeconfig(&self, token: &str) -> String {
        let mut cluster = json!({"server": self.url()});
        if let Some(identity) = &self.identity {
            let encoded = base64::engine::general_purpose::STANDARD.encode(&identity.authority);
            cluster["certificate-authority-data"] = json!(encoded);
        }
        let value = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "admin", "namespace": "default"}}],
            "users": [{"name": "admin", "user": {"token": token}}],
        });
        serde_saphyr::to_string(&value).unwrap_or_default()
    }

    /// The administrator's kubeconfig as a file. It goes with the sandbox.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder that goes with the sandbox.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server itself: its store, clock and faults.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// What goes wrong from now on.
    pub fn faults(&self) -> &Faults {
        &self.api.faults
    }

    /// The simulated nodes, if there are any.
    pub fn kubelets(&self) -> Option<&Kubelets> {
        self.kubelets.as_ref()
    }

    /// Stops the server and starts it again on the same port; the store is kept. Every connection and
    /// every watch ends, also those in the process.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        if let Some(listener) = self.listener.take() {
            listener.stop().await;
        }
        self.api.store.drop_watches(None);
        crd::serve_all(&self.api);
        let (port, identity) = (self.address.port(), self.identity.as_ref());
        self.listener = Some(Listener::start(self.api.clone(), port, identity).await?);
        Ok(())
    }

    /// Stops nodes, controllers and server, in this order.
    pub async fn stop(mut self) {
        if let Some(kubelets) = self.kubelets.take() {
            kubelets.stop().await;
        }
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await;
        }
        self.api.stop.cancel();
        if let Some(listener) = self.listener.take() {
            listener.stop().await;
        }
    }

    /// Posts an object as the administrator.
    pub async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, "sandbox")
            .body(serde_json::to_vec(object)?)?;
        self.client().request(request).await.with_context(|| format!("POST {path}"))
    }

    /// What every cluster has at its start.
    fn furnish(&self) {
        let now = self.api.clock.stamp();
        let stamped = |mut value: Value| {
            let metadata = muster_objects::meta::edit(&mut value);
            metadata.insert("uid".into(), json!(uuid::Uuid::new_v4().to_string()));
            metadata.insert("creationTimestamp".into(), json!(now));
            value
        };
        let put = |resource: &str, namespace: &str, value: Value| {
            let name = muster_objects::meta::name(&value).to_owned();
            let key = (namespace.to_owned(), name);
            if self.api.store.put(resource, key, Expect::Absent, stamped(value)).is_err() {
                tracing::error!(resource, "an object that every cluster has was there already");
            }
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            put("namespaces", "", namespace);
        }
        for (name, value) in
            [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
        {
            let class = json!({
                "metadata": {"name": name, "generation": 1},
                "value": value,
                "preemptionPolicy": "PreemptLowerPriority",
            });
            put("priorityclasses.scheduling.k8s.io", "", class);
        }
        for (resource, value) in auth::bootstrap() {
            let namespace = muster_objects::meta::namespace(&value).to_owned();
            put(resource, &namespace, value);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.api.stop.cancel();
    }
}

/// Writes a file that only its owner may read: kubeconfigs hold tokens.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}
