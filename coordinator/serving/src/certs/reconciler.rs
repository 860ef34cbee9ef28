//! One Secret for all replicas: everybody follows it, the leader makes and renews what is in it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::serving::{CertificateSender, Certificates, certificates};
use super::{Bundle, CertsError, Names, Plan, RenewalStep, plan, remake, renew, secret};
use crate::names::{CA_CONFIG_MAP, CERTS_SECRET};
use muster_runtime::reflector::{Reflector, Watch, watch};
use muster_runtime::writer::{WriteError, Writer};

/// It reconciles at least so often, since clocks can jump.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);

/// After an error it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// What was written is seen within this time, or looked for anew.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Keeps the certificates. Copies share all.
#[derive(Clone)]
pub struct CertReconciler {
    client: Client,
    namespace: String,
    names: Names,
    clock: Clock,
    reconcile_every: Duration,
    secret: Watch<Secret>,
    reflector: Arc<Mutex<Option<Reflector<Secret>>>>,
    change: Arc<CertificateSender>,
}

/// Why the certificates could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error(transparent)]
    Certs(#[from] CertsError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// How far a leader has come.
#[derive(Default)]
struct Lead {
    /// The version that was replaced; what the cache shows is old as long as it is this one.
    replaced: Option<Option<String>>,
}

// === impl CertReconciler ===

impl CertReconciler {
    /// Keeps the Secret of a namespace, good for these names; and what comes of it, to be served.
    pub fn new(client: Client, namespace: &str, names: Names) -> (Self, Certificates) {
        let (change, certificates) = certificates();
        let api = Api::namespaced(client.clone(), namespace);
        let (secret, reflector) = watch(api, only(CERTS_SECRET), |_| {});
        let keeper = Self {
            client,
            namespace: namespace.to_owned(),
            names,
            clock: Arc::new(Timestamp::now),
            reconcile_every: RECONCILE_EVERY,
            secret,
            reflector: Arc::new(Mutex::new(Some(reflector))),
            change: Arc::new(change),
        };
        (keeper, certificates)
    }

    /// With another clock, reconciled so often.
    pub fn with_clock(self, clock: Clock, reconcile_every: Duration) -> Self {
        Self { clock, reconcile_every, ..self }
    }

    /// Serves what is in the Secret, until stopped. Runs once in every replica; a second call returns at once.
    pub async fn follow(&self, stop: CancellationToken) {
        let Some(reflector) = self.reflector.lock().take() else { return };
        let mut changes = self.secret.subscribe();
        let swap = async {
            while !matches!(changes.recv().await, Err(RecvError::Closed)) {
                self.swap();
            }
        };
        tokio::select! {
            () = reflector.run(stop) => {}
            () = swap => {}
        }
    }

    fn swap(&self) {
        // Without a Secret the old certificate is better than none.
        let Some(bundle) = self.bundle().map(|(_, bundle)| bundle) else { return };
        match self.change.serve(&bundle) {
            Ok(()) => tracing::debug!("certificates are as in Secret {CERTS_SECRET}"),
            Err(error) => {
                let reason = error.reason();
                tracing::warn!(reason, "Secret {CERTS_SECRET} cannot be served: {error}");
            }
        }
    }

    /// What is in the Secret, and its version.
    fn bundle(&self) -> Option<(String, Bundle)> {
        let secret = self.secret.named(&self.namespace, CERTS_SECRET)?;
        Some((secret.resource_version().unwrap_or_default(), secret::bundle(&secret)))
    }

    /// Creates and renews certificates, and publishes the CA to agents, until stopped or deposed. Needs [`Self::follow`] beside it.
    pub async fn lead(&self, writer: Writer, stop: CancellationToken) {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let (published, reflector) = watch(api, only(CA_CONFIG_MAP), |_| {});
        let keep = async {
            self.secret.ready().await;
            published.ready().await;
            let (mut secrets, mut maps) = (self.secret.subscribe(), published.subscribe());
            let mut lead = Lead::default();
            loop {
                let wait = match self.reconcile(&mut lead, &writer, &published).await {
                    Ok(wait) => wait,
                    Err(ReconcileError::Write(WriteError::NotLeader(deposed))) => {
                        return tracing::info!("certificates are another's to keep: {deposed}");
                    }
                    Err(error) => {
                        let reason = error.reason();
                        tracing::warn!(reason, "certificates are not kept: {error}");
                        AGAIN.min(self.reconcile_every)
                    }
                };
                tokio::select! {
                    () = tokio::time::sleep(wait) => {
                        lead.replaced = None;
                    }
                    _ = secrets.recv() => {}
                    _ = maps.recv() => {}
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = reflector.run(stop.clone()) => {}
            () = keep => {}
        }
    }

    /// Does what is due. How long to wait for the next reconcile.
    async fn reconcile(
        &self,
        lead: &mut Lead,
        writer: &Writer,
        published: &Watch<ConfigMap>,
    ) -> Result<Duration, ReconcileError> {
        let found = self.bundle();
        let version = found.as_ref().map(|(version, _)| version.clone());
        if lead.replaced.as_ref() == Some(&version) {
            return Ok(SEEN_WITHIN);
        }
        lead.replaced = None;
        let bundle = found.map(|(_, bundle)| bundle);
        let now = (self.clock)();
        let plan = plan(now, bundle.as_ref(), &self.names);
        let publish = match (&bundle, &plan) {
            // Nobody shall trust what nobody can read.
            (Some(bundle), Plan::Keep { .. } | Plan::Renew { .. }) => {
                self.publish(writer, published, bundle).await
            }
            _ => Ok(()),
        };
        let next = match (&plan, &bundle) {
            (Plan::Keep { again_at }, _) => {
                publish?;
                let left = Duration::try_from(again_at.duration_since(now)).unwrap_or_default();
                return Ok(left.min(self.reconcile_every));
            }
            (Plan::Renew { step }, Some(bundle)) => {
                // An authority that agents were not told of must not sign. Other steps do not depend on it.
                if *step == RenewalStep::Adopt {
                    publish?;
                } else if let Err(error) = publish {
                    tracing::warn!(
                        reason = error.reason(),
                        "the CA is not published for agents: {error}"
                    );
                }
                tracing::info!(?step, "certificates are renewed");
                renew(*step, now, bundle, &self.names)?
            }
            (Plan::Remake { why }, _) => {
                tracing::info!("certificates are made anew: {why}");
                remake(now, &self.names)?
            }
            (Plan::Renew { .. }, None) => return Ok(self.reconcile_every),
        };
        self.write(writer, version.as_deref(), next).await?;
        lead.replaced = Some(version);
        Ok(SEEN_WITHIN)
    }

    /// Over this version, or a new one.
    async fn write(
        &self,
        writer: &Writer,
        version: Option<&str>,
        bundle: Bundle,
    ) -> Result<(), WriteError> {
        let api = writer.namespaced::<Secret>(&self.namespace);
        let written = match version {
            Some(version) => {
                writer.apply(&api, CERTS_SECRET, &secret::update(version, bundle)).await
            }
            None => writer.create(&api, &secret::new(&self.namespace, bundle)).await,
        };
        written.map(drop)
    }

    /// Publishes the CA in a ConfigMap for agents, if it differs.
    async fn publish(
        &self,
        writer: &Writer,
        published: &Watch<ConfigMap>,
        bundle: &Bundle,
    ) -> Result<(), WriteError> {
        let map = published.named(&self.namespace, CA_CONFIG_MAP);
        let known = map.as_deref().and_then(|map| map.data.as_ref()).and_then(|d| d.get("ca.crt"));
        if known == Some(&bundle.authorities) {
            return Ok(());
        }
        let api = writer.namespaced::<ConfigMap>(&self.namespace);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CA_CONFIG_MAP },
            "data": { "ca.crt": bundle.authorities },
        });
        writer.apply(&api, CA_CONFIG_MAP, &object).await.map(drop)
    }
}

impl fmt::Debug for CertReconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, names) = (&self.namespace, &self.names);
        f.debug_struct("CertReconciler")
            .field("namespace", namespace)
            .field("names", names)
            .finish_non_exhaustive()
    }
}

// === impl ReconcileError ===

impl ReconcileError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Certs(error) => error.reason(),
            Self::Write(error) => error.reason(),
        }
    }
}

fn only(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}
